from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.errors import InvalidQuery
from recalljoin.query.durations import (
    NANOSECONDS_PER,
    TimeUnit,
    describe,
    finest,
    in_unit,
    nanoseconds,
)

SECOND = 10**9


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("5 SEC", 5),
        ("5 seconds", 5),
        ("5s", 5),
        ("  5   Secs ", 5),
        ("1 minute", 60),
        ("1 MIN", 60),
        ("1 h", 3600),
        ("2 hours", 7200),
        ("1 day", 86_400),
        ("1 week", 604_800),
        ("1 minute 30 seconds", 90),
        ("1min30s", 90),
        ("1.5 s", 1.5),
        (".5 s", 0.5),
        ("300ms", 0.3),
        ("300 milliseconds", 0.3),
        ("250 us", 0.00025),
        ("250 µs", 0.00025),
        ("250 μs", 0.00025),
        ("7 ns", 7e-9),
        ("0 s", 0),
        (0, 0),
        (1500, 1.5),
        (timedelta(minutes=1, microseconds=1), 60.000001),
    ],
)
def test_durations_are_read_as_people_write_them(written: Any, seconds: float) -> None:
    assert nanoseconds(written, name="window") == round(seconds * SECOND)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "five seconds",
            "`window` must be a duration, got 'five seconds'; write text such as '5 seconds', "
            "a whole number of milliseconds, or a timedelta",
        ),
        (
            "",
            "`window` must be a duration, got ''; write text such as '5 seconds', "
            "a whole number of milliseconds, or a timedelta",
        ),
        (
            0.5,
            "`window` must be a duration, got 0.5; write text such as '5 seconds', "
            "a whole number of milliseconds, or a timedelta",
        ),
        (
            True,
            "`window` must be a duration, got True; write text such as '5 seconds', "
            "a whole number of milliseconds, or a timedelta",
        ),
        ("500", "`window` of '500' has no unit; write '500 ms' for milliseconds"),
        ("5 m", "`window` of '5 m': `m` may be read in several ways; write `min` or `ms`"),
        ("1 month", "`window` of '1 month': a month has no fixed length; write days instead"),
        (
            "5 parsecs",
            "`window` of '5 parsecs': unknown unit `parsecs`; "
            "write one of ns, us, ms, sec, min, hour, day, week",
        ),
        (
            "0.5 ns",
            "`window` of '0.5 ns' is finer than a nanosecond; write whole nanoseconds",
        ),
        ("-5 s", "`window` must not be negative, got '-5 s'; write a duration of 0 or more"),
        (-5, "`window` must not be negative, got -5; write a duration of 0 or more"),
        (
            timedelta(seconds=-1),
            "`window` must not be negative, got datetime.timedelta(days=-1, seconds=86399); "
            "write a duration of 0 or more",
        ),
    ],
)
def test_what_is_no_duration_is_refused_with_the_way_out(written: Any, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        nanoseconds(written, name="window")
    assert str(caught.value) == message


@given(st.integers(0, 10**21), st.sampled_from(get_args(TimeUnit)))
def test_units_are_counted_rounding_down(length: int, unit: TimeUnit) -> None:
    ticks = in_unit(length, unit)
    assert ticks * NANOSECONDS_PER[unit] <= length < (ticks + 1) * NANOSECONDS_PER[unit]


@given(st.integers(0, 10**21))
def test_a_described_duration_reads_back_as_the_same(length: int) -> None:
    assert nanoseconds(describe(length), name="window") == length


def test_the_finest_unit_counts_them_all() -> None:
    assert finest({"s", "ms"}) == "ms"
    assert finest({"s", "us", "ms"}) == "us"
    assert finest({"ns", "s"}) == "ns"

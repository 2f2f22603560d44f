"""Integer times that look like another unit are mentioned, others are not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import recalljoin as rj

if TYPE_CHECKING:
    from recalljoin.query.durations import TimeUnit

QUERY = "SELECT count(*) FROM a [5 SEC], b [5 SEC]"
NOW = 1_700_000_000
"""In seconds since 1970."""


def warnings(caplog: pytest.LogCaptureFixture, times: list[int], unit: TimeUnit) -> list[str]:
    table = pa.table({"ts": pa.array(times, pa.int64())})
    with caplog.at_level(logging.WARNING, "recalljoin"):
        rj.replay(QUERY, {"a": table, "b": table.slice(0, 0)}, time_unit=unit)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("count", "said", "alike", "words"),
    [
        (NOW, "ms", "s", "milliseconds: 1700000000 is 1970-01-20. They look like seconds"),
        (NOW * 10**6, "ms", "us", "milliseconds: 1700000000000000 is after the year 9999. They"),
        (NOW * 10**9, "ms", "ns", "They look like nanoseconds since 1970"),
        (NOW * 10**3, "s", "ms", "seconds: 1700000000000 is after the year 9999. They look"),
        (NOW * 10**3, "ns", "ms", "nanoseconds: 1700000000000 is 1970-01-01. They look like milli"),
    ],
)
def test_times_that_look_like_another_unit_are_mentioned_once(
    caplog: pytest.LogCaptureFixture, count: int, said: TimeUnit, alike: str, words: str
) -> None:
    (message,) = warnings(caplog, [count] * 200, said)
    assert message.startswith("times of stream `a` are taken as ")
    assert words in message
    assert message.endswith(f"since 1970; if they are, give time_unit='{alike}'")


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([0, 1, 2], "ms"),
        ([10**7], "ms"),
        ([10**7], "s"),
        ([-5, 3], "ns"),
        ([NOW * 10**3], "ms"),
        ([NOW], "s"),
        ([NOW * 10**6], "us"),
        ([NOW * 10**9], "ns"),
        # One row that is wrong says nothing about the others.
        ([NOW, *range(NOW * 10**3, NOW * 10**3 + 20)], "ms"),
        ([], "ms"),
    ],
)
def test_counters_and_times_in_the_right_unit_are_not_mentioned(
    caplog: pytest.LogCaptureFixture, times: list[int], unit: TimeUnit
) -> None:
    assert warnings(caplog, times, unit) == []


def test_times_that_are_all_out_of_range_are_mentioned_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stamps = pa.table({"ts": pa.array([NOW * 10**9], pa.timestamp("ns"))})
    counts = pa.table({"ts": [NOW * 10**9]})
    with caplog.at_level(logging.WARNING, "recalljoin"):
        found = rj.replay(QUERY, {"a": counts, "b": stamps})
    assert found.refused["a", "time out of range"].num_rows == 1
    (record,) = caplog.records
    assert "1700000000000000000 is after the year 9999. They look like nano" in record.getMessage()


def test_timestamps_are_never_in_doubt(caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"ts": pa.array([NOW], pa.timestamp("ms"))})
    with caplog.at_level(logging.WARNING, "recalljoin"):
        rj.replay(QUERY, {"a": table, "b": table})
    assert not caplog.records


def test_next_to_timestamps_the_number_in_the_table_is_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stamps = pa.table({"ts": pa.array([NOW * 10**6], pa.timestamp("us"))})
    with caplog.at_level(logging.WARNING, "recalljoin"):
        rj.advise("SELECT * FROM a [600 DAYS], b [60000 DAYS]",
                  {"a": stamps, "b": pa.table({"ts": [NOW]})}, max_ahead=None)  # fmt: skip
    assert "milliseconds: 1700000000 is 1970-01-20" in caplog.records[0].getMessage()

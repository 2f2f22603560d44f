from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidTarget
from recalljoin.query.bound_query import BoundQuality
from recalljoin.query.quality import Quality, bind_quality

if TYPE_CHECKING:
    from recalljoin.query.durations import TimeUnit

SECOND = 10**9


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"recall": 95}, "`recall` must be in (0, 1], got 95; write 0.95 for 95 %"),
        ({"recall": 99.9}, "`recall` must be in (0, 1], got 99.9; write 0.999 for 99.9 %"),
        ({"recall": 0}, "`recall` must be in (0, 1], got 0; write a share such as 0.95"),
        ({"recall": -0.5}, "`recall` must be in (0, 1], got -0.5; write a share such as 0.95"),
        ({"recall": 950}, "`recall` must be in (0, 1], got 950; write a share such as 0.95"),
        (
            {"recall": float("nan")},
            "`recall` must be in (0, 1], got nan; write a share such as 0.95",
        ),
        (
            {"recall": "0.95"},
            "`recall` must be a number in (0, 1], got '0.95'; write for example 0.95",
        ),
        (
            {"recall": True},
            "`recall` must be a number in (0, 1], got True; write for example 0.95",
        ),
        (
            {"period": "500 ms"},
            "`period` must be at least as long as `interval`, got 500 ms and 1 s; "
            "write a longer period or a shorter interval",
        ),
        (
            {"interval": 0},
            "`interval` must be longer than 0, got 0; write for example '1 second'",
        ),
        (
            {"granularity": "0 ms"},
            "`granularity` must be longer than 0, got '0 ms'; write for example '1 second'",
        ),
        (
            {"granularity": "-1 ms"},
            "`granularity` must not be negative, got '-1 ms'; write a duration of 0 or more",
        ),
        (
            {"basic_window": 0},
            "`basic_window` must be longer than 0, got 0; write for example '1 second'",
        ),
        (
            {"max_wait": "soon"},
            "`max_wait` must be a duration, got 'soon'; write text such as '5 seconds', "
            "a whole number of milliseconds, or a timedelta",
        ),
    ],
)
def test_a_target_out_of_range_is_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        Quality(**settings)
    assert caught.value.faults == (fault,)


def test_all_faults_of_a_target_come_together() -> None:
    with pytest.raises(InvalidTarget) as caught:
        Quality(recall=2, period="1 ms", granularity=0, max_wait=-1)
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize("recall", [1, 1.0, 0.999, 1e-9])
def test_every_share_above_zero_is_a_target(recall: float) -> None:
    assert Quality(recall=recall).recall == recall


def test_a_period_of_one_interval_is_a_target() -> None:
    assert Quality(period="1 s", interval="1 s").period == "1 s"


def bound(quality: Quality, unit: TimeUnit, *windows: int) -> BoundQuality | list[str]:
    faults: list[str] = []
    found = bind_quality(quality, windows or (5 * SECOND,), unit, faults)
    assert (found is None) == bool(faults)
    return faults if found is None else found


def test_the_paper_s_settings_are_the_default() -> None:
    assert bound(Quality(), "ms") == BoundQuality(
        recall=0.95, period=60_000, interval=1000, granularity=None, basic_window=10, min_wait=0,
        max_wait=None, initial_wait=None,
    )  # fmt: skip


def test_durations_are_counted_in_the_unit_of_the_query() -> None:
    found = bound(
        Quality(min_wait=1, max_wait="2 s", initial_wait="1 s", granularity="1500 us"), "us"
    )
    assert found == BoundQuality(
        recall=0.95,
        period=60_000_000,
        interval=1_000_000,
        granularity=1500,
        basic_window=10_000,
        min_wait=1000,
        max_wait=2_000_000,
        initial_wait=1_000_000,
    )


def test_steps_are_at_least_one_unit() -> None:
    found = bound(Quality(granularity="10 ms"), "s")
    assert found == BoundQuality(
        recall=0.95, period=60, interval=1, granularity=1, basic_window=1, min_wait=0,
        max_wait=None, initial_wait=None,
    )  # fmt: skip


def test_an_interval_below_the_unit_is_refused() -> None:
    assert bound(Quality(interval="100 ms", period="900 ms"), "s") == [
        "`period` must be at least 1 s, the unit of the time columns, got 900 ms; "
        "write a longer one",
        "`interval` must be at least 1 s, the unit of the time columns, got 100 ms; "
        "write a longer one",
    ]


def test_a_basic_window_fits_into_the_smallest_window() -> None:
    quality = Quality(basic_window="10 s")
    assert bound(quality, "ms", 5 * SECOND, 20 * SECOND) == [
        "`basic_window` must not be longer than the smallest window, got 10 s and 5 s; "
        "write a shorter one or leave it out"
    ]
    assert isinstance(bound(quality, "ms", 10 * SECOND), BoundQuality)


def test_the_default_basic_window_adapts_to_short_windows() -> None:
    found = bound(Quality(), "us", SECOND // 1000, 5 * SECOND)
    assert isinstance(found, BoundQuality)
    assert found.basic_window == 1000


def test_a_window_of_zero_limits_no_basic_window() -> None:
    found = bound(Quality(basic_window="1 s"), "ms", 0, 5 * SECOND)
    assert isinstance(found, BoundQuality)
    assert found.basic_window == 1000
    alone = bound(Quality(), "ms", 0, 0)
    assert isinstance(alone, BoundQuality)
    assert alone.basic_window == 10

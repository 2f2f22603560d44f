"""Settings out of range are refused with a message that names the rule."""

from __future__ import annotations

from typing import Any

import pytest

from recalljoin.datasets import make_syn_x3
from recalljoin.errors import InvalidTarget
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.text import parse_query
from tests.unit.quality.profiles import bound_and_arrivals


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"recall": 0}, "`recall` must be in (0, 1], got 0; write 0.95 for 95 %"),
        ({"recall": 95}, "`recall` must be in (0, 1], got 95; write 0.95 for 95 %"),
        ({"recall": float("nan")}, "`recall` must be in (0, 1], got nan; write 0.95 for 95 %"),
        ({"period": 0, "interval": 0}, "`period` must be longer than 0, got 0"),
        ({"interval": 0}, "`interval` must be longer than 0, got 0"),
        ({"granularity": 0}, "`granularity` must be longer than 0, got 0"),
        ({"granularity": -10}, "`granularity` must be longer than 0, got -10"),
        ({"basic_window": 0}, "`basic_window` must be longer than 0, got 0"),
        (
            {"period": 1000, "interval": 2000},
            "`interval` must not be longer than `period`, got 2000 and 1000; recall over a period "
            "is steered by several intervals",
        ),
        (
            {"basic_window": 501},
            "`basic_window` must not be longer than the smallest window, got 501 and 500",
        ),
        ({"max_wait": -1}, "`max_wait` must not be negative, got -1"),
        ({"min_wait": -1}, "`min_wait` must not be negative, got -1"),
        ({"initial_wait": -1}, "`initial_wait` must not be negative, got -1"),
        (
            {"min_wait": 9, "max_wait": 8},
            "`min_wait` must not be longer than `max_wait`, got 9 and 8",
        ),
        ({"windows": (5,)}, "`windows` must be those of 2 streams or more, got (5,)"),
        ({"windows": (50, -5)}, "`windows` must not be negative, got (50, -5)"),
    ],
)
def test_a_setting_out_of_range_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTarget) as error:
        PolicySettings(**{"windows": (500, 800), **setting})
    assert message in error.value.faults


def test_all_faults_are_told_together() -> None:
    with pytest.raises(InvalidTarget) as error:
        PolicySettings(windows=(5, 5), recall=2, granularity=0, basic_window=7)
    assert len(error.value.faults) == 3


def test_the_extremes_are_allowed() -> None:
    settings = PolicySettings(
        windows=(0, 7), recall=1, period=1, interval=1, granularity=1, basic_window=7, max_wait=0
    )
    assert settings.recall == 1


def test_a_query_without_a_target_gets_the_defaults_in_its_own_unit() -> None:
    bound, _ = bound_and_arrivals(make_syn_x3(seed=5, duration=1000))
    assert PolicySettings.of(bound) == PolicySettings(windows=(5000,) * 3)


def test_a_query_with_a_target_gets_that() -> None:
    query = parse_query(
        "SELECT count(*) FROM s1 [5 SEC], s2 [5 SEC], s3 [5 SEC] "
        "WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1 WITH RECALL 0.9 OVER 30 SEC"
    )
    bound, _ = bound_and_arrivals(make_syn_x3(seed=5, duration=1000))
    bound = query.bind({stream.name: stream.schema for stream in bound.streams})
    settings = PolicySettings.of(bound)
    assert (settings.recall, settings.period, settings.interval) == (0.9, 30_000, 1000)

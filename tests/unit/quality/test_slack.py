"""The required-slack policy, part by part."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.quality import PolicySettings, Profile, Tally
from recalljoin.quality.slack import Curve, RequiredSlack, SlackHistory, cautious

SETTINGS = PolicySettings(windows=(100, 100), recall=0.9, period=4000, interval=1000)


def history(*intervals: list[int], n_intervals: int = 10) -> SlackHistory:
    made = SlackHistory(n_intervals)
    for bins in intervals:
        made.observe(np.array([bins, [0] * len(bins)]))
    return made


def interval(
    produced: list[int], lost: list[int] | None = None, *, join_time: int = 1000
) -> Profile:
    missed = lost or [0] * len(produced)
    at = np.array([join_time])
    return dataclasses.replace(
        Profile.empty(2, granularity=10),
        slack=np.array([produced, missed]),
        produced=Tally.of(at, np.array([sum(produced)])),
        lost=Tally.of(at, np.array([sum(missed)])),
        join_time=join_time,
    )


def test_recall_of_k_is_the_share_of_results_that_require_less() -> None:
    # Bin 0 requires less than 0, bin 1 from 0 to below g, and so on: K = 0 gives bin 0 alone,
    # K = g bins 0 and 1.
    curve = history([6, 2, 0, 2]).curve()
    assert curve is not None
    assert curve.recall.tolist() == [0.6, 0.8, 0.8, 1.0]


def test_lost_results_count_like_produced_ones() -> None:
    made = SlackHistory(10)
    made.observe(np.array([[6, 2, 0], [0, 1, 1]]))
    curve = made.curve()
    assert curve is not None
    assert curve.recall.tolist() == [0.6, 0.9, 1.0]


def test_intervals_weigh_by_their_results() -> None:
    curve = history([90, 10], [0, 100]).curve()
    assert curve is not None
    assert curve.recall.tolist() == [0.45, 1.0]


def test_older_intervals_are_forgotten() -> None:
    curve = history([100, 0, 0, 0, 5], [5, 5], [8, 2], n_intervals=2).curve()
    assert curve is not None
    assert curve.recall[:2].tolist() == [0.65, 1.0]


def test_the_spread_is_that_of_the_recall_of_intervals() -> None:
    # Recall at K = 0: 0.8, 0.6, 0.7; their standard deviation is 0.1. At K = g always 1.
    curve = history([8, 2], [6, 4], [7, 3]).curve()
    assert curve is not None
    assert curve.spread.tolist() == pytest.approx([0.1, 0.0])


def test_without_results_there_is_no_curve() -> None:
    assert history().curve() is None
    assert history([0, 0]).curve() is None


def test_only_the_last_intervals_can_be_kept() -> None:
    made = history([0, 9], [8, 2], [6, 4])
    made.keep_last(2)
    curve = made.curve()
    assert curve is not None
    assert curve.recall.tolist() == [0.7, 1.0]


def test_the_cautious_choice_keeps_a_margin_for_the_spread() -> None:
    curve = Curve(np.array([0.8, 0.93, 0.97, 1.0]), np.array([0.1, 0.04, 0.02, 0.0]))
    assert cautious(curve, recall=0.9, z=0, n_intervals=4) == 1
    # 0.9 + 2 * 0.04 / 2 is more than 0.93, and 0.9 + 2 * 0.02 / 2 less than 0.97.
    assert cautious(curve, recall=0.9, z=2, n_intervals=4) == 2


def test_the_margin_never_asks_for_everything() -> None:
    # The target stays at 1 - 0.02 * (1 - 0.9) = 0.998, however large the spread.
    curve = Curve(np.array([0.5, 0.999, 1.0]), np.array([1.0, 1.0, 1.0]))
    assert cautious(curve, recall=0.9, z=100, n_intervals=1) == 1


def test_k_follows_what_results_require() -> None:
    policy = RequiredSlack(SETTINGS, z=0)
    assert policy.estimated_recall is None
    policy.observe(interval([80, 5, 10, 5]))
    assert policy.adapt() == 20
    assert policy.estimated_recall == 0.95


def test_with_no_result_at_all_k_stays() -> None:
    policy = RequiredSlack(SETTINGS)
    policy.observe(Profile.empty(2, granularity=10))
    assert policy.adapt() == 0
    policy.observe(interval([1, 1, 1]))
    k = policy.adapt()
    assert k > 0
    policy.observe(Profile.empty(2, granularity=10))
    assert policy.adapt() == k


def test_with_everything_in_order_k_is_0() -> None:
    policy = RequiredSlack(SETTINGS)
    for second in range(1, 9):
        policy.observe(interval([500], join_time=1000 * second))
        assert policy.adapt() == 0


def test_lost_and_produced_results_decide_alike() -> None:
    lossy = RequiredSlack(SETTINGS, z=0)
    lossy.observe(interval([50, 0, 0, 0, 0], [0, 45, 3, 1, 1]))
    calm = RequiredSlack(SETTINGS, z=0)
    calm.observe(interval([50, 45, 3, 1, 1]))
    assert lossy.adapt() == calm.adapt() == 10


def test_k_does_for_the_share_of_periods_that_is_asked() -> None:
    # Every sixth interval needs 5 steps, the others 1; a period is 4 intervals, so 4 periods in 6
    # see a bad one. In those, 10 of 40 results need more than 1 step.
    def run(share: float) -> int:
        policy = RequiredSlack(SETTINGS, share=share, z=0)
        for second in range(1, 133):
            bad = second % 6 == 0
            policy.observe(
                interval([0, 0, 0, 0, 0, 10] if bad else [0, 10], join_time=1000 * second)
            )
            policy.adapt()
        return policy.k

    assert run(0.3) == 10
    assert run(0.97) == 50


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"share": 0}, "`share` must be in (0, 1], got 0"),
        ({"share": 1.5}, "`share` must be in (0, 1], got 1.5"),
        ({"memory": 1}, "`memory` must be at least 2 periods, got 1"),
        ({"z": -0.1}, "`z` must not be negative, got -0.1"),
    ],
)
def test_options_out_of_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)):
        RequiredSlack(SETTINGS, **option)


def test_memory_is_counted_in_periods() -> None:
    assert RequiredSlack(SETTINGS).needs.needed.maxlen == 240
    assert RequiredSlack(SETTINGS, memory=3).needs.needed.maxlen == 12

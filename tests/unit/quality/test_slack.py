"""The required-slack policy, part by part."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.quality import PolicySettings, Profile, Tally
from recalljoin.quality.slack import (
    Curve,
    RequiredSlack,
    SlackHistory,
    choose_k,
    target_of,
)

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


def test_a_recall_that_was_missed_is_made_up_for_and_noise_kept_off() -> None:
    curve = Curve(np.array([0.8, 0.9]), np.array([0.1, 0.04]))
    target = target_of(curve, recall=0.9, measured=0.88, gain=1.0, z=2.0, n_intervals=4)
    # 0.9 + 0.02 + 2 * spread / 2
    assert target.tolist() == pytest.approx([min(1.02, 0.998), 0.96])


def test_the_target_stays_below_what_only_waiting_for_all_would_reach() -> None:
    curve = Curve(np.array([0.5]), np.array([1.0]))
    target = target_of(curve, recall=0.9, measured=0.1, gain=1.0, z=2.0, n_intervals=1)
    assert target.tolist() == pytest.approx([1 - 0.02 * 0.1])


def test_the_smallest_k_that_reaches_its_target_is_chosen() -> None:
    recall = np.array([0.5, 0.8, 0.9, 1.0])
    curve = Curve(recall, np.zeros(4))
    assert choose_k(curve, np.full(4, 0.8)) == 1
    assert choose_k(curve, np.full(4, 0.81)) == 2
    assert choose_k(curve, np.full(4, 1.1)) == 3


def test_k_follows_what_results_require() -> None:
    policy = RequiredSlack(SETTINGS, gain=0, z=0)
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


def test_losses_of_the_last_period_raise_k() -> None:
    # Half of the results of the period are lost: aims at 0.9 + (0.9 - 0.5) and so at everything.
    policy = RequiredSlack(SETTINGS, z=0)
    policy.observe(interval([50, 0, 0, 0, 0], [0, 45, 3, 1, 1]))
    assert policy.adapt() == 40
    # Afterwards the same, but nothing is lost.
    calm = RequiredSlack(SETTINGS, z=0)
    calm.observe(interval([50, 45, 3, 1, 1]))
    assert calm.adapt() == 10


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"history": 0}, "`history` must be longer than 0, got 0"),
        ({"gain": -1}, "`gain` must not be negative, got -1"),
        ({"z": -0.1}, "`z` must not be negative, got -0.1"),
    ],
)
def test_options_out_of_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        RequiredSlack(SETTINGS, **option)


def test_history_is_counted_in_periods() -> None:
    assert RequiredSlack(SETTINGS).history.n_intervals == 8
    assert RequiredSlack(SETTINGS, history=0.5).history.n_intervals == 2

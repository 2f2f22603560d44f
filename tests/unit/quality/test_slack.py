"""The required-slack policy: what it chooses, and how it follows changes."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recalljoin.engine.disorder import MAX_TIME
from recalljoin.engine.slack_bins import N_BINS, slack_bin
from recalljoin.errors import InvalidSetting
from recalljoin.quality import PolicySettings, Profile
from recalljoin.quality.slack import ENOUGH_ARRIVALS, LatestDelays, RequiredSlack
from tests.unit.quality.intervals import arrived, interval

SETTINGS = PolicySettings(windows=(1000, 1000), recall=0.9, period=60_000, interval=1000)


def needing(step: int) -> list[int]:
    """100 results; with K = step, 95 of them are produced, with less only 80."""
    bins = [0] * (step + 2)
    bins[0] += 80
    bins[step] += 15
    bins[step + 1] += 5
    return bins


class Run:
    """A policy that sees one interval a second."""

    def __init__(self, **options: Any) -> None:
        self.policy = RequiredSlack(SETTINGS, **options)
        self.second = 0

    def go(self, *steps: int, seconds: int = 1) -> int:
        for _ in range(seconds):
            for step in steps:
                self.second += 1
                end = 1000 * self.second - 1
                self.policy.observe(interval(needing(step), join_time=end))
                self.policy.adapt()
        return self.policy.k


def test_k_is_what_results_need_from_the_first_interval_on() -> None:
    run = Run()
    assert run.policy.k == 0
    assert run.policy.estimated_recall is None
    assert run.go(3) == 3
    assert run.policy.estimated_recall == pytest.approx(0.95)
    assert run.go(3, seconds=100) == 3


def test_with_no_result_at_all_k_stays() -> None:
    policy = RequiredSlack(SETTINGS)
    policy.observe(Profile.empty(2, granularity=10))
    assert policy.adapt() == 0
    policy.observe(interval([1, 1, 1], join_time=999))
    k = policy.adapt()
    assert k == 2
    policy.observe(Profile.empty(2, granularity=10))
    assert policy.adapt() == k


def test_with_everything_in_order_k_is_0() -> None:
    run = Run()
    for _ in range(200):
        assert run.go(0) == 0


def test_lost_and_produced_results_decide_alike() -> None:
    lossy, calm = RequiredSlack(SETTINGS), RequiredSlack(SETTINGS)
    lossy.observe(interval([50, 0, 0, 0, 0], [0, 45, 3, 1, 1], join_time=999))
    calm.observe(interval([50, 45, 3, 1, 1], join_time=999))
    assert lossy.adapt() == calm.adapt() == 1


def test_k_is_enough_for_the_share_of_stretches_that_is_asked() -> None:
    # In every 100 seconds there are 20 in a row that need 9 ms: more than 14 in 100 stretches
    # of 10 seconds need it, and fewer than half.
    def run(share: float) -> int:
        made = Run(share=share)
        return made.go(*[2] * 80, *[9] * 20, seconds=5)

    assert run(0.87) == 9
    assert run(0.5) == 2


def test_rare_bad_stretches_are_not_waited_for() -> None:
    run = Run()
    run.go(*[2] * 300, *[9] * 5)
    assert run.go(2, seconds=100) == 2


def test_a_surge_is_followed_within_two_stretches() -> None:
    run = Run()
    assert run.go(4, seconds=200) == 4
    run.go(40, seconds=21)
    assert run.policy.k == 40
    run.go(40, seconds=200)
    assert run.policy.k == 40


def test_a_smaller_rise_is_followed_once_it_lasts() -> None:
    run = Run()
    run.go(*[10, 11, 12, 13], seconds=100)
    before = run.policy.k
    assert before <= 13
    run.go(16, seconds=45)
    assert run.policy.k == 16


def test_what_was_usual_before_a_change_is_forgotten() -> None:
    run = Run()
    run.go(4, seconds=600)
    run.go(40, seconds=100)
    assert 4 not in run.policy.stretches.known


def test_k_comes_down_again_within_two_periods() -> None:
    run = Run()
    run.go(40, seconds=600)
    assert run.policy.k == 40
    # Or 5: one stretch had both kinds in it.
    assert run.go(4, seconds=119) in (4, 5)


def test_k_comes_down_after_an_episode_that_was_followed() -> None:
    run = Run()
    run.go(10, seconds=600)
    run.go(22, seconds=50)
    assert run.policy.k == 22
    # More than one period in twenty needed more: some headroom stays, if not for all of it.
    run.go(10, seconds=119)
    assert run.policy.k == 15
    run.go(10, seconds=900)
    assert run.policy.k == 10


def test_there_is_no_headroom_at_a_high_recall() -> None:
    run = Run()
    run.policy = RequiredSlack(replace(SETTINGS, recall=0.99))
    usual = run.go(10, seconds=600)
    assert run.go(22, seconds=50) > usual
    assert run.go(10, seconds=119) == usual


def test_k_never_exceeds_the_largest_delay_of_late() -> None:
    policy = RequiredSlack(SETTINGS)
    policy.observe(interval(needing(50), join_time=999))
    assert policy.adapt() == 50
    policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=33, clock=2000))
    assert policy.adapt() == 34


def test_k_is_a_multiple_of_the_granularity_where_one_is_set() -> None:
    policy = RequiredSlack(replace(SETTINGS, granularity=10))
    policy.observe(interval(needing(51), join_time=999))
    assert policy.adapt() == 60
    # Of 100 results 95 need 51 or less: 60 is no less than that.
    assert policy.estimated_recall == pytest.approx(1.0)
    policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=33, clock=2000))
    assert policy.adapt() == 40


def test_k_is_no_larger_than_a_slack_can_be() -> None:
    policy = RequiredSlack(SETTINGS)
    policy.observe(interval([0] * (N_BINS - 1) + [1], join_time=999))
    assert policy.adapt() == MAX_TIME


def test_the_same_streams_in_another_unit_have_the_same_k() -> None:
    # Bins are as fine as the unit of time, or 0.8 % of the slack: in milliseconds K is one more
    # than the slack, in microseconds up to 0.8 % more.
    def k(units: int) -> int:
        settings = PolicySettings(
            windows=(1000 * units,) * 2, recall=0.9, period=60_000 * units, interval=1000 * units
        )
        policy = RequiredSlack(settings)
        rng = np.random.default_rng(1)
        for second in range(1, 200):
            bins = np.zeros(N_BINS, dtype=np.int64)
            for slack in rng.integers(-300, 250, 50).tolist():
                bins[slack_bin(slack * units, 0)] += 1
            policy.observe(interval(bins.tolist(), join_time=1000 * units * second - 1))
            policy.adapt()
        return policy.k

    assert 0.992 * 1000 * (k(1) - 1) < k(1000) < 1.008 * 1000 * k(1)


@pytest.mark.slow
def test_an_adaptation_takes_less_than_a_millisecond_whatever_the_unit() -> None:
    # Microseconds, and slacks of up to 20 s: as many bins as there are for them.
    second = 1_000_000
    settings = PolicySettings(
        windows=(second, second), recall=0.95, period=60 * second, interval=second
    )
    policy = RequiredSlack(settings)
    rng = np.random.default_rng(0)
    n_bins = slack_bin(20 * second, 0) + 1
    took = []
    for n in range(1, 300):
        results, lost = rng.integers(0, 3, (2, n_bins)).tolist()
        policy.observe(interval(results, lost, join_time=n * second - 1))
        began = time.perf_counter()
        policy.adapt()
        took.append(time.perf_counter() - began)
    assert np.median(took[200:]) < 1e-3


def test_delays_count_for_a_period() -> None:
    delays = LatestDelays(60_000)
    delays.observe(arrived(n=1000, largest_delay=500, clock=1000))
    delays.observe(arrived(n=1000, largest_delay=20, clock=2000))
    assert delays.largest == 500
    delays.observe(arrived(n=1000, largest_delay=10, clock=61_000))
    assert delays.largest == 20


def test_few_delays_say_nothing_and_count_longer() -> None:
    delays = LatestDelays(60_000)
    delays.observe(arrived(n=ENOUGH_ARRIVALS - 1, largest_delay=500, clock=1000))
    assert delays.largest is None
    delays.observe(arrived(n=1, largest_delay=20, clock=200_000))
    assert delays.largest == 500


def test_the_forecast_is_the_recall_of_each_k_over_the_last_period() -> None:
    run = Run()
    assert run.policy.forecast() is None
    run.go(3, seconds=70)
    forecast = run.policy.forecast()
    assert forecast is not None
    assert forecast.k[:5].tolist() == [0, 1, 2, 3, 4]
    assert forecast.recall[:5].tolist() == pytest.approx([0.8, 0.8, 0.8, 0.95, 1.0])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"share": 0}, "`share` must be in (0, 1], got 0"),
        ({"share": 1.5}, "`share` must be in (0, 1], got 1.5"),
        ({"memory": 1}, "`memory` must be at least 2 periods, got 1"),
    ],
)
def test_options_out_of_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)):
        RequiredSlack(SETTINGS, **option)


def test_needs_of_all_stretches_and_periods_are_remembered() -> None:
    run = Run()
    run.go(3, seconds=600)
    assert len(run.policy.stretches.known) == 591
    assert len(run.policy.periods.known) == 541


def test_memory_is_counted_in_periods() -> None:
    assert RequiredSlack(SETTINGS).stretches.settled.maxlen == 3600
    assert RequiredSlack(SETTINGS, memory=3).periods.settled.maxlen == 180


def test_a_snapshot_goes_on_as_the_original() -> None:
    run, other = Run(), Run()
    run.go(*range(20), seconds=15)
    run.policy.observe(arrived(n=500, largest_delay=900, clock=1000))
    other.policy.restore(json.loads(json.dumps(run.policy.snapshot())))
    other.second = run.second
    assert other.policy.k == run.policy.k
    assert other.policy.estimated_recall == run.policy.estimated_recall
    for step in (9, 30, 30, 30, 2):
        assert run.go(step, seconds=9) == other.go(step, seconds=9)

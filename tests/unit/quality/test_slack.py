"""The required-slack policy: what it chooses, and how it follows changes."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from recalljoin.engine.slack_bins import N_BINS, slack_bin
from recalljoin.errors import InvalidSetting
from recalljoin.quality.delays import ENOUGH_ARRIVALS
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack import LEARNED, STRETCH, RequiredSlack
from recalljoin.query.durations import MAX_TIME
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


def test_k_is_careful_until_a_stretch_is_known_and_then_what_results_need() -> None:
    run = Run()
    assert run.policy.k == 10_000
    assert run.policy.estimated_recall is None
    assert run.go(3, seconds=STRETCH - 1) == 10_000
    assert run.policy.estimated_recall == pytest.approx(1.0)
    assert run.go(3) == 3
    assert run.policy.estimated_recall == pytest.approx(0.95)
    assert run.go(3, seconds=200) == 3


def test_k_begins_where_it_is_told_to() -> None:
    run = Run()
    run.policy = RequiredSlack(replace(SETTINGS, initial_wait=70))
    assert run.go(3, seconds=STRETCH - 1) == 70
    assert run.go(3) == 3


def test_delays_end_the_careful_start_before_results_do() -> None:
    policy = RequiredSlack(SETTINGS)
    counts = [0] * 40
    counts[0], counts[30] = 90, 10
    for second in range(1, 12):
        clock = 1000 * second
        told = Profile.empty(2, granularity=10)
        delays = np.array([counts, counts])
        ends = np.array([clock, clock])
        policy.observe(replace(told, delays=delays, largest_delay=300, ends=ends))
        assert policy.adapt() == (10_000 if second <= 5 else 300)


def test_with_no_result_at_all_k_stays() -> None:
    run = Run()
    run.policy.observe(Profile.empty(2, granularity=10))
    assert run.policy.adapt() == 10_000
    k = run.go(3, seconds=STRETCH)
    run.policy.observe(Profile.empty(2, granularity=10))
    assert run.policy.adapt() == k == 3


def test_it_says_whether_k_rests_on_little_or_on_what_is_usual() -> None:
    run = Run()
    assert run.policy.phase == "learning"
    # The first period is known after a minute, and one more after every second.
    phases = []
    for step, seconds in ((4, 59 + LEARNED - 1), (4, 2), (4, 500), (40, 31)):
        run.go(step, seconds=seconds)
        phases.append(run.policy.phase)
    assert phases == ["learning", "settled", "settled", "following"]


def test_while_little_is_known_k_is_no_more_than_delays_ask_for() -> None:
    # One stretch needs 5 s. Of the tuples 98 % come within 300 ms, so 96 % of the pairs do.
    def k(*, told: bool) -> int:
        run = Run()
        run.go(*[3] * 12, *[5000] * 6, *[3] * 10)
        if told:
            counts = [0] * 600
            counts[0], counts[30], counts[599] = 900, 80, 20
            for clock, n in ((0, 0), (10**7, 1)):
                delays = n * np.array([counts, counts])
                made = replace(Profile.empty(2, granularity=10), ends=np.full(2, clock))
                run.policy.observe(replace(made, delays=delays, largest_delay=5990))
        return run.policy.adapt()

    assert k(told=False) >= 5000
    assert k(told=True) == 300


def test_with_everything_in_order_k_is_0() -> None:
    run = Run()
    run.go(0, seconds=STRETCH - 1)
    for _ in range(200):
        assert run.go(0) == 0


def test_lost_and_produced_results_decide_alike() -> None:
    lossy, calm = RequiredSlack(SETTINGS), RequiredSlack(SETTINGS)
    for second in range(1, STRETCH + 1):
        end = 1000 * second - 1
        lossy.observe(interval([50, 0, 0, 0, 0], [0, 45, 3, 1, 1], join_time=end))
        calm.observe(interval([50, 45, 3, 1, 1], join_time=end))
        lossy.adapt()
        calm.adapt()
    assert lossy.k == calm.k == 1


def test_k_is_enough_for_nearly_all_periods_and_a_little_more_where_they_differ() -> None:
    # 50 seconds in 20 minutes that need 9: 4 in 100 periods need it, the others 2 or 3.
    assert Run().go(*[2] * 1150, *[9] * 50, seconds=3) == 9 + 2
    # The same 50 seconds in an hour.
    run = Run()
    run.go(*[2] * 3000, *[9] * 50)
    assert run.go(2, seconds=540) == 2


def test_a_stretch_asks_for_no_more_than_any_period_did() -> None:
    # A fifth of the stretches need 9, but the rest of their period always makes up for them.
    run = Run()
    run.go(*[2] * 40, *[9] * 10, seconds=12)
    assert run.policy.stretches.known.max() == 9
    assert run.policy.k == run.policy.periods.known.max() == 2


def test_at_a_high_recall_k_is_enough_for_the_share_of_stretches_that_is_asked() -> None:
    # Once in 17 minutes, 40 seconds need 9: 5 in 100 stretches have some of it, 10 in 100 periods.
    # It does not come back: what comes back is waited for from 5 in 100 periods on.
    def run(share: float) -> int:
        made = Run()
        made.policy = RequiredSlack(replace(SETTINGS, recall=0.99), share=share)
        made.go(*[2] * 780, *[9] * 40)
        return made.go(2, seconds=200)

    assert run(0.87) == 3
    assert run(0.97) == 10


def test_rare_bad_stretches_are_not_waited_for() -> None:
    run = Run()
    run.go(*[2] * 300, *[9] * 5)
    assert run.go(2, seconds=100) == 2


def test_a_surge_is_followed_within_three_stretches() -> None:
    run = Run()
    assert run.go(4, seconds=600) == 4
    run.go(40, seconds=20)
    assert run.policy.k == 4
    run.go(40, seconds=11)
    assert run.policy.k == 40
    run.go(40, seconds=200)
    assert run.policy.k == 40


def test_a_surge_is_not_followed_when_tuples_are_no_longer_late() -> None:
    # A source was silent for half a minute; everything it held back came at once.
    run = Run()
    run.go(4, seconds=600)
    run.policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=40, clock=600_000))
    run.go(40, seconds=31)
    assert run.policy.k == 40
    run.policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=5, clock=612_000))
    run.go(4)
    assert run.policy.phase == "following"
    assert run.policy.k < 10


def test_a_smaller_rise_is_followed_once_it_lasts() -> None:
    run = Run()
    run.go(*[10, 11, 12, 13], seconds=100)
    before = run.policy.k
    assert before <= 13
    run.go(16, seconds=45)
    # And a little more, as periods have begun to differ.
    assert run.policy.k in (16, 17)


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


def test_k_comes_down_after_an_episode_once_it_is_rare() -> None:
    run = Run()
    run.go(10, seconds=600)
    run.go(22, seconds=50)
    assert run.policy.k >= 22
    # One period in ten needed more. An hour later it is one in fifty.
    run.go(10, seconds=119)
    assert run.policy.k == 22 + 3
    run.go(10, seconds=2700)
    assert run.policy.k == 10


def test_there_is_no_headroom_at_a_high_recall() -> None:
    run = Run()
    run.policy = RequiredSlack(replace(SETTINGS, recall=0.99))
    usual = run.go(10, seconds=600)
    assert run.go(22, seconds=50) > usual
    assert run.go(10, seconds=119) == usual


def test_k_never_exceeds_the_largest_delay_of_late() -> None:
    run = Run()
    assert run.go(50, seconds=STRETCH) == 50
    run.policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=33, clock=2000))
    assert run.policy.adapt() == 34


def test_k_is_a_multiple_of_the_granularity_where_one_is_set() -> None:
    run = Run()
    run.policy = RequiredSlack(replace(SETTINGS, granularity=10))
    assert run.go(51, seconds=STRETCH) == 60
    # Of 100 results 95 need 51 or less: 60 is no less than that.
    assert run.policy.estimated_recall == pytest.approx(1.0)
    run.policy.observe(arrived(n=ENOUGH_ARRIVALS, largest_delay=33, clock=2000))
    assert run.policy.adapt() == 40


def test_k_is_no_larger_than_a_slack_can_be() -> None:
    policy = RequiredSlack(SETTINGS)
    for second in range(1, STRETCH + 1):
        policy.observe(interval([0] * (N_BINS - 1) + [1], join_time=1000 * second - 1))
        policy.adapt()
    assert policy.k == MAX_TIME


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


def test_tuples_beyond_the_horizon_raise_k_although_nobody_can_count_their_losses() -> None:
    run = Run()
    assert run.go(0, seconds=200) == 0
    # From here on every fourth tuple of a stream comes 30 s late, long after it was forgotten.
    beyond = np.zeros((2, slack_bin(30_000, 0) + 1), dtype=np.int64)
    beyond[1, -1] = 25
    for _ in range(40):
        run.second += 1
        profile = replace(
            interval([75], join_time=1000 * run.second - 1),
            n_join=np.array([75]),
            in_order=np.array([[100], [75]]),
            late=np.array([[0], [25]]),
            beyond_slack=beyond,
        )
        run.policy.observe(profile)
        run.policy.adapt()
    assert run.policy.k >= 30_000


def test_a_backlog_in_one_batch_changes_nothing() -> None:
    def batch(run: Run, seconds: int, needed: int, largest_delay: int) -> None:
        run.second += seconds
        at = 1000 * run.second - 1
        times = list(range(at - 1000 * (seconds - 1), at + 1, 1000))
        bins = [seconds * n for n in needing(needed)]
        delays = np.array([[1000 * seconds], [1000 * seconds]])
        run.policy.observe(
            replace(
                interval(bins, join_time=at, times=times),
                tick_span=1000 * seconds,
                delays=delays,
                largest_delay=largest_delay,
                ends=np.array([at, at]),
            )
        )
        run.policy.adapt()

    run = Run()
    for _ in range(300):
        batch(run, 1, 700, 5000)
    usual = run.policy.k
    assert usual >= 700
    # Ten minutes at once, in which nothing is late: as one batch, and in ten.
    for lengths in ([600], [60] * 10):
        for seconds in lengths:
            batch(run, seconds, 0, 0)
            assert run.policy.k == usual
        for _ in range(100):
            batch(run, 1, 700, 5000)
            assert run.policy.k == usual


def test_what_an_earlier_run_has_learnt_can_be_taken_over() -> None:
    run, other = Run(), Run()
    run.go(5, seconds=300)
    other.policy.learn(json.loads(json.dumps(run.policy.snapshot())))
    assert other.policy.k == 5
    assert other.policy.phase == "settled"
    other.second = 5000
    assert other.go(5, seconds=30) == 5

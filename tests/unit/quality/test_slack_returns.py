"""The required-slack policy where disorder comes back: bursts with a calm between two of them.

An interval is a second, a period a minute, and results need either 40 or 3.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack import RequiredSlack
from tests.unit.quality.intervals import interval
from tests.unit.quality.test_slack import needing

SETTINGS = PolicySettings(windows=(1000, 1000), recall=0.95, period=60_000, interval=1000)
BURST, CALM = 20, 160


class Run:
    """A policy that sees results and delays, one interval a second."""

    def __init__(self, settings: PolicySettings = SETTINGS) -> None:
        self.policy = RequiredSlack(settings)
        self.second = 0

    def go(self, step: int, seconds: int) -> list[int]:
        """K after each of so many seconds with results that need ``step``."""
        ks = []
        for _ in range(seconds):
            self.second += 1
            end = 1000 * self.second - 1
            seen = replace(
                interval(needing(step), join_time=end),
                delays=np.array([[50], [50]]),
                largest_delay=step + 5,
                ends=np.array([end, end]),
            )
            self.policy.observe(seen)
            ks.append(self.policy.adapt())
        return ks

    def burst(self, calm: int = CALM) -> list[int]:
        """K in each second of a burst and of the calm after it."""
        return self.go(40, BURST) + self.go(3, calm)


@pytest.mark.parametrize("recall", [0.95, 0.99])
def test_once_a_burst_has_come_back_k_is_kept_in_the_calm(recall: float) -> None:
    run = Run(replace(SETTINGS, recall=recall))
    run.burst()
    run.burst()
    for _ in range(10):
        assert min(run.burst()) >= 40


def test_a_burst_that_has_never_come_back_is_forgotten_within_two_periods() -> None:
    run = Run()
    run.go(3, 600)
    assert max(run.burst(calm=1000)[BURST + 120 :]) <= 9


def test_a_burst_that_does_not_come_back_any_more_is_given_up_and_k_comes_down() -> None:
    run = Run()
    for _ in range(6):
        run.burst()
    last = run.burst(calm=1000)
    # The calm counts from the last stretch of ten seconds with a part of the burst.
    patience = BURST + 2 * CALM
    assert min(last[: patience - 30]) >= 40
    assert max(last[patience + 10 :]) <= 9


def test_when_bursts_have_come_back_after_a_longer_calm_k_is_kept_for_longer() -> None:
    run = Run()
    for calm in (CALM, CALM, 2 * CALM, CALM, CALM):
        run.burst(calm=calm)
    last = run.burst(calm=1500)
    assert min(last[: BURST + 4 * CALM - 60]) >= 40
    assert max(last[BURST + 4 * CALM + 10 :]) <= 9


def test_a_rare_short_burst_is_not_waited_for_however_often_it_comes_back() -> None:
    # Each burst is in less than 5 % of the periods of its cycle.
    run = Run()
    run.go(3, 600)
    for _ in range(3):
        assert max(run.burst(calm=1800)[BURST + 120 :]) <= 9


def test_disorder_longer_than_a_period_that_comes_back_is_kept_too() -> None:
    # Every such change makes the policy forget what was usual before, calm or not.
    run = Run()
    for _ in range(2):
        run.go(40, 150)
        run.go(3, 200)
    for _ in range(4):
        assert min(run.go(40, 150) + run.go(3, 200)) >= 40


def test_smaller_bursts_after_larger_ones_are_learnt_anew() -> None:
    run = Run()
    for _ in range(5):
        run.go(200, BURST)
        run.go(3, CALM)
    for _ in range(4):
        run.burst()
    for _ in range(4):
        ks = run.burst()
        assert min(ks) >= 40
        assert max(ks) < 100


def test_a_snapshot_in_the_calm_goes_on_as_the_original() -> None:
    run = Run()
    for _ in range(3):
        run.burst()
    run.burst(calm=70)
    other = Run()
    other.policy.restore(json.loads(json.dumps(run.policy.snapshot())))
    other.second = run.second
    assert other.go(3, 90) == run.go(3, 90)
    for _ in range(2):
        assert other.burst() == run.burst()
    assert other.policy.snapshot() == run.policy.snapshot()


def test_a_run_that_learns_from_an_earlier_one_knows_that_bursts_come_back() -> None:
    run, other = Run(), Run()
    for _ in range(3):
        run.burst()
    run.burst(calm=50)
    other.policy.learn(json.loads(json.dumps(run.policy.snapshot())))
    assert min(other.go(3, 100)) >= 40


def test_a_snapshot_of_a_release_that_dropped_what_it_forgot_can_be_read() -> None:
    run = Run()
    run.burst()
    state = json.loads(json.dumps(run.policy.snapshot()))
    for needs in ("stretches", "periods"):
        assert state[needs].pop("n_forgotten") == 0
    other = Run()
    other.policy.restore(state)
    other.second = run.second
    assert other.burst() == run.burst()
    other.policy.learn(state)

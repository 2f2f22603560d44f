"""What delays alone say about K."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from recalljoin.quality.delays import ENOUGH_ARRIVALS, LatestDelays, WaitByDelays
from recalljoin.quality.profile import Profile
from tests.unit.quality.intervals import arrived


def of_delays(*delays: list[int], clock: int = 0) -> Profile:
    ends = np.full(2, clock)
    empty = Profile.empty(2, granularity=10)
    return dataclasses.replace(empty, delays=np.array(delays), ends=ends)


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


def test_the_model_asks_that_all_members_of_enough_results_are_in_time() -> None:
    # In time with K = 20: 95 % and 96 %, so 91.2 % of the pairs. With K = 10: 90 % and 90 %.
    # For a recall of 82 % the model aims at 91 %, half of what may be missing.
    model = WaitByDelays(0.82)
    model.observe(of_delays([], [], clock=0))
    model.observe(of_delays([80, 10, 5, 5], [80, 10, 6, 4], clock=10**9))
    assert model.k == 20


def test_a_delay_counts_for_more_the_shorter_the_time_in_which_it_could_be_seen() -> None:
    # Of 60 units of time, a delay of 30 could be seen in half, so twice as many tuples have it:
    # 8 in 104 instead of 4 in 100.
    for clock, k in ((10**9, 0), (60, 30)):
        model = WaitByDelays(0.9)
        model.observe(of_delays([], [], clock=0))
        model.observe(of_delays([96, 0, 0, 4], [100, 0, 0, 0], clock=clock))
        assert model.k == k


def test_a_k_is_trusted_when_delays_were_seen_for_twice_as_long() -> None:
    for clock, is_short in ((59, True), (60, False)):
        model = WaitByDelays(0.9)
        assert not model.is_short
        model.observe(of_delays([], [], clock=0))
        model.observe(of_delays([80, 0, 0, 20], [100, 0, 0, 0], clock=clock))
        assert model.k == 30
        assert model.is_short == is_short


def test_the_model_adds_intervals_up() -> None:
    model = WaitByDelays(0.9)
    model.observe(of_delays([1000], [1000]))
    assert model.k == 0
    model.observe(of_delays([0, 0, 0, 500], [0, 0, 0, 0]))
    assert model.k == 30


def test_the_model_says_nothing_of_streams_with_few_tuples() -> None:
    model = WaitByDelays(0.9)
    assert model.k is None
    model.observe(of_delays([1000], [ENOUGH_ARRIVALS - 1]))
    assert model.k is None


def test_a_model_goes_on_from_a_snapshot() -> None:
    for parts in ([], [of_delays([200, 10], [200, 0])]):
        model, other = WaitByDelays(0.99), WaitByDelays(0.99)
        for part in parts:
            model.observe(part)
        other.restore(json.loads(json.dumps(model.snapshot())))
        for each in (model, other):
            each.observe(of_delays([200, 0, 0, 9], [200, 0, 0, 0]))
        assert model.k == other.k == 30

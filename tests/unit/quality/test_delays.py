"""What delays alone say about K."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from recalljoin.quality import Profile
from recalljoin.quality.delays import ENOUGH_ARRIVALS, DelayModel, LatestDelays
from tests.unit.quality.intervals import arrived


def of_delays(*delays: list[int]) -> Profile:
    return dataclasses.replace(Profile.empty(2, granularity=10), delays=np.array(delays))


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
    model = DelayModel(0.91)
    model.observe(of_delays([80, 10, 5, 5], [80, 10, 6, 4]))
    assert model.k == 20


def test_the_model_adds_intervals_up() -> None:
    model = DelayModel(0.9)
    model.observe(of_delays([1000], [1000]))
    assert model.k == 0
    model.observe(of_delays([0, 0, 0, 500], [0, 0, 0, 0]))
    assert model.k == 30


def test_the_model_says_nothing_of_streams_with_few_tuples() -> None:
    model = DelayModel(0.9)
    assert model.k is None
    model.observe(of_delays([1000], [ENOUGH_ARRIVALS - 1]))
    assert model.k is None


def test_a_model_goes_on_from_a_snapshot() -> None:
    for parts in ([], [of_delays([200, 10], [200, 0])]):
        model, other = DelayModel(0.99), DelayModel(0.99)
        for part in parts:
            model.observe(part)
        other.restore(json.loads(json.dumps(model.snapshot())))
        for each in (model, other):
            each.observe(of_delays([200, 0, 0, 9], [200, 0, 0, 0]))
        assert model.k == other.k == 30

"""Profiles: what they say of a step, and that they add up."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.datasets import make_syn_x3
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import Step, drain
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.profile import MAX_COARSE, Profile, coarse_delay
from recalljoin.quality.profiling import Arrived, follow_tuples, no_clocks, profile_of
from recalljoin.quality.tally import Tally
from tests.unit.quality.profiles import a_run_of_profiles, bound_and_arrivals


def said(profile: Profile) -> dict[str, Any]:
    """All a profile says, to be compared; trailing empty bins say nothing."""
    return profile.to_json()


def test_coarse_delays_are_cut_off_where_histograms_end() -> None:
    delay = np.array([0, 1, 10, 11, 20, 2**61])
    assert coarse_delay(delay, 10).tolist() == [0, 1, 1, 2, 2, MAX_COARSE]


def hand_made_step() -> tuple[Step, Arrived]:
    # Streams 0 and 1. Three tuples arrive, two of stream 0. The join receives four: in order with
    # 2 and 3 results, one late tuple that loses 4, one late beyond the horizon.
    step = Step(
        stream=np.array([0, 1, 0, 1], dtype=np.int8),
        ts=np.array([100, 110, 90, 20]),
        row=np.array([0, 0, 1, 1]),
        delay=np.array([0, 25, 10, 80]),
        base=np.array([0, 0, 95, 100]),
        now=np.array([100, 110, 110, 110]),
        late=np.array([False, False, True, True]),
        n_join=np.array([2, 3, 4, 0]),
        n_cross=np.array([5.0, 7.0, 0.0, 0.0]),
        beyond=np.array([False, False, False, True]),
        lost_ts=np.array([95, 90, 95]),
        lost_n=np.array([1, 2, 1]),
        slack=np.array([[1, 4], [0, 4]]),
        join_time=110,
        base_time=105,
        counted_since=60,
    )
    arrived = Arrived(
        stream=np.array([0, 1, 0], dtype=np.int8),
        delay=np.array([0, 12, 30]),
        k_sync=np.array([-1, 0, 6]),
        local=np.array([120, 130, 126]),
    )
    return step, arrived


def test_a_step_by_hand() -> None:
    step, arrived = hand_made_step()
    profile = profile_of(
        step,
        arrived,
        granularity=10,
        before=np.array([111, NEVER]),
        windows=(50, 50),
        tick_span=7,
    )
    assert profile.delays.tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]
    assert profile.largest_delay == 30
    assert (profile.k_sync_sum.tolist(), profile.n_k_sync.tolist()) == ([6, 0], [1, 1])
    assert (profile.begins.tolist(), profile.ends.tolist()) == ([111, 130], [126, 130])
    assert profile.in_order.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert np.argwhere(profile.late).tolist() == [[0, 1], [1, 8]]
    assert profile.n_join.tolist() == [2, 0, 0, 3]
    assert profile.n_cross is not None
    assert profile.n_cross.tolist() == [5, 0, 0, 7]
    assert (profile.largest_join, profile.largest_cross) == (3, 7.0)
    assert profile.produced.to_json() == [[100, 110], [2, 3]]
    assert profile.lost.to_json() == [[90, 95], [2, 2]]
    assert [tally.to_json() for tally in profile.beyond] == [[[], []], [[20], [1]]]
    received = [tally.to_json() for tally in profile.received]
    assert received == [[[90, 100], [1, 1]], [[20, 110], [1, 1]]]
    # A tuple 90 behind the join has left its window of 50: nothing is known of its results.
    assert profile.unknown.tolist() == [0, 1]
    assert np.argwhere(profile.behind).tolist() == [[0, 0], [0, 1 + 5], [1, 0], [1, 1 + 80]]
    assert np.argwhere(profile.beyond_slack).tolist() == [[1, 1 + 80]]
    assert (profile.tick_span, profile.counted_since) == (7, 60)
    assert (profile.join_time, profile.base_time) == (110, 105)
    assert (profile.n_arrived, profile.n_late) == (3, 2)
    assert (profile.n_produced, profile.n_lost, profile.n_beyond) == (5, 4, 1)


def test_a_cell_counts_the_tuples_it_owns_and_all_its_results() -> None:
    step, arrived = hand_made_step()
    cell = profile_of(
        step,
        arrived,
        granularity=10,
        before=no_clocks(2),
        windows=(50, 50),
        owned=np.array([True, False]),
        whole=False,
        bucket=50,
    )
    assert cell.delays.sum(axis=1).tolist() == [2, 0]
    assert (cell.in_order.sum(axis=1).tolist(), cell.late.sum(axis=1).tolist()) == ([1, 0], [1, 0])
    assert cell.n_beyond == 0  # the other cell's tuple
    assert [tally.total for tally in cell.received] == [2, 0]
    assert cell.behind.sum(axis=1).tolist() == [2, 0]
    assert cell.n_cross is None
    assert (cell.n_produced, cell.n_lost) == (5, 4)
    assert cell.produced.to_json() == [[2], [5]]
    assert cell.begins.tolist() == [120, FOREVER]


@pytest.mark.parametrize(("behind", "share"), [(10, 0.5 + 10 / 80), (40, 1.0), (90, 1.0)])
def test_a_late_tuple_that_is_still_in_its_window_has_results_to_come(
    behind: int, share: float
) -> None:
    # Windows of 40 each: its partners lie up to 40 before and up to 40 after it, evenly. Those that
    # come after the join time are found.
    step, arrived = hand_made_step()
    ts = step.ts.copy()
    ts[3] = step.now[3] - behind
    step = dataclasses.replace(step, ts=ts)
    profile = profile_of(step, arrived, granularity=10, before=no_clocks(2), windows=(40, 40))
    assert profile.unknown[1] == pytest.approx(share)


def test_an_empty_profile_changes_nothing() -> None:
    for profile in a_run_of_profiles()[:3]:
        empty = Profile.empty(3, granularity=10)
        assert said(profile + empty) == said(profile) == said(empty + profile)


@pytest.mark.parametrize("k", [0, 100])
def test_the_sum_over_time_is_the_profile_of_the_whole(k: int) -> None:
    bound, arrivals = bound_and_arrivals(make_syn_x3(seed=5, duration=15_000))
    pipeline = Pipeline(bound, EngineSettings(rows=False, slack=True))
    arrived, _ = follow_tuples(arrivals.stream, arrivals.ts, before=no_clocks(3))
    _, step = drain(pipeline.push(arrivals, k=k))
    whole = profile_of(step, arrived, granularity=10, before=no_clocks(3), windows=(5000,) * 3)
    assert whole.n_late > 0
    assert whole.n_lost > 0
    assert said(functools.reduce(operator.add, a_run_of_profiles(k))) == said(whole)


def test_the_order_of_arrival_is_known_of_one_stretch_of_one_instance_only() -> None:
    one, other = a_run_of_profiles()[:2]
    assert one.arrived is not None
    assert (one + other).arrived is None
    assert Profile.from_json(one.to_json()).arrived is None


profiles = st.builds(
    lambda seed: _random_profile(np.random.default_rng(seed)), st.integers(0, 2**32)
)


def _random_profile(rng: np.random.Generator) -> Profile:
    def histogram(rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return rng.integers(0, 4, (rows, rng.integers(1, 6)))

    def tally() -> Tally:
        return Tally.of(rng.integers(-9, 9, 5), rng.integers(0, 3, 5))

    return dataclasses.replace(
        Profile.empty(2, granularity=5),
        delays=histogram(2),
        largest_delay=int(rng.integers(0, 50)),
        k_sync_sum=rng.integers(0, 50, 2).astype(np.float64),
        n_k_sync=rng.integers(0, 5, 2),
        begins=rng.integers(0, 50, 2),
        ends=rng.integers(0, 50, 2),
        in_order=histogram(2),
        late=histogram(2),
        n_join=histogram(1)[0],
        n_cross=histogram(1)[0].astype(np.float64) if rng.random() < 0.8 else None,
        largest_join=int(rng.integers(0, 9)),
        largest_cross=float(rng.integers(0, 9)),
        produced=tally(),
        lost=tally(),
        received=(tally(), tally()),
        beyond=(tally(), tally()),
        unknown=rng.integers(0, 9, 2).astype(np.float64),
        behind=histogram(2),
        beyond_slack=histogram(2),
        slack=histogram(2),
        join_time=int(rng.integers(0, 90)),
        base_time=int(rng.integers(0, 90)),
        counted_since=int(rng.integers(0, 90)),
        tick_span=int(rng.integers(0, 90)),
    )


@given(profiles, profiles, profiles)
def test_order_and_grouping_of_a_sum_do_not_matter(
    one: Profile, two: Profile, three: Profile
) -> None:
    assert said((one + two) + three) == said(one + (two + three)) == said((three + one) + two)


@given(profiles)
def test_survives_json(profile: Profile) -> None:
    text = json.dumps(profile.to_json())
    again = Profile.from_json(json.loads(text))
    assert said(again) == said(profile)
    assert said(again + profile) == said(profile + profile)


def test_profiles_of_different_settings_do_not_add_up() -> None:
    with pytest.raises(AssertionError, match="do not add up"):
        Profile.empty(2, granularity=5) + Profile.empty(2, granularity=10)


def test_a_profile_is_small_when_written_down() -> None:
    # One second, 300 tuples, some hundred thousand results.
    assert len(json.dumps(a_run_of_profiles()[10].to_json())) < 10_000

"""Policies without a model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from recalljoin.errors import InvalidSetting
from recalljoin.quality.baselines import FixedSlack, MaxSlack, NoSlack, PercentileSlack
from recalljoin.quality.profile import Profile
from recalljoin.quality.profiling import follow_tuples, no_clocks
from recalljoin.quality.settings import PolicySettings
from tests.reference.per_tuple import max_k_slack
from tests.strategies import Case, cases

SETTINGS = PolicySettings(windows=(100, 100), recall=0.9, period=3000, interval=1000)


def interval(*delays: list[int], largest: int | None = None) -> Profile:
    """Tuples of two streams by coarse delay, in steps of 10; the largest delay is as it may be."""
    width = max(len(counts) for counts in delays)
    padded = [counts + [0] * (width - len(counts)) for counts in delays]
    return dataclasses.replace(
        Profile.empty(2, granularity=10),
        delays=np.array(padded),
        largest_delay=10 * (width - 1) if largest is None else largest,
    )


def test_none_never_waits_and_fixed_always_as_long() -> None:
    none, fixed = NoSlack(SETTINGS), FixedSlack(SETTINGS, k=42)
    for policy in (none, fixed):
        policy.observe(interval([1, 9], [1], largest=10))
        policy.adapt()
    assert (none.k, fixed.k) == (0, 42)
    assert none.estimated_recall is None
    assert fixed.forecast() is None


@pytest.mark.parametrize("k", [-1, 2**61 + 1])
def test_a_fixed_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(InvalidSetting, match=r"`k` must be between 0 and 2\*\*61, got"):
        FixedSlack(SETTINGS, k=k)


@given(cases())
def test_max_rises_when_the_tuple_with_the_larger_delay_arrives(case: Case) -> None:
    stream = np.array([e.stream for e in case.arrivals], dtype=np.int8)
    ts = np.array([e.ts for e in case.arrivals], dtype=np.int64)
    arrived, _ = follow_tuples(stream, ts, before=no_clocks(case.m))
    policy = MaxSlack(SETTINGS)
    cut = len(ts) // 3
    k = [*policy.arrive(arrived.delay[:cut]), *policy.arrive(arrived.delay[cut:])]
    # Between the ends of time lies more than the largest slack.
    assert k == [min(delay, 2**61) for delay in max_k_slack(case.arrivals, case.m)]
    assert policy.adapt() == (k[-1] if k else 0)


def test_max_rises_at_the_end_of_an_interval_where_tuples_cannot_be_followed() -> None:
    policy = MaxSlack(SETTINGS)
    for largest, k in ((7, 7), (3, 7), (23, 23)):
        policy.observe(interval([1], [1], largest=largest))
        assert policy.adapt() == k


def test_percentile_is_that_of_the_worst_stream_in_whole_steps() -> None:
    policy = PercentileSlack(SETTINGS)
    # S1: 9 of 10 tuples within one step. S2: 8 within none, 9 within three.
    policy.observe(interval([5, 4, 1], [8, 0, 0, 1, 1]))
    assert policy.adapt() == 30


def test_percentile_looks_back_for_one_period() -> None:
    policy = PercentileSlack(SETTINGS)
    for counts, k in (([0, 0, 90], 20), ([10], 20), ([10], 20), ([10], 0)):
        policy.observe(interval(counts, [1]))
        assert policy.adapt() == k


def test_percentile_can_be_set_apart_from_the_recall() -> None:
    policy = PercentileSlack(SETTINGS, percentile=1.0)
    policy.observe(interval([99, 0, 0, 0, 1], [1]))
    assert policy.adapt() == 40


@pytest.mark.parametrize("percentile", [0, 1.5, 95])
def test_a_percentile_out_of_range_is_refused(percentile: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"`percentile` must be in \(0, 1\], got"):
        PercentileSlack(SETTINGS, percentile=percentile)

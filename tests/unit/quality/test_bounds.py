"""The shortest and the longest wait a user allows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from recalljoin.quality.bounds import Bounded
from recalljoin.quality.policies import make_policy
from recalljoin.quality.policy import ArrivalPolicy, BufferSizePolicy
from tests.unit.quality.profiles import SETTINGS, a_run_of_profiles
from tests.unit.quality.test_policy import ALL, OPTIONS, run


def policy_of(name: str, min_wait: int = 0, max_wait: int | None = None) -> BufferSizePolicy:
    settings = dataclasses.replace(SETTINGS, min_wait=min_wait, max_wait=max_wait)
    return make_policy(name, settings, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", ALL)
def test_k_keeps_within_its_bounds(name: str) -> None:
    free = [k for k, _ in run(policy_of(name), a_run_of_profiles())]
    cut = [k for k, _ in run(policy_of(name, max_wait=150), a_run_of_profiles())]
    assert cut == [min(k, 150) for k in free]
    raised = [k for k, _ in run(policy_of(name, min_wait=150), a_run_of_profiles())]
    assert raised == [max(k, 150) for k in free]
    fixed = policy_of(name, min_wait=80, max_wait=80)
    assert {k for k, _ in run(fixed, a_run_of_profiles())} == {80}


@pytest.mark.parametrize("name", ALL)
def test_the_first_k_keeps_within_its_bounds_as_well(name: str) -> None:
    assert policy_of(name, min_wait=150).k >= 150
    assert policy_of(name, max_wait=20).k <= 20


def test_the_recall_that_max_wait_costs_is_reported() -> None:
    policy = policy_of("slack", max_wait=150)
    assert isinstance(policy, Bounded)
    run(policy, a_run_of_profiles())
    forecast = policy.forecast()
    assert forecast is not None
    assert policy.wanted_k > 150
    cut, free = policy.estimated_recall, policy.policy.estimated_recall
    assert cut is not None
    assert free is not None
    assert cut == forecast.recall[150] < free


def test_without_a_forecast_the_cost_of_max_wait_is_not_known() -> None:
    policy = policy_of("percentile", max_wait=10)
    run(policy, a_run_of_profiles())
    assert policy.k == 10
    assert policy.estimated_recall is None


def test_bounds_hold_for_policies_that_follow_every_arrival() -> None:
    policy = policy_of("max", min_wait=4, max_wait=150)
    assert isinstance(policy, ArrivalPolicy)
    assert policy.arrive(np.array([3, 200, 5])).tolist() == [4, 150, 150]
    assert not isinstance(policy_of("none", max_wait=150), ArrivalPolicy)


def test_a_bounded_policy_tells_how_far_it_has_come() -> None:
    policy = policy_of("slack", max_wait=150)
    assert isinstance(policy, Bounded)
    assert policy.phase == "learning"
    none = policy_of("none", max_wait=150)
    assert isinstance(none, Bounded)
    assert none.phase is None

"""What must hold of every policy, and how one is asked for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from recalljoin.errors import FunctionError, InvalidSetting
from recalljoin.quality.adaptation import Adaptation, plan_policy
from recalljoin.quality.horizon import Kept
from recalljoin.quality.policies import make_policy, policy_names
from recalljoin.quality.policy import BufferSizePolicy
from recalljoin.quality.profile import Profile
from tests.unit.quality.profiles import SETTINGS, a_run_of_profiles

ALL = ("eqsel", "fixed", "max", "none", "noneqsel", "percentile", "slack")
OPTIONS = {"fixed": {"k": 300}}


def policy_of(name: str, max_wait: int | None = None) -> BufferSizePolicy:
    settings = dataclasses.replace(SETTINGS, max_wait=max_wait)
    return make_policy(name, settings, **OPTIONS.get(name, {}))


def run(policy: BufferSizePolicy, profiles: tuple[Profile, ...]) -> list[tuple[int, float | None]]:
    chosen = []
    for profile in profiles:
        policy.observe(profile)
        chosen.append((policy.adapt(), policy.estimated_recall))
        assert policy.k == chosen[-1][0]
    return chosen


def test_these_policies_can_be_asked_for() -> None:
    assert policy_names() == ALL


@pytest.mark.parametrize("name", ALL)
def test_a_policy_keeps_the_protocol(name: str) -> None:
    policy = policy_of(name)
    assert isinstance(policy, BufferSizePolicy)
    assert policy.name == name


@pytest.mark.parametrize("name", ALL)
def test_k_is_a_duration_and_the_same_for_the_same_profiles(name: str) -> None:
    chosen = run(policy_of(name), a_run_of_profiles())
    assert chosen == run(policy_of(name), a_run_of_profiles())
    for k, recall in chosen:
        assert isinstance(k, int)
        assert k >= 0
        assert recall is None or 0 <= recall <= 1


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("max_wait", [None, 150])
def test_goes_on_from_a_snapshot_as_if_never_interrupted(name: str, max_wait: int | None) -> None:
    profiles = a_run_of_profiles()
    whole = run(policy_of(name, max_wait), profiles)
    for cut in (0, 1, 8):
        first, second = policy_of(name, max_wait), policy_of(name, max_wait)
        begun = run(first, profiles[:cut])
        second.restore(json.loads(json.dumps(first.snapshot())))
        assert second.k == first.k
        assert begun + run(second, profiles[cut:]) == whole


@pytest.mark.parametrize("name", ALL)
def test_intervals_in_which_nothing_happened_raise_no_k(name: str) -> None:
    nothing = Profile.empty(3, granularity=10)
    something = a_run_of_profiles()[:4]
    first, second, *between, last_but_one, last = (
        k for k, _ in run(policy_of(name), (nothing, nothing, *something, nothing, nothing))
    )
    assert policy_of(name).k >= first == second
    assert between == [k for k, _ in run(policy_of(name), something)]
    assert between[-1] >= last_but_one >= last


@pytest.mark.parametrize("name", ALL)
def test_a_cell_in_which_nothing_happened_changes_no_choice(name: str) -> None:
    nothing = Profile.empty(3, granularity=10)
    chosen = run(policy_of(name), a_run_of_profiles())
    assert run(policy_of(name), tuple(p + nothing for p in a_run_of_profiles())) == chosen
    assert run(policy_of(name), tuple(nothing + p for p in a_run_of_profiles())) == chosen


def test_a_policy_that_begins_as_published_takes_no_initial_wait() -> None:
    settings = dataclasses.replace(SETTINGS, initial_wait=500)
    message = "policy 'max' begins with the K it defines, so there is no use for `initial_wait`"
    with pytest.raises(InvalidSetting, match=message):
        make_policy("max", settings)


@pytest.mark.parametrize("name", ["slack", "percentile"])
def test_policies_of_our_own_begin_carefully_or_as_asked(name: str) -> None:
    assert policy_of(name).k == SETTINGS.period // 6
    settings = dataclasses.replace(SETTINGS, initial_wait=70)
    assert make_policy(name, settings).k == 70


def test_an_unknown_policy_is_refused() -> None:
    message = (
        "`policy` must be one of eqsel, fixed, max, none, noneqsel, percentile, slack, got 'best'"
    )
    with pytest.raises(InvalidSetting, match=message):
        make_policy("best", SETTINGS)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="policy 'fixed' has no option `z`; it has `k`"):
        make_policy("fixed", SETTINGS, k=1, z=2)
    with pytest.raises(InvalidSetting, match="policy 'max' has no option `k`; it has no options"):
        make_policy("max", SETTINGS, k=1)


def test_an_option_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidSetting, match="policy 'fixed' needs its option `k`"):
        make_policy("fixed", SETTINGS)


class Own:
    """A policy of the user's."""

    name = "own"
    uses_slack = False

    def __init__(self, k: object) -> None:
        self.k = k

    def observe(self, profile: Profile) -> None:
        """Learn nothing."""

    def adapt(self) -> object:
        """Choose K, or fail."""
        if isinstance(self.k, Exception):
            raise self.k
        return self.k


def adaptation_of(make: Any) -> Adaptation:
    recall: dict[str, Any] = {"recall": 0.9, "k": None, "options": None}
    return plan_policy(SETTINGS, choice=make, **recall).adaptation(None)


@pytest.mark.parametrize("k", [None, -1, 1.5, "5", float("nan"), 2**61 + 1, True])
def test_a_policy_of_the_users_that_chooses_what_is_no_wait_is_named(k: object) -> None:
    with pytest.raises(FunctionError, match=r"^the policy `own` has chosen .* for K, which must"):
        _ = adaptation_of(lambda _: Own(k)).k


def test_a_policy_of_the_users_may_count_with_numpy() -> None:
    k = adaptation_of(lambda _: Own(np.int64(5))).k
    assert json.dumps({"k": k}) == '{"k": 5}'


def test_a_policy_of_the_users_that_fails_is_named() -> None:
    adaptation = adaptation_of(lambda _: Own(ValueError("no idea")))
    adaptation.observe(a_run_of_profiles()[0], 1)
    with pytest.raises(FunctionError, match=r"^the policy `own` failed: ValueError: no idea$"):
        adaptation.adapt(Kept(0, 0))


def test_what_makes_no_policy_is_refused_when_it_is_asked_for() -> None:
    with pytest.raises(InvalidSetting, match=r"^`policy` must make a policy, got None, which has"):
        adaptation_of(lambda _: None)
    with pytest.raises(FunctionError, match=r"failed: ZeroDivisionError: "):
        adaptation_of(lambda _: 1 // 0)

"""What precise nulls need, and that it is what each K would really have given."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from recalljoin.engine.judging import LATER, OWN, UNMATCHED
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.quality.null_needs import PreciseNulls, need_of, precision_by_k
from recalljoin.quality.null_precision import NullPrecision
from recalljoin.quality.policies import make_policy
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.tally import Tally
from tests.properties.engine_runs import Script
from tests.properties.engine_scripts import large_case
from tests.properties.kind_runs import KindEngineRun
from tests.reference import conditions

SETTINGS = PolicySettings(windows=(10, 10), recall=0.9, period=600, interval=10)


def needs(unmatched: dict[int, int], later: dict[int, int]) -> np.ndarray:
    """Tuples without a partner, and tuples whose partner needed a K; all came in time."""
    counted = np.zeros((3, 64), dtype=np.int64)
    for slack, n in unmatched.items():
        counted[UNMATCHED, slack + 1] = n
    for slack, n in later.items():
        counted[LATER, slack + 1] = n
        counted[OWN, 0] += n
    return counted


def test_the_need_is_the_smallest_wait_with_which_enough_nulls_are_true() -> None:
    counted = needs({-1: 9}, {3: 1, 20: 2})
    # Up to 3, three tuples leave in error; up to 20, two.
    assert precision_by_k(counted)[[0, 3, 4, 20, 21]].tolist() == pytest.approx(
        [9 / 12, 9 / 12, 9 / 11, 9 / 11, 1]
    )
    assert [need_of(counted, share) for share in (0.7, 0.8, 0.9, 1.0)] == [0, 4, 21, 21]


def test_nothing_is_needed_where_nothing_left() -> None:
    assert need_of(np.zeros((3, 1), dtype=np.int64), 1.0) == 0


@pytest.mark.parametrize("seed", [0, 2, 3])
@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_whatever_k_was_in_force_the_precision_of_every_other_k_is_known(
    seed: int, how: str
) -> None:
    case = large_case(conditions.single_class(2), seed, 300)
    length = case.arrivals[-1].tick + 1
    settings = EngineSettings(arrival="tick", rows=False, slack=True, retention=10**6)
    told = {}
    for k in (0, 3, 12, 60, 200):
        script = Script(case, settings, (k,) * length, cuts=tuple(range(1, length)), how=how)  # type: ignore[arg-type]
        run = KindEngineRun(script)
        account = run.accounts()[-1]
        n_nulls, n_false = account.nulls.total(), account.false_nulls.total()
        width = 1 + max((at for _, at in account.needs), default=0)
        counted = np.zeros((3, max(width, 300)), dtype=np.int64)
        for (row, at), n in account.needs.items():
            counted[row, at] = n
        told[k] = 1 - n_false / n_nulls, counted
    for _, counted in told.values():
        assert (counted == told[0][1]).all()
        expected = precision_by_k(counted)
        for k, (precision, _) in told.items():
            assert ENOUGH[k] == k
            assert expected[k] == pytest.approx(precision)
    assert told[0][0] < told[200][0]


def profile(at: int, counted: np.ndarray) -> Profile:
    return replace(Profile.empty(2, granularity=10), join_time=at, base_time=at, null_needs=counted)


def test_the_wait_is_the_larger_of_both_needs_and_survives_a_restart() -> None:
    settings = replace(SETTINGS, null_precision=0.9)
    policy = make_policy("none", settings)
    assert isinstance(policy, PreciseNulls)
    assert policy.uses_slack
    policy.observe(profile(100, needs({-1: 9}, {3: 1, 20: 2})))
    assert policy.adapt() == 21
    again = make_policy("none", settings)
    again.restore(json.loads(json.dumps(policy.snapshot())))
    for each in (policy, again):
        each.observe(profile(110, needs({-1: 100}, {40: 1})))
    assert policy.adapt() == again.adapt()
    assert make_policy("max", settings).k >= 0
    # A wait that is given stays as it is, and without nulls there is nothing to add.
    assert not isinstance(make_policy("fixed", settings, k=5), PreciseNulls)
    assert not isinstance(make_policy("none", SETTINGS), PreciseNulls)


def test_needs_are_forgotten_after_ten_periods() -> None:
    policy = PreciseNulls(make_policy("none", SETTINGS), precision=0.99, period=600)
    policy.observe(profile(0, needs({-1: 9}, {30: 5})))
    assert policy.adapt() == 31
    for n in range(1, 130):
        policy.observe(profile(100 * n, needs({-1: 9}, {})))
        policy.adapt()
    assert policy.k == 0


def test_precision_is_measured_over_a_period_and_falls_when_a_partner_is_found() -> None:
    meter = NullPrecision(10)
    empty = Profile.empty(2, granularity=10, bucket=10)
    assert meter.measure(100, 50) is None
    meter.observe(replace(empty, nulls=Tally.of(np.array([55, 65, 95, 95]), bucket=10)))
    assert meter.measure(99, 50) == 1.0
    meter.observe(replace(empty, false_nulls=Tally.of(np.array([95]), bucket=10)))
    assert meter.measure(99, 50) == 0.75
    assert meter.measure(89, 50) == 1.0

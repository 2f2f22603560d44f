"""The paper's policies as a whole; the search itself is in tests/equations."""

from __future__ import annotations

import dataclasses
import statistics
import time

import numpy as np
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.quality.paper import BufferSizeManager, EqSel, NonEqSel
from recalljoin.quality.policies import make_policy
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings
from tests.unit.quality.profiles import SETTINGS, a_run_of_profiles


@pytest.mark.parametrize("name", ["eqsel", "noneqsel"])
def test_k_is_a_multiple_of_the_granularity_and_no_larger_than_needed(name: str) -> None:
    manager = make_policy(name, SETTINGS)
    assert manager.k == 0
    assert manager.estimated_recall is None
    for profile in a_run_of_profiles():
        manager.observe(profile)
        k = manager.adapt()
        assert isinstance(manager, BufferSizeManager)
        assert k == manager.k
        assert k % 10 == 0
        assert k <= (manager.statistics.largest_coarse_delay + 1) * 10
        assert manager.estimated_recall is not None
        assert 0 < manager.estimated_recall <= 1


def test_everything_in_order_needs_no_slack() -> None:
    counts = np.full((3, 1), 100)
    profile = dataclasses.replace(
        Profile.empty(3, granularity=10),
        delays=counts,
        in_order=counts,
        n_join=np.array([500]),
        n_cross=np.array([9000.0]),
        largest_join=5,
        begins=np.zeros(3, dtype=np.int64),
        ends=np.full(3, 1000),
    )
    for strategy in (EqSel, NonEqSel):
        manager = strategy(dataclasses.replace(SETTINGS, recall=1.0))
        manager.observe(profile)
        assert manager.adapt() == 0
        assert manager.estimated_recall == 1.0


def test_productivity_tells_the_two_strategies_apart() -> None:
    # All results come of tuples with a delay of 50: EqSel does not know, NonEqSel waits for them.
    counts = np.zeros((2, 6), dtype=np.int64)
    counts[:, 0], counts[0, 5] = 100, 10
    n_join = np.zeros(6, dtype=np.int64)
    n_join[5] = 1000
    profile = dataclasses.replace(
        Profile.empty(2, granularity=10),
        delays=counts,
        in_order=counts,
        n_join=n_join,
        n_cross=counts.sum(axis=0) * 10.0,
        begins=np.zeros(2, dtype=np.int64),
        ends=np.full(2, 1000),
    )
    settings = PolicySettings(windows=(1000, 1000), recall=0.9, period=1000)
    eqsel, noneqsel = EqSel(settings), NonEqSel(settings)
    for manager in (eqsel, noneqsel):
        manager.observe(profile)
    assert (eqsel.adapt(), noneqsel.adapt()) == (0, 50)


def test_the_forecast_tells_what_another_target_would_cost() -> None:
    manager = EqSel(SETTINGS)
    assert manager.forecast() is None
    for profile in a_run_of_profiles():
        manager.observe(profile)
    manager.adapt()
    forecast = manager.forecast()
    assert forecast is not None
    assert forecast.k.tolist() == [10 * n for n in range(len(forecast.k))]
    assert (np.diff(forecast.recall) >= 0).all()
    assert forecast.recall[-1] == 1.0
    assert forecast.recall[manager.k // 10] == manager.estimated_recall


def test_delta_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"`delta` must be in \(0, 1\), got 0"):
        make_policy("eqsel", SETTINGS, delta=0)


@pytest.mark.slow  # it measures time, which the default run on a busy machine must not judge
@pytest.mark.parametrize(("granularity", "milliseconds"), [(10, 1.0), (1, 5.0)])
def test_an_adaptation_step_takes_little_time(granularity: int, milliseconds: float) -> None:
    # Four streams with delays up to 20 s.
    rng = np.random.default_rng(3)
    delay = np.where(rng.random((4, 3000)) < 0.7, 0, rng.integers(0, 20_001, (4, 3000)))
    counts = np.array([np.bincount(-(-d // granularity), minlength=20_001) for d in delay])
    manager = NonEqSel(
        PolicySettings(windows=(3000,) * 4, granularity=granularity, recall=0.999, period=1000)
    )
    manager.observe(
        dataclasses.replace(
            Profile.empty(4, granularity=granularity),
            delays=counts,
            in_order=counts,
            n_join=counts.sum(axis=0) * 3,
            n_cross=counts.sum(axis=0) * 100.0,
            largest_join=3,
            largest_cross=100.0,
            begins=np.zeros(4, dtype=np.int64),
            ends=np.full(4, 30_000),
        )
    )
    took = []
    for _ in range(50):
        begin = time.perf_counter()
        manager.adapt()
        took.append(time.perf_counter() - begin)
    # The machine may be busy with other things; half of the time it is not.
    assert 1e3 * statistics.median(took) < milliseconds
    assert manager.k > 10_000

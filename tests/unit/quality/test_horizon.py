"""How long tuples are remembered: it follows the delays, within a limit of bytes."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.quality.horizon import Horizon, HorizonPlan, Kept
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings

SETTINGS = PolicySettings(windows=(500, 300), recall=0.9, period=1000, interval=100)
FEW_BYTES = Kept(n_tuples=100, n_bytes=10_000)


def seen(clock: int, *streams: dict[int, int]) -> Profile:
    """Tuples of each stream by how far behind the base time they came."""
    rows = []
    for stream in streams:
        row = np.zeros(4000, dtype=np.int64)
        for behind, n in stream.items():
            row[np.searchsorted(ENOUGH, behind, side="right")] = n
        rows.append(row)
    return dataclasses.replace(
        Profile.empty(2, granularity=10),
        behind=np.array(rows),
        ends=np.array([clock, clock - 10]),
    )


def after(*profiles: Profile, plan: HorizonPlan | None = None, kept: Kept = FEW_BYTES) -> Horizon:
    horizon = (plan or HorizonPlan(SETTINGS)).make()
    for profile in profiles:
        horizon.observe(profile, kept, n_delivered=int(profile.behind.sum()))
    return horizon


def test_it_is_at_least_as_long_as_period_and_windows() -> None:
    assert after().retention == 1000
    assert after(seen(0, {0: 100}, {3: 100})).retention == 1000
    long = dataclasses.replace(SETTINGS, windows=(500, 3000))
    assert after(plan=HorizonPlan(long)).retention == 3000


@pytest.mark.parametrize("stream", [0, 1])
def test_it_covers_what_the_target_needs_of_every_stream(stream: int) -> None:
    # At a recall of 0.9, one tuple in 200 may be later.
    late = [{0: 1000}, {0: 1000}]
    late[stream] = {0: 994, 40_000: 6}
    assert 50_000 <= after(seen(0, *late)).retention <= 60_000
    late[stream] = {0: 996, 40_000: 4}
    assert after(seen(0, *late)).retention == 1000


def test_at_a_recall_of_one_it_covers_the_largest_delay() -> None:
    everything = HorizonPlan(dataclasses.replace(SETTINGS, recall=1.0))
    a_day = 86_400_000
    horizon = after(seen(0, {0: 99_999, a_day: 1}, {0: 1}), plan=everything)
    assert 1.25 * a_day <= horizon.retention <= 1.5 * a_day


def test_delays_are_remembered_for_ten_periods() -> None:
    late, usual = {0: 80, 40_000: 20}, {0: 100}
    profiles = [seen(0, late, usual)] + [seen(500 * n, usual, usual) for n in range(1, 20)]
    assert after(*profiles).retention >= 50_000
    profiles += [seen(500 * n, usual, usual) for n in range(20, 24)]
    assert after(*profiles).retention == 1000


def test_it_does_not_change_with_every_little_thing() -> None:
    retentions = set()
    horizon = HorizonPlan(SETTINGS).make()
    for n in range(60):
        profile = seen(1000 * n, {0: 90, 4000 + 20 * (n * 7 % 30): 10}, {0: 100})
        horizon.observe(profile, FEW_BYTES, n_delivered=200)
        retentions.add(horizon.retention)
    assert len(retentions) <= 3


def test_a_limit_of_bytes_makes_it_shorter_and_is_told() -> None:
    # A tuple takes 100 bytes and there are 200 in 1000 units of time: 20 bytes a unit.
    plan = HorizonPlan(SETTINGS, limit=200_000)
    late = [seen(1000 * n, {0: 90, 40_000: 10}, {0: 100}) for n in range(9)]
    limited = after(*late, plan=plan)
    assert limited.is_limited
    assert 8_000 <= limited.retention <= 10_000
    assert not after(*late).is_limited
    # Where the limit is too little even for a period, it still holds.
    assert after(*late, plan=HorizonPlan(SETTINGS, limit=2000)).retention <= 100
    usual = [seen(1000 * n, {0: 100}, {0: 100}) for n in range(9, 30)]
    assert not after(*late, *usual, plan=plan).is_limited


def test_one_that_is_fixed_stays_so() -> None:
    fixed = after(seen(0, {40_000: 100}, {0: 100}), plan=HorizonPlan(SETTINGS, fixed=7))
    assert (fixed.retention, fixed.is_limited) == (7, False)


def test_it_goes_on_from_a_snapshot_as_if_never_interrupted() -> None:
    profiles = [seen(400 * n, {0: 90, 9000 - 110 * n: 10}, {0: 10 * n}) for n in range(80)]
    whole, resumed = HorizonPlan(SETTINGS).make(), HorizonPlan(SETTINGS).make()
    for profile in profiles:
        again = HorizonPlan(SETTINGS).make()
        again.restore(json.loads(json.dumps(resumed.snapshot())))
        resumed = again
        for one in (whole, resumed):
            one.observe(profile, FEW_BYTES, n_delivered=100)
        assert resumed.retention == whole.retention
    assert 1000 < whole.retention < 7000

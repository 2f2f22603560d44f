"""Recall as the join reports it itself, where delays are longer than period and horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.quality.record import RunRecord

Arrival = Literal["tuple", "tick"]
WINDOW = 1000
SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "at": pa.int64()})
QUERY = Query(
    streams=[Stream(name, window=WINDOW, arrival="at") for name in ("s1", "s2")],
    condition="s1.a = s2.a",
    select="count(*)",
).bind({"s1": SCHEMA, "s2": SCHEMA})
BOTH = pytest.mark.parametrize("arrival", ["tuple", "tick"])


def stream(seed: int, length: int, *, late: float = 0.0, by: int = 0) -> pa.Table:
    """A tuple every 50 ms, a share of them late by some time."""
    random = np.random.default_rng(seed)
    ts = np.arange(0, length, 50)
    at = ts + np.where(random.random(len(ts)) < late, by, 0)
    return in_order(ts, random.integers(0, 4, len(ts)), at)


def in_order(ts: Any, keys: Any, at: Any) -> pa.Table:
    order = np.argsort(at, kind="stable")
    return pa.table({"ts": ts[order], "a": keys[order], "at": at[order]}, schema=SCHEMA)


def run(
    tables: list[pa.Table], arrival: Arrival, *, period: int, policy: str = "none", **more: Any
) -> RunRecord:
    arrivals = arrivals_of(QUERY, dict(zip(("s1", "s2"), tables, strict=True)))
    settings = PolicySettings(windows=(WINDOW, WINDOW), recall=0.95, period=period)
    chosen = make_policy(policy, settings)
    tick = None if arrival == "tuple" else 500
    truth = true_results(QUERY, arrivals)
    return run_adaptive(
        QUERY, arrivals, chosen, settings, arrival=arrival, tick=tick, truth=truth, **more
    )


HORIZONS: dict[str, dict[str, Any]] = {
    "short": {"retention": 10_000},
    "none": {"retention": 0},
    "default": {},
    "little memory": {"horizon_memory": 1000},
}


@BOTH
@pytest.mark.parametrize("horizon", HORIZONS)
def test_half_of_a_stream_that_is_later_than_the_period_halves_the_recall(
    arrival: Arrival, horizon: str
) -> None:
    tables = [stream(1, 240_000, late=0.5, by=30_000), stream(2, 240_000)]
    record = run(tables, arrival, period=10_000, **HORIZONS[horizon])
    known = record.clock > 100_000
    assert record.recall[known].mean() == pytest.approx(0.5, abs=0.02)
    assert record.reported.recall[known] == pytest.approx(0.5, abs=0.1)
    assert record.reported.recall[known].mean() == pytest.approx(0.5, abs=0.03)
    assert (record.reported.at_least[known] <= record.recall[known] + 0.1).all()


def test_the_horizon_follows_the_delays() -> None:
    tables = [stream(1, 120_000, late=0.5, by=30_000), stream(2, 120_000)]
    record = run(tables, "tuple", period=10_000)
    assert record.horizon[0] == 10_000
    assert 37_500 <= record.horizon[-1] <= 45_000
    # But for those of a time that was forgotten before it was known how late tuples are.
    assert record.n_beyond < 300
    assert run(tables, "tuple", period=10_000, horizon_memory=1000).horizon[-1] < 1000


@BOTH
def test_a_quarter_that_is_three_minutes_late_is_missed_and_reported(arrival: Arrival) -> None:
    tables = [stream(1, 900_000, late=0.25, by=180_000), stream(2, 900_000)]
    record = run(tables, arrival, period=60_000)
    known = record.clock > 600_000
    assert record.recall[known].mean() == pytest.approx(0.75, abs=0.02)
    assert record.reported.recall[known] == pytest.approx(0.75, abs=0.05)


@BOTH
def test_both_streams_late_is_not_counted_twice(arrival: Arrival) -> None:
    tables = [stream(seed, 240_000, late=0.3, by=30_000) for seed in (1, 2)]
    for more in HORIZONS.values():
        record = run(tables, arrival, period=10_000, **more)
        known = record.clock > 120_000
        error = record.reported.recall[known] - record.recall[known]
        assert abs(error.mean()) < 0.05


@BOTH
@pytest.mark.parametrize("seed", [1, 2])
def test_recall_settles_below_the_lower_bound_in_one_of_twenty_cases_at_most(
    arrival: Arrival, seed: int
) -> None:
    def drawn(number: int) -> pa.Table:
        random = np.random.default_rng(number)
        ts = np.arange(0, 1_000_000, 100)
        late = np.where(random.random(len(ts)) < 0.3, random.exponential(2000, len(ts)), 0)
        late += np.where(random.random(len(ts)) < 0.01, random.exponential(20_000, len(ts)), 0)
        return in_order(ts, random.integers(0, 8, len(ts)), ts + late.astype(np.int64))

    record = run([drawn(seed), drawn(seed + 10)], arrival, period=40_000, policy="slack")
    known = record.clock > 200_000
    lowest, true = record.reported.at_least[known], record.recall[known]
    assert (lowest > true).mean() <= 0.05
    # A bound that says nothing would be right as well.
    assert (true - lowest).mean() < 0.05
    assert (record.reported.recall[known] > true).mean() > 0.2

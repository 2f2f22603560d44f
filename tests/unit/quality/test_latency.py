"""Latency of results against results that were enumerated one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.latency import LatencyMeter
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

PRECISION = 10


def dense_streams(seed: int, *, seconds: int = 6) -> dict[str, pa.Table]:
    """Two streams of 200 tuples a second; three in ten tuples are late by up to 200 ms."""
    rng = np.random.default_rng(seed)
    n = 200 * seconds
    tables = {}
    for name in ("s1", "s2"):
        arrival = 5 * np.arange(n)
        delay = np.where(rng.random(n) < 0.7, 0, rng.integers(0, 200, n))
        tables[name] = pa.table(
            {"arrival": arrival, "ts": arrival - delay, "a": rng.integers(0, 8, n)}
        )
    return tables


def bound(tables: dict[str, pa.Table]) -> BoundQuery:
    streams = [Stream(name, window="300 ms", arrival="arrival") for name in tables]
    query = Query(streams=streams, condition="s1.a = s2.a")
    return query.bind({name: table.schema for name, table in tables.items()})


def exact_latencies(query: BoundQuery, arrivals: Arrivals, k: int) -> list[int]:
    """One arrival at a time: now, minus the arrival of each result's last member."""
    assert arrivals.arrival is not None
    pipeline = Pipeline(query, EngineSettings())
    latencies = []
    for i in range(len(arrivals)):
        batches, _ = drain(pipeline.push(arrivals.slice(i, i + 1), k=k))
        for batch in batches:
            members = [batch.column(s).field("arrival").to_numpy() for s in range(2)]
            latencies += (arrivals.arrival[i] - np.maximum(*members)).tolist()
    return latencies


@pytest.mark.parametrize("k", [0, 50, 120, 400])
def test_latencies_are_those_of_the_last_members(k: int) -> None:
    tables = dense_streams(k + 1)
    query = bound(tables)
    arrivals = arrivals_of(query, tables)
    exact = np.array(exact_latencies(query, arrivals, k))
    settings = PolicySettings(windows=(300, 300), period=1000)
    record = run_adaptive(
        query, arrivals, make_policy("fixed", settings, k=k), settings, clock=arrivals.arrival
    )
    assert record.latency is not None
    assert record.latency.mean == pytest.approx(exact.mean(), abs=PRECISION)
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        measured = getattr(record.latency, name)
        assert measured == pytest.approx(np.percentile(exact, share), abs=2 * PRECISION)


def test_without_the_slack_histogram_they_count_from_the_trigger() -> None:
    tables = dense_streams(7)
    query = bound(tables)
    arrivals = arrivals_of(query, tables)
    settings = PolicySettings(windows=(300, 300), period=1000)
    exact = np.mean(exact_latencies(query, arrivals, 150))

    def mean(*, slack: bool) -> float:
        policy = make_policy("fixed", settings, k=150)
        record = run_adaptive(
            query, arrivals, policy, settings, clock=arrivals.arrival, slack=slack
        )
        assert record.latency is not None
        return record.latency.mean

    # Too long, by what members came after triggers.
    assert mean(slack=False) > exact + 2
    assert mean(slack=True) == pytest.approx(exact, abs=1)


def test_without_results_there_is_no_latency() -> None:
    assert LatencyMeter().latency() is None

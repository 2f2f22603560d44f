"""Memory follows the content of buffers, windows and retention horizon, and nothing else."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slots import N_FREE, NEXT_SLOT
from recalljoin.engine.state import restore, snapshot
from recalljoin.engine.step import Step, drain
from recalljoin.query.model import Query, Stream
from tests.unit.engine.inputs import Arrival, bound

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

WINDOW = 200
PER_PUSH = 1000
N_PUSHES = 60


def keyed(select: str, condition: str = "s1.key = s2.key") -> BoundQuery:
    schema = pa.schema({"ts": pa.int64(), "key": pa.string(), "x": pa.int64(), "n": pa.int64()})
    streams = [Stream(name, window=WINDOW, arrival="n") for name in ("s1", "s2")]
    query = Query(streams=streams, condition=condition, select=select)
    return query.bind({"s1": schema, "s2": schema})


def ever_new_keys(query: BoundQuery, push: int) -> pa.Table:
    """One push: two tuples each ms, keys that never come again, some of them late."""
    rng = np.random.default_rng(push)
    tables = {}
    for s, stream in enumerate(query.streams):
        at = np.arange(PER_PUSH // 2) + push * (PER_PUSH // 2)
        tables[stream.name] = pa.table(
            {
                "ts": at - rng.choice([0, 0, 0, 20, 150, 600], len(at)),
                "key": [f"key number {i}" for i in at],
                "x": at,
                "n": 2 * at + s,
            },
            schema=stream.schema,
        )
    return arrivals_of(query, tables)


def sizes(pipeline: Pipeline) -> dict[str, int]:
    windows = pipeline.operator.windows
    interned = pipeline.intake.keys[0].interned if pipeline.intake.keys else None
    return {
        "kept": pipeline.n_kept,
        "cells": len(windows.rings.records),
        "slots in use": int(windows.slots.state[NEXT_SLOT] - windows.slots.state[N_FREE]),
        "slots": len(windows.slots.table),
        "buckets": len(windows.slots.buckets),
        "entries": len(windows.chains.entries),
        "late": windows.late.run.shape[1],
        "keys": 0 if interned is None else interned.n_entries,
        "key bytes": 0 if interned is None else len(interned._bytes),
        "rows": sum(payload.n_rows for payload in pipeline.payloads),
        "row bytes": sum(payload.to_table().nbytes for payload in pipeline.payloads),
        "pending": len(pipeline.pending.ts),
        "queues": pipeline.disorder.queues.run.size,
    }


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
@pytest.mark.parametrize(
    ("select", "condition"),
    [
        ("count(*)", "s1.key = s2.key"),
        ("*", "s1.key = s2.key"),
        ("count(*)", "s1.key = s2.key AND s1.x <= s2.x"),
        ("s1.key", "s1.x <= s2.x AND s2.x < s1.x + 3"),
    ],
)
def test_ever_new_keys_leave_nothing_behind(arrival: Arrival, select: str, condition: str) -> None:
    query = keyed(select, condition)
    settings = EngineSettings(arrival=arrival, rows=select != "count(*)", slack=True)
    pipeline = Pipeline(query, settings)
    seen = []
    for push in range(N_PUSHES):
        arrivals = ever_new_keys(query, push)
        if arrival == "tuple":
            drain(pipeline.push(arrivals, k=50))
        else:
            tick = np.arange(len(arrivals)) // 100
            drain(pipeline.push_ticks(arrivals, tick, n_ticks=int(tick[-1]) + 1, k=50))
        seen.append(sizes(pipeline))
    # Kept are two streams for window and retention, 1 tuple a ms, and what a push adds.
    assert max(size["kept"] for size in seen) <= 2 * (2 * WINDOW) + PER_PUSH
    assert max(size["slots in use"] for size in seen) <= 2 * (2 * WINDOW) + PER_PUSH
    assert max(size["entries"] for size in seen) <= 8 * (2 * (2 * WINDOW) + PER_PUSH)
    first, last = seen[: N_PUSHES // 2], seen[N_PUSHES // 2 :]
    for name in seen[0]:
        most = max(size[name] for size in first)
        # Nothing that grew with the first half of the input grows on with the second.
        assert max(size[name] for size in last) <= 1.1 * most + 64, name
    # Sweeps and clean-ups wait until some thousand are due.
    assert max(size["keys"] for size in seen) <= 3 * 4096 + 4 * PER_PUSH
    assert max(size["pending"] for size in seen) <= 2 * 4096 + 2 * PER_PUSH
    assert max(size["rows"] for size in seen) <= 3 * 4096 + 4 * PER_PUSH


@pytest.mark.parametrize("condition", ["s1.key = s2.key", "s1.key = s2.key AND s1.x <= s2.x"])
@pytest.mark.parametrize("rewritten", [False, True])
def test_clean_ups_lose_nothing(condition: str, rewritten: bool) -> None:
    # Every tuple has one partner, with its key and number, and the slack lets both be there.
    query = keyed("s1.key AS one, s2.key AS other, s1.x AS x, s2.x AS y", condition)
    pipeline = Pipeline(query)
    found = []
    expected = 0
    for push in range(N_PUSHES):
        arrivals = ever_new_keys(query, push)
        one, two = (table["ts"].to_numpy() for table in arrivals.tables)
        expected += int((np.abs(one - two) <= WINDOW).sum())
        batches, _ = drain(pipeline.push(arrivals, k=700))
        found += [row for batch in batches for row in batch.to_pylist()]
        if rewritten and push % 9 == 5:
            pipeline = restore(query, snapshot(pipeline))
    batches, _ = drain(pipeline.flush())
    found += [row for batch in batches for row in batch.to_pylist()]
    assert all(
        row["one"] == row["other"] == f"key number {row['x']}" and row["x"] == row["y"]
        for row in found
    )
    assert len({row["x"] for row in found}) == len(found) == expected


def test_a_snapshot_is_as_large_as_the_content_and_not_as_the_past() -> None:
    query = keyed("*")
    pipeline = Pipeline(query)
    lengths = []
    for push in range(N_PUSHES):
        drain(pipeline.push(ever_new_keys(query, push), k=50))
        lengths.append(len(snapshot(pipeline).to_pybytes()))
        if push % 10 == 9:
            pipeline = restore(query, snapshot(pipeline))
    assert max(lengths[N_PUSHES // 2 :]) <= 1.2 * max(lengths[: N_PUSHES // 2])


def test_a_long_retention_keeps_tuples_and_a_short_one_does_not() -> None:
    kept = {}
    for retention in (0, 1000, 4000):
        query = keyed("count(*)")
        pipeline = Pipeline(query, EngineSettings(rows=False, retention=retention))
        for push in range(20):
            drain(pipeline.push(ever_new_keys(query, push), k=50))
        kept[retention] = pipeline.n_kept
    assert kept[0] < 2 * WINDOW + 700
    assert kept[1000] < 2 * (WINDOW + 1000) + 700
    assert kept[4000] > 2 * 4000


def test_dictionaries_with_ever_new_values_do_not_pile_up() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"ts": pa.int64(), "key": kind})
    streams = [Stream(name, window=WINDOW) for name in ("s1", "s2")]
    query = Query(streams=streams, condition="s1.key = s2.key").bind({"s1": schema, "s2": schema})
    pipeline = Pipeline(query)
    sizes_seen = []
    for push in range(200):
        keys = pa.array([f"{push:0100d} {i}" for i in range(100)]).dictionary_encode().cast(kind)
        table = pa.table({"ts": [100 * push + i for i in range(100)], "key": keys}, schema=schema)
        _, step = drain(pipeline.push(arrivals_of(query, {"s1": table, "s2": table}), k=0))
        assert step.n_produced >= 99
        sizes_seen.append(sum(payload.to_table().nbytes for payload in pipeline.payloads))
    assert max(sizes_seen[100:]) <= 1.2 * max(sizes_seen[:100])


class Peak:
    """Largest memory of numpy and Arrow while results stream by."""

    def __init__(self) -> None:
        tracemalloc.start()
        self.before = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
        self.most = 0

    def look(self) -> None:
        now = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes()
        self.most = max(self.most, now - self.before)

    def stop(self) -> int:
        self.look()
        tracemalloc.stop()
        return self.most


def stream_out(pipeline: Pipeline, arrivals: object, *, most_rows: int = 65_536) -> tuple[int, int]:
    """Number of results and the largest memory on the way; no result is kept."""
    steps = [pipeline.push(arrivals, k=0), pipeline.flush()]  # type: ignore[arg-type]
    peak = Peak()
    total = 0
    produced = 0
    for batches in steps:
        while True:
            try:
                batch = next(batches)
            except StopIteration as end:
                step: Step = end.value
                produced += step.n_produced
                break
            assert 0 < batch.num_rows <= most_rows
            total += batch.num_rows
            peak.look()
            del batch
    assert total == produced
    return total, peak.stop()


@pytest.mark.parametrize("condition", ["s1.a = s2.a AND s2.a = s3.a", None, "s1.a <= s2.a"])
def test_a_trigger_with_many_results_takes_no_more_memory_than_one_with_few(
    condition: str | None,
) -> None:
    peaks = {}
    for n in (500, 1500):
        query = bound(condition, windows=(10, 10, 10))
        tables = {
            name: pa.table({"ts": [0] * size, "a": [7] * size, "n": np.arange(size) + first})
            for name, size, first in (("s1", n, 0), ("s2", n, n), ("s3", 1, 2 * n))
        }
        total, peaks[n] = stream_out(Pipeline(query), arrivals_of(query, tables))
        assert total == n * n
    # 250,000 results and nine times as many, which would be 180 MB if they were kept.
    assert peaks[1500] < 1.5 * peaks[500]
    assert peaks[1500] < 40_000_000


def test_a_cross_join_with_ten_million_results_streams_out() -> None:
    query = bound(None, windows=(10, 10, 10), select="s1.n + s2.n + s3.n AS n")
    pipeline = Pipeline(query)
    n = 220
    tables = {
        f"s{i + 1}": pa.table({"ts": [0] * n, "a": [7] * n, "n": np.arange(n) * 3 + i})
        for i in range(3)
    }
    total, peak = stream_out(pipeline, arrivals_of(query, tables))
    assert total == n**3
    # All results together would be 170 MB.
    assert peak < 64_000_000


def test_counting_a_billion_results_allocates_next_to_nothing() -> None:
    query = bound(None, windows=(10, 10, 10), select="count(*)")
    pipeline = Pipeline(query)
    n = 1000
    tables = {
        f"s{i + 1}": pa.table({"ts": [0] * n, "a": [7] * n, "n": np.arange(n) * 3 + i})
        for i in range(3)
    }
    total = Peak()
    _, step = drain(pipeline.push(arrivals_of(query, tables), k=0))
    _, rest = drain(pipeline.flush())
    assert step.n_produced + rest.n_produced == n**3
    assert total.stop() < 30_000_000

"""The engine alone, on one core: counting, lost results, disorder handling, rows, scans."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.measure import Report, best_of
from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.disorder import TupleDisorder
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

K = 300
SLICE = 1 << 16
"""Number of tuples that arrive at once."""


def prepare(query: str, tables: Mapping[str, pa.Table]) -> tuple[BoundQuery, Arrivals]:
    """A bound query and its input, merged by the column ``arrival``."""
    stated = parse_query(query, arrival="arrival")
    bound = stated.bind({name: table.schema for name, table in tables.items()})
    return bound, arrivals_of(bound, tables)


def run(
    bound: BoundQuery,
    arrivals: Arrivals,
    settings: EngineSettings,
    *,
    k: int = K,
    each: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> tuple[int, float]:
    """Everything through one pipeline: results produced, and combinations in the windows.

    Tuples come in slices, as in a replay.
    """
    begins = range(0, len(arrivals), SLICE)
    slices = (arrivals.slice(begin, begin + SLICE) for begin in begins)
    return run_slices(bound, slices, settings, k=k, each=each)


def run_slices(
    bound: BoundQuery,
    slices: Iterable[Arrivals],
    settings: EngineSettings,
    *,
    k: int = K,
    each: Callable[[pa.RecordBatch], None] = lambda _: None,
) -> tuple[int, float]:
    """The same for tuples that come in slices already."""
    pipeline = Pipeline(bound, settings)
    produced, candidates = 0, 0.0
    for step in chain((pipeline.push(part, k=k) for part in slices), (pipeline.flush(),)):
        while True:
            try:
                each(next(step))
            except StopIteration as end:
                produced += end.value.n_produced
                candidates += float(end.value.n_cross.sum())
                break
    return produced, candidates


def counting() -> Report:
    """The paper's synthetic data, fully counted."""
    report = Report(
        "Counting the paper's data (30 minutes, K = 0.3 s)",
        ("data", "tuples", "results", "counts (s)", "+ lost, slack (s)", "target (s)"),
    )
    for name, make, target in (("x3", make_syn_x3, "1.5 / 3"), ("x4", make_syn_x4, "3 / 6")):
        data = make(0)
        query = data.query.replace("*", "count(*)", 1)
        bound, arrivals = prepare(query, {s: data.table(s) for s in data.streams})
        plain = EngineSettings(lost=False)
        full = EngineSettings(slack=True)
        results, _ = run(bound, arrivals, plain)
        report.add(
            name,
            f"{len(arrivals):,}",
            f"{results:.3g}",
            f"{best_of(partial(run, bound, arrivals, plain)):.2f}",
            f"{best_of(partial(run, bound, arrivals, full)):.2f}",
            target,
        )
    return report


def _handle(m: int, arrivals: Arrivals, k: Int64s) -> None:
    TupleDisorder(m).push(arrivals.stream, arrivals.ts, 0, k=k)


def disorder() -> Report:
    """K-slack and Synchronizer alone."""
    report = Report(
        "Disorder handling alone (target 10 M tuples/s)", ("data", "K (s)", "M tuples/s")
    )
    for name, make in (("x3", make_syn_x3), ("x4", make_syn_x4)):
        data = make(0)
        bound, arrivals = prepare(data.query, {s: data.table(s) for s in data.streams})
        for k in (0, 300, 2500, 20000):
            slack = np.full(len(arrivals), k, dtype=np.int64)

            def handle(
                a: Arrivals = arrivals, m: int = len(bound.streams), k: Int64s = slack
            ) -> None:
                TupleDisorder(m).push(a.stream, a.ts, 0, k=k)

            report.add(name, k / 1000, f"{len(arrivals) / best_of(handle, times=5) / 1e6:.1f}")
    return report


def keyed(n: int, keys: int, *, seed: int, streams: int = 2) -> dict[str, pa.Table]:
    """Streams in order, a tuple a millisecond, with random keys."""
    rng = np.random.default_rng(seed)
    tables = {}
    for s in range(streams):
        ts = np.sort(rng.integers(0, n, n))
        columns = {"arrival": ts, "ts": ts, "id": rng.integers(0, keys, n), "v": rng.normal(size=n)}
        tables[f"s{s + 1}"] = pa.table(columns)
    return tables


def rows() -> Report:
    """Result rows of a two-way equi-join, beside DuckDB's range join on the same sorted data."""
    import duckdb

    report = Report(
        "Rows of a 2-way equi-join (target 10 M rows/s, within 3x of DuckDB on one core)",
        ("matches a tuple", "rows", "M rows/s", "DuckDB M rows/s", "ratio"),
    )
    n = 400_000
    tables = keyed(n, 1000, seed=0)
    s1, s2 = tables["s1"], tables["s2"]
    for window in (1000, 5000, 10000, 20000, 40000):
        select = "s1.ts, s1.id, s1.v, s2.ts AS ts2, s2.v AS v2"
        text = f"SELECT {select} FROM s1 [{window} ms], s2 [{window} ms] WHERE s1.id = s2.id"
        bound, arrivals = prepare(text, tables)
        settings = EngineSettings(lost=False)
        produced, _ = run(bound, arrivals, settings, k=0)
        ours = best_of(partial(run, bound, arrivals, settings, k=0), times=2)
        connection = duckdb.connect()
        connection.execute("SET threads = 1")
        connection.register("t1", s1)
        connection.register("t2", s2)
        sql = (
            f"SELECT {select} FROM t1 s1, t2 s2 "
            f"WHERE s1.id = s2.id AND s1.ts - s2.ts BETWEEN -{window} AND {window}"
        )

        def peer(connection: duckdb.DuckDBPyConnection = connection, sql: str = sql) -> int:
            return sum(b.num_rows for b in connection.sql(sql).to_arrow_reader(65536))

        assert peer() == produced, "DuckDB and the engine must agree on the number of results"
        theirs = best_of(peer, times=2)
        report.add(
            f"{produced / n:.0f}",
            f"{produced:,}",
            f"{produced / ours / 1e6:.1f}",
            f"{produced / theirs / 1e6:.1f}",
            f"{theirs / ours:.2f}x",
        )
    return report


def theta() -> Report:
    """The distance join of the paper's soccer query, on a simulated match."""
    report = Report(
        "Distance join, simulated match (target 200 M candidate pairs/s)",
        ("tuples", "pairs", "results", "M pairs/s", "with lost, slack"),
    )
    data = SimulatedMatch(seed=0, duration=180_000)
    query = data.query.replace("*", "count(*)", 1)
    bound, arrivals = prepare(query, {s: data.table(s) for s in data.streams})
    plain, full = EngineSettings(lost=False), EngineSettings(slack=True)
    results, pairs = run(bound, arrivals, plain)
    seconds = [best_of(partial(run, bound, arrivals, s), times=2) for s in (plain, full)]
    rates = [f"{pairs / s / 1e6:.0f}" for s in seconds]
    report.add(f"{len(arrivals):,}", f"{pairs:.3g}", f"{results:,}", *rates)
    return report

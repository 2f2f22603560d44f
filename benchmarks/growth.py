"""How the time of the engine grows as one thing at a time grows, with fitted exponents."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.engine import keyed, prepare, run
from benchmarks.measure import Report, best_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.source_marks import reduced
from recalljoin.engine.times import FOREVER
from recalljoin.quality.followed import FollowedSources
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.spark.cells import make_grid
from recalljoin.spark.shares import shares_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

N, KEYS, WINDOW = 100_000, 1000, 2000
SETTINGS = EngineSettings(lost=False)
Tables = dict[str, pa.Table]


@dataclass
class Lines:
    """Rows of the table, and what they say of the growth of each thing."""

    report: Report
    _points: dict[str, list[tuple[float, tuple[float, ...]]]] = field(default_factory=dict)

    def add(
        self,
        what: str,
        value: float,
        *,
        seconds: tuple[float, ...],
        n: int,
        results: str,
        kept: str,
    ) -> None:
        """One more row. Exponents are fitted to all rows of the same thing so far."""
        points = self._points.setdefault(what, [])
        points.append((value, seconds))
        fitted = "" if len(points) < 2 else ", ".join(
            f"{exponent([v for v, _ in points], [s[at] for _, s in points]):.1f}"
            for at in range(len(seconds))
        )  # fmt: skip
        times = [f"{each:.3f}" for each in seconds] + [""] * (2 - len(seconds))
        self.report.add(what, f"{value:,}", f"{n:,}", results, *times, kept, fitted)


def exponent(values: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of a line through the logarithms: 1 where twice as much takes twice as long."""
    return float(np.polyfit(np.log(values), np.log(seconds), 1)[0])


def growth() -> Report:
    """What happens as rate, window, streams, results, disorder, K, cells and sources grow."""
    report = Report(
        "Growth (each line makes one thing larger)",
        ("what", "value", "tuples", "results", "counts (s)", "rows (s)", "kept tuples",
         "exponents"),
        note=f"Base: 2 streams, {N:,} tuples each, one a millisecond, window {WINDOW:,} ms, "
        f"{KEYS:,} keys, in order. Exponents are slopes of logarithms, of counts and of rows: 1 "
        "where twice as much takes twice as long, 0 where it makes no difference. Results grow "
        "with rate squared, with the window and with 1 / keys. `window, same matches` has as many "
        "more keys as its window is longer: 100 times as many tuples in the windows make a batch "
        "dearer only by what no longer fits the processor's cache. "
        "`cells` has the processor time of all cells together, `sources` that of their clocks.",
    )  # fmt: skip
    lines = Lines(report)
    for factor in (1, 2, 4):
        tables = _faster(keyed(factor * N, KEYS, seed=1), factor)
        _line(lines, "rate", factor, tables)
    for window in (2000, 4000, 8000):
        _line(lines, "window (ms)", window, keyed(N, KEYS, seed=1), window=window)
    for window in (1000, 10_000, 100_000):
        _line(lines, "window, same matches (ms)", window, keyed(2 * N, window, seed=1),
              window=window)  # fmt: skip
    for streams in (2, 3, 4):
        _line(lines, "streams", streams, keyed(N, KEYS, seed=1, streams=streams))
    for keys in (1000, 500, 250):
        _line(lines, "results a key (1 / keys)", 1000 // keys, keyed(N, keys, seed=1))
    for delay in (100, 1000, 10_000):
        _line(lines, "disorder (ms)", delay, _delayed(keyed(N, KEYS, seed=1), delay), k=delay)
    for k in (1000, 4000, 16_000):
        _line(lines, "K (ms)", k, _delayed(keyed(N, KEYS, seed=1), 1000), k=k)
    for cells in (1, 2, 4, 8):
        _in_cells(lines, cells, keyed(N, KEYS, seed=1))
    for sources in (100, 1000, 10_000):
        seconds = best_of(partial(_follow, sources), times=2)
        lines.add("sources", sources, seconds=(seconds,), n=_TICKS * _PER_TICK, results="", kept="")
    return report


def _query(select: str, tables: Tables, window: int) -> tuple[BoundQuery, Arrivals]:
    condition = " AND ".join(f"{a}.id = {b}.id" for a, b in pairwise(tables))
    streams = ", ".join(f"{name} [{window} ms]" for name in tables)
    return prepare(f"SELECT {select} FROM {streams} WHERE {condition}", tables)


def _line(
    lines: Lines, what: str, value: int, tables: Tables, *, window: int = WINDOW, k: int = 0
) -> None:
    seconds, results, kept = [], 0, 0
    for select in ("count(*)", "*"):
        bound, arrivals = _query(select, tables, window)
        results, _ = run(bound, arrivals, SETTINGS, k=k)
        seconds.append(best_of(partial(run, bound, arrivals, SETTINGS, k=k), times=2))
        pipeline = Pipeline(bound, SETTINGS)
        for _ in pipeline.push(arrivals, k=k):
            pass
        kept = pipeline.n_kept
    n = sum(table.num_rows for table in tables.values())
    lines.add(what, value, seconds=tuple(seconds), n=n, results=f"{results:,}", kept=f"{kept:,}")


def _in_cells(lines: Lines, n_cells: int, tables: Tables) -> None:
    seconds, results = [], 0
    for select in ("count(*)", "*"):
        bound, arrivals = _query(select, tables, WINDOW)
        tick = np.zeros(len(arrivals), dtype=np.int64)
        parts = [s.arrivals for s in shares_of(bound, make_grid(bound, n_cells), arrivals, tick)]
        results = sum(run(bound, part, SETTINGS, k=0)[0] for part in parts)

        def all_cells(bound: BoundQuery = bound, parts: list[Arrivals] = parts) -> None:
            for part in parts:
                run(bound, part, SETTINGS, k=0)

        seconds.append(best_of(all_cells, times=2))
    n = sum(table.num_rows for table in tables.values())
    lines.add("cells", n_cells, seconds=tuple(seconds), n=n, results=f"{results:,}", kept="")


_TICKS, _PER_TICK = 200, 1000


def _follow(n_sources: int) -> None:
    """Clocks of sources alone, through some ticks."""
    random = np.random.default_rng(3)
    plan = SourcePlan(1000, 0.0)
    followed = FollowedSources(plan)
    for tick in range(_TICKS):
        source = 1 + random.integers(0, n_sources, _PER_TICK)
        ts = tick * 100 + random.integers(0, 100, _PER_TICK)
        marks, front = reduced(source, ts), np.array([(tick + 1) * 100])
        followed.follow(plan, 1000, FOREVER, np.zeros(len(marks[0]), np.int64), marks, fronts=front)


def _faster(tables: Tables, factor: int) -> Tables:
    """The same tuples in a part of the time."""
    return {name: _at(table, table["ts"].to_numpy() // factor) for name, table in tables.items()}


def _at(table: pa.Table, ts: np.ndarray) -> pa.Table:
    return table.set_column(0, "arrival", [ts]).set_column(1, "ts", [ts])


def _delayed(tables: Tables, most: int) -> Tables:
    """The same tuples, a tenth of them late by up to ``most`` milliseconds."""
    random = np.random.default_rng(4)
    late: Tables = {}
    for name, table in tables.items():
        ts = table["ts"].to_numpy()
        delay = np.where(random.random(len(ts)) < 0.1, random.integers(0, most, len(ts)), 0)
        order = np.argsort(ts + delay, kind="stable")
        late[name] = table.set_column(0, "arrival", [ts + delay]).take(pa.array(order))
    return late

"""A recording on its way through several cells at once, as a streaming query would run it.

Every cell is a pipeline of its own and sees its share of the tuples, and the progress of all
streams. What they did is put together again after each step: results and lost ones add up, a tuple
is counted in the cell that owns it. The policy is told what the cells' profiles tell together.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine import Arrivals, EngineSettings, Pipeline, Step, drain
from recalljoin.quality.arrived import no_clocks
from recalljoin.quality.horizon import Kept
from recalljoin.quality.profiling import profile_of
from recalljoin.quality.replay import TickReplay, adaptation_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality import ArrivalPolicy, Profile
    from recalljoin.query import BoundQuery
    from recalljoin.spark.cells import Grid


@dataclass(frozen=True)
class Share:
    """The tuples of a recording that one cell holds."""

    arrivals: Arrivals
    places: Int64s
    """Where each of them stands in the recording."""
    tick: Int64s
    """Tick of each of them."""
    rows: tuple[Int64s, ...]
    """For each stream, numbers in the recording of the tuples held."""
    owned: NDArray[np.bool_]
    """Streams whose tuples are counted here, of all cells that hold a copy."""


def shares_of(query: BoundQuery, grid: Grid, arrivals: Arrivals, tick: Int64s) -> list[Share]:
    """Divide a recording among the cells of a grid."""
    cells: list[NDArray[np.int64]] = []
    for s, table in enumerate(arrivals.tables):
        ts = arrivals.ts[arrivals.stream == s]
        cells.append(grid.cells_of(query, s, table, ts))
    shares = []
    for cell in range(grid.n_cells):
        rows = tuple(np.flatnonzero((held == cell).any(axis=1)) for held in cells)
        here = np.zeros(len(arrivals), dtype=np.bool_)
        row = np.zeros(len(arrivals), dtype=np.int64)
        for s, held in enumerate(rows):
            mine = np.flatnonzero(arrivals.stream == s)[held]
            here[mine] = True
            row[mine] = np.arange(len(held))
        (places,) = np.nonzero(here)
        tables = tuple(
            table.take(pa.array(held)) for table, held in zip(arrivals.tables, rows, strict=True)
        )
        owned = np.array([grid.owns(cell, s) for s in range(grid.m)])
        part = Arrivals(tables, arrivals.stream[places], row[places], arrivals.ts[places])
        shares.append(Share(part, places, tick[places], rows, owned))
    return shares


class CellReplay(TickReplay):
    """Ticks on their way through the cells of a grid.

    Parameters
    ----------
    query, settings
        The bound query, and what every cell does besides joining.
    grid
        The cells.
    arrivals, clock, length
        As in :class:`~recalljoin.quality.replay.TickReplay`.
    batch
        Length of a micro-batch; K adapts where one ends.
    """

    def __init__(
        self,
        query: BoundQuery,
        settings: EngineSettings,
        grid: Grid,
        arrivals: Arrivals,
        clock: Int64s | None,
        *,
        length: int,
        batch: int,
    ) -> None:
        self.pipelines = [Pipeline(query, settings) for _ in range(grid.n_cells)]
        super().__init__(self.pipelines[0], arrivals, clock, length)
        self.shares = shares_of(query, grid, arrivals, self.tick)
        self._steps: list[Step] = []
        # A micro-batch holds whole ticks: those that begin within it.
        n_batches = -(-self.n_steps * length // batch)
        ends = -(-np.arange(1, n_batches + 1) * batch // length)
        self.batch_ends = np.unique(np.minimum(ends, self.n_steps))
        # The kernels leave the interpreter's lock alone.
        self._pool = ThreadPoolExecutor(min(grid.n_cells, os.cpu_count() or 1))

    def adaptation_points(self, *, start: int, interval: int) -> Int64s:
        """Ends of micro-batches by which the clock has reached another boundary."""
        latest = self.clocks.latest[self.batch_ends - 1]
        points: Int64s = self.batch_ends[
            adaptation_points(latest, start=start, interval=interval) - 1
        ]
        return points

    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K of each tick: no cell can follow the tuples of all others one by one."""
        return np.full(end - begin, policy.k, dtype=np.int64)

    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Let ticks pass in all cells."""

        def push(cell: int) -> Step:
            share = self.shares[cell]
            first, last = np.searchsorted(share.tick, [begin, end])
            _, step = drain(
                self.pipelines[cell].push_ticks(
                    share.arrivals.slice(int(first), int(last)),
                    share.tick[first:last] - begin,
                    n_ticks=end - begin,
                    k=k,
                    marks=self.marks[begin:end],
                )
            )
            return step

        self._steps = list(self._pool.map(push, range(len(self.shares))))
        return self._together()

    @property
    def kept(self) -> Kept:
        """What is in windows and horizons of all cells."""
        cells = self.pipelines
        return Kept(sum(each.n_kept for each in cells), sum(each.kept_bytes for each in cells))

    def n_delivered(self, begin: int, end: int) -> int:
        """Tuples that arrive in these ticks, copies included."""
        edges = [np.searchsorted(share.tick, [begin, end]) for share in self.shares]
        return int(sum(last - first for first, last in edges))

    def remember_for(self, retention: int) -> None:
        """Change how long tuples are kept behind their windows, in all cells."""
        for pipeline in self.pipelines:
            pipeline.remember_for(retention)

    def flush(self) -> Step:
        """End the input of all cells."""
        flushed = self._pool.map(lambda pipeline: drain(pipeline.flush())[1], self.pipelines)
        self._steps = list(flushed)
        self._pool.shutdown()
        return self._together()

    def profile(self, step: Step, begin: int, end: int, *, granularity: int) -> Profile:  # noqa: ARG002 - the cells' own steps tell more
        """What the cells tell together, as in a streaming query."""
        before = self.clocks.local[:, begin - 1] if begin else no_clocks(self.m)
        since, until = self.tuples(begin, end)
        arrived = self.arrived.take(slice(since, until))
        profiles = []
        for share, own in zip(self.shares, self._steps, strict=True):
            first, last = np.searchsorted(share.tick, [begin, end])
            here = np.zeros(len(arrived.stream), dtype=np.bool_)
            here[share.places[first:last] - since] = True
            profiles.append(
                profile_of(
                    own,
                    arrived.take(here),
                    granularity=granularity,
                    before=before,
                    windows=self.windows,
                    owned=share.owned,
                    whole=len(self.shares) == 1,
                    tick_span=self.tick_span(begin, end),
                )
            )
        return reduce(add, profiles)

    def _together(self) -> Step:
        """What one instance would have reported, but for sizes of the cross join."""
        kept, rows = [], []
        for share, step in zip(self.shares, self._steps, strict=True):
            # A late tuple with copies is late in every cell; in order, each copy has its results.
            kept.append(~step.late | share.owned[step.stream])
            row = np.zeros(len(step.row), dtype=np.int64)
            for s, numbers in enumerate(share.rows):
                mine = step.stream == s
                row[mine] = numbers[step.row[mine]]
            rows.append(row)
        steps = self._steps
        ts = _joined([step.ts[keep] for step, keep in zip(steps, kept, strict=True)])
        # Between steps results are in order of time over all cells; within one they are made so.
        order = np.argsort(ts, kind="stable")

        def column(name: str) -> NDArray[Any]:
            parts = [getattr(step, name)[keep] for step, keep in zip(steps, kept, strict=True)]
            return _joined(parts)[order]

        bins = max(step.slack.shape[1] for step in steps)
        slack = np.zeros((2, bins), dtype=np.int64)
        for step in steps:
            slack[:, : step.slack.shape[1]] += step.slack
        return Step(
            stream=column("stream"),
            ts=ts[order],
            row=_joined([row[keep] for row, keep in zip(rows, kept, strict=True)])[order],
            delay=column("delay"),
            base=column("base"),
            now=column("now"),
            late=column("late"),
            n_join=column("n_join"),
            n_cross=column("n_cross"),
            beyond=column("beyond"),
            lost_ts=_joined([step.lost_ts for step in steps]),
            lost_n=_joined([step.lost_n for step in steps]),
            slack=slack,
            join_time=steps[0].join_time,
            base_time=steps[0].base_time,
            counted_since=steps[0].counted_since,
        )


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts)

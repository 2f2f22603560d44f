"""Runs a join of recorded streams: complete ticks in, results out.

Between two adaptations all ticks go through the cells at once; a tick in which nothing arrives
costs nothing. With a control log every tick is taken by itself, as each tick has its own report.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import marks_of
from recalljoin.engine.step import Rounds
from recalljoin.engine.times import NEVER
from recalljoin.quality.cell import Cell, kept_in
from recalljoin.quality.profile import profile_of_cells
from recalljoin.quality.profiling import follow_marks
from recalljoin.spark.packing import PLACE
from recalljoin.spark.recorded_rows import Recorded, Rows
from recalljoin.spark.recorded_sources import RecordedSources
from recalljoin.spark.report import report_of
from recalljoin.spark.shares import owned_by, shares_of
from recalljoin.spark.source_parcels import follows_sources
from recalljoin.spark.tick_cell import leave_late, leave_refused
from recalljoin.spark.tuple_cell import Instance, TupleRun

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.adaptation import Adaptation
    from recalljoin.quality.cell import Outcome, Share
    from recalljoin.quality.source_lags import SourcePlan
    from recalljoin.spark.cell import ByTuple, CellPlan


class TickRun(Recorded):
    """Ticks on their way through all cells.

    Parameters
    ----------
    plan, start, length
        As in the base class.
    adaptation
        Chooses K and horizon.
    sources
        How sources are followed, if streams have any.
    """

    def __init__(
        self,
        plan: CellPlan,
        adaptation: Adaptation,
        sources: SourcePlan,
        *,
        start: int,
        length: int,
    ) -> None:
        super().__init__(plan, start=start, length=length)
        self._adaptation = adaptation
        self._cells = [
            Cell(
                Pipeline(plan.query, plan.settings),
                plan.measures,
                owned=owned_by(plan.grid, number),
                whole=plan.grid.n_cells == 1,
            )
            for number in range(plan.grid.n_cells)
        ]
        self._sources = (
            RecordedSources(plan.query, sources) if follows_sources(plan.query) else None
        )
        self._rounds = Rounds()
        self._last = -1
        self._seen_at: list[int | None] = [None] * len(plan.query.streams)
        self._n_rows = [0] * len(plan.query.streams)

    def take(
        self, tables: list[pa.Table], ticks: list[Int64s]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Let complete ticks pass: for each stream its rows, in the order of their ticks."""
        m = len(tables)
        numbers = self._ticks_run(np.unique(np.concatenate(ticks)))
        local_times = self._cells[0].pipeline.local_times.tolist()
        rows = self.usable(tables, ticks, local_times)
        if self.plan.late_rows:
            self._number(rows)
        stream = np.concatenate([np.full(len(t), s, np.int8) for s, t in enumerate(rows.ticks)])
        row = np.concatenate([np.arange(len(t)) for t in rows.ticks])
        tick = np.searchsorted(numbers, np.concatenate(rows.ticks))
        order = np.argsort(tick, kind="stable")
        ts = np.concatenate(rows.times)[order]
        arrivals = Arrivals(tuple(rows.tables), stream[order], row[order], ts)
        tick = tick[order]
        query, grid = self.plan.query, self.plan.grid
        shares = shares_of(query, grid, arrivals, tick, self.plan.named_hot)
        marks = marks_of(tick, arrivals.stream, ts, n_ticks=len(numbers), m=m)
        idle = self._idle(numbers, marks)
        block = _Block(rows, shares, numbers, marks, idle)
        if self._sources is not None:
            fronts = self._cells[0].pipeline.clocks.fronts_after(marks, idle=idle)
            self._sources.take(arrivals, tick, numbers, fronts)
        latest = follow_marks(marks, before=np.array(local_times)).latest
        first = ts[tick == tick[0]] if len(tick) else ts
        points = self._adaptation.clock.points(latest, earliest=int(first.min(initial=0)))
        ends = range(1, len(numbers) + 1) if self.plan.log is not None else points.tolist()
        begin = 0
        for end in sorted({*ends, len(numbers)}):
            yield from self._push(block, begin, end)
            if end in points:
                self._adaptation.adapt(kept_in(self._cells))
            begin = end

    def _ticks_run(self, numbers: Int64s) -> Int64s:
        """Ticks that matter: ticks with rows, and the first tick without rows after each of them.

        A tick without rows matters if K has fallen. Further ticks without rows change nothing.
        """
        if self._last >= 0:
            numbers = np.concatenate(([self._last], numbers))
        after = numbers[:-1][np.diff(numbers) > 1] + 1
        merged = np.unique(np.concatenate((numbers, after)))
        merged = merged[merged > self._last]
        self._last = int(merged[-1])
        return merged

    def _number(self, rows: Rows) -> None:
        """Number the tuples of each stream, so that copies of one late tuple are recognised."""
        for s, table in enumerate(rows.tables):
            first = self._n_rows[s]
            self._n_rows[s] += table.num_rows
            places = pa.array(np.arange(first, self._n_rows[s], dtype=np.int64))
            rows.tables[s] = table.append_column(PLACE, places)

    def _idle(self, numbers: Int64s, marks: Int64s) -> NDArray[np.bool_] | None:
        """``[tick, stream]``: streams that have been without tuples for too long."""
        if self.plan.idle_after is None:
            return None
        clock = np.asarray(self.clock(numbers))
        idle = np.zeros(marks.shape, dtype=np.bool_)
        for s in range(marks.shape[1]):
            # A stream that has not begun counts from the first tick.
            known = self._seen_at[s]
            begin = int(clock[0]) if known is None else known
            seen = np.maximum.accumulate(np.where(marks[:, s] != NEVER, clock, begin))
            idle[:, s] = (marks[:, s] == NEVER) & (clock - seen >= self.plan.idle_after)
            self._seen_at[s] = int(seen[-1])
        return idle

    def _push(self, block: _Block, begin: int, end: int) -> Generator[pa.RecordBatch, None, None]:
        """Let some ticks pass, with the K in force."""
        adaptation = self._adaptation
        k, limited, phase = adaptation.k, adaptation.is_limited, adaptation.phase
        if adaptation.retention is not None:
            for cell in self._cells:
                cell.pipeline.remember_for(adaptation.retention)
        first_rows = [cell.pipeline.n_arrived.copy() for cell in self._cells]
        idle = None if block.idle is None else block.idle[begin:end]
        parts = [share.between(begin, end) for share in block.shares]
        held = None
        if self._sources is not None:
            held = self._sources.held(begin, end, adaptation.lead, adaptation.leap)
        marks = block.marks[begin:end]
        works = [
            cell.push_ticks(part, tick, k=k, marks=marks, idle=idle, held=held, flags=flags)
            for cell, (part, tick, flags) in zip(self._cells, parts, strict=True)
        ]
        began = time.perf_counter()
        taken = yield from self._rounds.run(works)
        seconds = time.perf_counter() - began
        profile = profile_of_cells([each.profile for each in taken])
        adaptation.observe(profile, sum(len(part) for part, _, _ in parts))
        if self.plan.log is None:
            return
        counts, refused = block.rows.refused_in(int(block.numbers[begin]))
        leave_refused(self.plan, refused, cell=0, batch=self._n_reports)
        for n, (each, (part, _, _)) in enumerate(zip(taken, parts, strict=True)):
            leave_late(
                self.plan,
                each,
                part.tables,
                cell=n,
                batch=self._n_reports,
                first_rows=first_rows[n],
            )
        n_arrived = tuple(int((tick == block.numbers[begin]).sum()) for tick in block.rows.ticks)
        self._report(
            taken,
            [len(part) for part, _, _ in parts],
            k=k,
            phase=phase,
            limited=limited,
            clock=int(self.clock(int(block.numbers[begin]))),
            has_data=any(n_arrived) or any(counts),
            n_arrived=n_arrived,
            refused=counts,
            seconds={"join": seconds / len(taken)},
        )

    def flush(self) -> Generator[pa.RecordBatch, None, None]:
        """End the input."""
        adaptation = self._adaptation
        taken = yield from self._rounds.run([cell.flush() for cell in self._cells])
        m = len(self._confirmed)
        self._report(
            taken,
            [0] * len(taken),
            k=adaptation.k,
            phase=adaptation.phase,
            limited=adaptation.is_limited,
            clock=int(self.clock(self._last + 1)),
            has_data=False,
            n_arrived=(0,) * m,
            refused=tuple({} for _ in range(m)),
        )

    def _report(self, taken: list[Outcome], delivered: list[int], **tick: Any) -> None:
        if self.plan.log is None:
            return
        of_sources = {} if self._sources is None else self._sources.told
        for n, (cell, each) in enumerate(zip(self._cells, taken, strict=True)):
            report = report_of(
                self.plan,
                cell,
                each.profile,
                number=n,
                batch=self._n_reports,
                n_delivered=delivered[n],
                earliest=each.earliest,
                **of_sources,
                **tick,
            )
            self.plan.log.write_report(report)
        self._n_reports += 1


@dataclass(frozen=True)
class _Block:
    """Complete ticks, divided among the cells."""

    rows: Rows
    shares: list[Share]
    numbers: Int64s
    """Numbers of the ticks."""
    marks: Int64s
    idle: NDArray[np.bool_] | None


class TupleRecording(Recorded):
    """Tuples on their way through the one cell, one by one.

    Parameters
    ----------
    plan, start, length
        As in the base class.
    mode
        Chooses K and horizon.
    """

    def __init__(self, plan: CellPlan, mode: ByTuple, *, start: int, length: int) -> None:
        super().__init__(plan, start=start, length=length)
        cell = Cell(Pipeline(plan.query, plan.settings), plan.measures)
        self._instance = Instance(cell, mode.policy.adaptation(mode.horizon))
        self._last = -1

    def take(
        self, tables: list[pa.Table], ticks: list[Int64s]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Let the tuples of complete ticks arrive in their order."""
        for tick, parts, numbers in self._portions(tables, ticks):
            local_times = self._instance.cell.pipeline.local_times.tolist()
            rows = self.usable(parts, numbers, local_times)
            streams = self.plan.query.streams
            named = {stream.name: t for stream, t in zip(streams, rows.tables, strict=True)}
            run = TupleRun(self.plan, self._instance)
            yield from run.push(arrivals_of(self.plan.query, named))
            # Without a control log there are several ticks here, but nobody to tell of them.
            counts, refused = rows.refused_in(tick)
            leave_refused(self.plan, refused, cell=0, batch=self._n_reports)
            self._report(run, tick, tuple(len(t) for t in rows.ticks), counts)

    def _portions(
        self, tables: list[pa.Table], ticks: list[Int64s]
    ) -> Iterator[tuple[int, list[pa.Table], list[Int64s]]]:
        """All rows at once, or tick by tick where each tick has its own report."""
        numbers = np.unique(np.concatenate(ticks))
        self._last = int(numbers[-1])
        if self.plan.log is None:
            yield self._last, tables, ticks
            return
        for number in numbers.tolist():
            edges = [np.searchsorted(tick, [number, number + 1]) for tick in ticks]
            yield (
                number,
                [t.slice(a, b - a) for t, (a, b) in zip(tables, edges, strict=True)],
                [tick[a:b] for tick, (a, b) in zip(ticks, edges, strict=True)],
            )

    def flush(self) -> Generator[pa.RecordBatch, None, None]:
        """End the input."""
        run = TupleRun(self.plan, self._instance)
        yield from run.flush()
        m = len(self._confirmed)
        self._report(run, self._last + 1, (0,) * m, tuple({} for _ in range(m)))

    def _report(
        self,
        run: TupleRun,
        tick: int,
        n_arrived: tuple[int, ...],
        refused: tuple[dict[str, int], ...],
    ) -> None:
        if self.plan.log is None:
            return
        adaptation = self._instance.adaptation
        report = report_of(
            self.plan,
            self._instance.cell,
            run.total,
            batch=self._n_reports,
            k=adaptation.k,
            phase=adaptation.phase,
            limited=adaptation.is_limited,
            clock=int(self.clock(tick)),
            has_data=any(n_arrived) or any(refused),
            n_arrived=n_arrived,
            refused=refused,
            n_delivered=sum(n_arrived),
            earliest=run.earliest,
            adaptations=tuple(run.adaptations),
        )
        self.plan.log.write_report(report)
        self._n_reports += 1

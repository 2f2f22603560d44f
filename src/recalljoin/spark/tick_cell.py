"""A cell of a join in which tuples arrive in ticks, and the control source chooses K."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.chunks import rebuild
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.times import NEVER
from recalljoin.errors import StateVersionError
from recalljoin.quality.cell import Cell
from recalljoin.quality.followed import FollowedSources
from recalljoin.quality.source_lags import SourcePlan, told_of_sources
from recalljoin.spark.cell_moves import is_divided_anew, move_in, move_out
from recalljoin.spark.cell_state import append, read_chunks, read_meta
from recalljoin.spark.hot_key_moves import hand_over, take_over
from recalljoin.spark.hot_keys import version_after, version_at
from recalljoin.spark.packing import OWNED, PLACE
from recalljoin.spark.report import report_of
from recalljoin.spark.shares import owned_by
from recalljoin.spark.source_parcels import follows_sources

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.progress import Held
    from recalljoin.quality.cell import Outcome
    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.cell_state import CellStore
    from recalljoin.spark.delivery import Delivery
    from recalljoin.spark.hot_keys import Version
    from recalljoin.spark.packing import Control
    from recalljoin.spark.report import Report


class TickCell:
    """A cell with its state while it takes in one batch.

    Parameters
    ----------
    plan
        What all cells have in common.
    number
        Number of the cell.
    store
        The cell's share of Spark's state.
    batch
        Number of the batch.
    versions
        Where tuples go, from which batch on.
    """

    def __init__(
        self,
        plan: CellPlan,
        number: int,
        store: CellStore,
        batch: int,
        versions: tuple[Version, ...],
    ) -> None:
        self._plan, self._number, self._store, self._batch = plan, number, store, batch
        self._meta = read_meta(store, plan.identity, len(plan.query.streams))
        self._versions = versions
        self._cell: Cell
        self._taken: Outcome
        self._first_rows: Int64s
        self._idle: NDArray[np.bool_]

    def token(self) -> str:
        """Name of the state that was written last; empty where there is no state."""
        return self._meta.token

    def resume(self, instance: object | None) -> bool:
        """Go on with the instance in memory; without one, rebuild it from the state."""
        now = version_at(self._versions, self._batch)
        if now.since != self._meta.placed_by["since"]:
            before = version_at(self._versions, now.since - 1)
            if is_divided_anew(self._plan, before, now):
                self._meta = move_in(self._plan, self._number, self._store, before, now)
            else:
                take_over(self._plan, self._number, self._store, self._meta, now)
            instance = None
        elif self._batch > now.since and not self._meta.token:
            # Every cell has taken part in every batch since its version began.
            message = (
                f"the checkpoint has no state of cell {self._number} before batch {self._batch}. "
                "If `recalljoin grow` was stopped before it was done, call it again with the same "
                "number of groups; otherwise put the checkpoint back from a copy, or start with a "
                "new one"
            )
            raise StateVersionError(message)
        if instance is None:
            self._cell = self._rebuilt()
        else:
            assert isinstance(instance, Cell)
            self._cell = instance
        return instance is None and self._meta.token != ""

    def _rebuilt(self) -> Cell:
        plan, meta = self._plan, self._meta
        owned = owned_by(plan.grid, self._number)
        chunks = []
        for stored in read_chunks(self._store, meta, plan.query):
            chunks.append(stored.chunk)
            for s, times in enumerate(stored.chunk.times):
                owned.append(s, len(times), stored.owned[s])
        if meta.remembered is None:
            pipeline = Pipeline(plan.query, plan.settings)
        else:
            pipeline = rebuild(plan.query, plan.settings, chunks, meta.clocks, meta.remembered)
        cell = Cell(pipeline, plan.measures, owned=owned, whole=plan.grid.n_cells == 1)
        if follows_sources(plan.query):
            cell.sources = FollowedSources(SourcePlan(1, 0.0))
            if meta.sources is not None:
                cell.sources.restore(meta.sources)
        return cell

    def refuse(self, delivery: Delivery) -> None:
        """Take tuples with unbelievable times out of the delivery."""
        grid, meta = self._plan.grid, self._meta
        delivery.refuse_far_ahead(
            self._plan.ahead,
            local_times=meta.local_times,
            confirmed=meta.confirmed,
            clock=meta.clock,
            owns=[grid.owns(self._number, s) for s in range(grid.m)],
        )

    def take(self, delivery: Delivery) -> Generator[pa.RecordBatch, None, None]:
        """Let the batch pass as one tick; yields results."""
        cell, control = self._cell, delivery.control
        self._first_rows = cell.pipeline.n_arrived.copy()
        self._idle = idle = self._follow_clock(delivery)
        if control is not None and control.retention is not None:
            cell.pipeline.remember_for(control.retention)
        if delivery.is_end:
            self._taken = yield from cell.flush()
            return
        arrivals = delivery.arrivals()
        self._taken = yield from cell.push_ticks(
            arrivals,
            np.zeros(len(arrivals), dtype=np.int64),
            k=self._meta.k,
            marks=delivery.marks[np.newaxis],
            idle=idle[np.newaxis],
            release=self._release(control),
            held=self._held(delivery, idle),
            flags=[delivery.owned(s) for s in range(len(delivery.tables))],
        )

    def _held(self, delivery: Delivery, idle: NDArray[np.bool_]) -> Held | None:
        """How sources hold the join up in this batch; None where they are not followed."""
        sources, meta = self._cell.sources, self._meta
        if sources is None:
            return None
        if delivery.control is not None:
            meta.follows = delivery.control.sources
        if meta.follows is None:
            return None
        plan, lead, leap = told_of_sources(meta.follows)
        fronts = self._cell.pipeline.clocks.fronts_after(
            delivery.marks[np.newaxis],
            idle=idle[np.newaxis],
            release=self._release(delivery.control),
        )
        source, top, n, names = delivery.sources()
        sources.names.update(names)
        tick = np.zeros(len(source), dtype=np.int64)
        return sources.follow(plan, lead, leap, tick, (source, top, n), fronts=fronts)

    @staticmethod
    def _release(control: Control | None) -> int:
        return NEVER if control is None or control.release is None else control.release

    def _n_early(self, control: Control | None) -> int:
        """How many tuples were released because the control source said so."""
        step = self._taken.step
        until = self._release(control)
        if until == NEVER:
            return 0
        held_until = min(self._cell.pipeline.local_times.tolist())
        if held_until != NEVER:
            held_until -= self._meta.k
        early = ~step.late & (step.ts <= until) & (step.ts > held_until)
        return int((early & self._taken.counted).sum())

    def _follow_clock(self, delivery: Delivery) -> NDArray[np.bool_]:
        """Take over K and clock from the control source; returns which streams are idle now."""
        control, meta = delivery.control, self._meta
        if control is not None:
            meta.k, meta.clock = control.k, control.clock
            meta.seen_at = [meta.clock if at is None else at for at in meta.seen_at]
        idle = np.zeros(len(meta.seen_at), dtype=np.bool_)
        for s, n in enumerate(delivery.n_arrived):
            at = meta.seen_at[s]
            if n:
                # Without a parcel of the control source the time is unknown: the next clock counts.
                meta.seen_at[s] = None if control is None else meta.clock
            elif self._plan.idle_after is not None and at is not None:
                idle[s] = meta.clock - at >= self._plan.idle_after
        return idle

    def save(self, delivery: Delivery) -> Cell:
        """Write what has changed to the state."""
        pipeline, meta = self._cell.pipeline, self._meta
        if self._cell.sources is not None:
            meta.sources = self._cell.sources.to_text()
        append(
            self._store,
            meta,
            delivery,
            batch=self._batch,
            remembered=pipeline.remembered,
            now=pipeline.clocks,
        )
        after = version_after(self._versions, self._batch)
        if after is None:
            return self._cell
        if is_divided_anew(self._plan, version_at(self._versions, self._batch), after):
            move_out(self._plan, self._number, self._store, meta, after)
        else:
            hand_over(self._plan, self._number, self._store, meta, after)
        return self._cell

    def report(self, delivery: Delivery, *, restored: bool) -> Report:
        """What the batch has shown; late and refused rows are left in the control log."""
        leave_refused(self._plan, delivery.refused_rows, cell=self._number, batch=self._batch)
        leave_late(
            self._plan,
            self._taken,
            delivery.tables,
            cell=self._number,
            batch=self._batch,
            first_rows=self._first_rows,
        )
        control, meta = delivery.control, self._meta
        sources = None if meta.follows is None else self._cell.sources
        return report_of(
            self._plan,
            self._cell,
            self._taken.profile,
            batch=self._batch,
            number=self._number,
            k=meta.k,
            clock=meta.clock,
            phase=None if control is None else control.phase,
            limited=control is not None and control.limited,
            recall_before=None if control is None else control.recall,
            has_data=delivery.has_data,
            n_arrived=tuple(delivery.n_arrived),
            refused=tuple(delivery.refused),
            n_delivered=sum(table.num_rows for table in delivery.tables),
            earliest=self._taken.earliest,
            restored=restored,
            n_early=self._n_early(control),
            heavy=tuple(delivery.heavy),
            idle=tuple(self._idle.tolist()),
            **({} if sources is None else sources.told),
        )


def leave_refused(
    plan: CellPlan, refused: Sequence[Sequence[pa.Table]], *, cell: int, batch: int
) -> None:
    """Write refused rows of each stream to the control log."""
    if plan.log is None:
        return
    for stream, rows in zip(plan.query.streams, refused, strict=True):
        if rows:
            # Rows refused by a task may have a column for their text, rows refused here have not.
            together = pa.concat_tables(rows, promote_options="default")
            plan.log.write_rows("refused", stream.name, batch, cell, together)


def leave_late(
    plan: CellPlan,
    taken: Outcome,
    tables: Sequence[pa.Table],
    *,
    cell: int,
    batch: int,
    first_rows: Int64s,
) -> None:
    """Write late rows, and rows that have left in error, to the control log if asked for.

    Parameters
    ----------
    plan
        Says whether late rows are kept, and in which control log.
    taken
        What became of the tuples.
    tables
        The tuples of each stream.
    cell, batch
        Where and when the tuples came.
    first_rows
        For each stream, the row number of the first tuple in its table.
    """
    if plan.log is None or not plan.late_rows:
        return
    step, owned = taken.step, taken.counted
    if step.told is not None:
        for stream, rows in zip(plan.query.streams, step.told.false_rows, strict=True):
            if rows.num_rows:
                numbered = rows.append_column("__batch", pa.array(np.full(rows.num_rows, batch)))
                plan.log.write_rows("false_nulls", stream.name, batch, cell, numbered)
    for s, stream in enumerate(plan.query.streams):
        # A copy that another cell counts is written here only if results were lost in this cell.
        (late,) = np.nonzero(step.late & (step.stream == s) & (owned | (step.n_join > 0)))
        if not len(late):
            continue
        # A late tuple does not wait but goes straight to the join: it came with this very batch.
        rows = tables[s].take(pa.array(step.row[late] - first_rows[s]))
        rows = rows.drop_columns([name for name in (OWNED,) if name in rows.column_names])
        if PLACE not in rows.column_names:
            rows = rows.append_column(PLACE, pa.nulls(len(late), pa.int64()))
        extra = {
            OWNED: pa.array(owned[late]),
            "__batch": pa.array(np.full(len(late), batch)),
            "__delay": pa.array(step.delay[late]),
            "__lost": pa.array(step.n_join[late]),
            "__beyond": pa.array(step.beyond[late]),
        }
        for name, values in extra.items():
            rows = rows.append_column(name, values)
        plan.log.write_rows("late", stream.name, batch, cell, rows)

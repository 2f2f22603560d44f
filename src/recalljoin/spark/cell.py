"""One cell: an operator instance that lives from batch to batch in Spark's state.

    parcels -> deliver -> the engine's pipeline -> results, a report, one more chunk

The pipeline itself stays in the memory of the Python worker; what is in Spark's state is enough to
rebuild it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.engine import Arrivals, EngineSettings, Pipeline, Step
from recalljoin.engine.arrivals import times_of
from recalljoin.engine.chunks import rebuild
from recalljoin.engine.progress import Clocks
from recalljoin.engine.queues import held_ids
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.engine.windows import Remembered
from recalljoin.quality.arrived import follow_ticks
from recalljoin.quality.profiling import profile_of
from recalljoin.spark.cell_state import Meta, Store, append, read_chunks, read_meta
from recalljoin.spark.cells import NOT_HOT, Hot
from recalljoin.spark.delivery import Delivery, deliver
from recalljoin.spark.hot import Version, can_split, version_after, version_at
from recalljoin.spark.instances import Memory, Watch, gathered
from recalljoin.spark.moving import hand_over, take_over
from recalljoin.spark.owned import Owned
from recalljoin.spark.packing import OWNED, PLACE
from recalljoin.spark.refusing import refuse_far_ahead
from recalljoin.spark.report import Report
from recalljoin.spark.tuple_cell import run_tuples

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.quality.horizon import HorizonPlan
    from recalljoin.query import BoundQuery
    from recalljoin.spark.ahead import AheadRule
    from recalljoin.spark.cells import Grid, Layout
    from recalljoin.spark.control_log import ControlLog

MOST_IN_MEMORY = 64
"""Pipelines a worker keeps, over all queries."""


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """What all cells of a query have in common."""

    query: BoundQuery
    layout: Layout
    settings: EngineSettings
    identity: str
    """What must be the same for a state to mean the same, as JSON."""
    log: ControlLog | None
    """Where cells report to, if anywhere."""
    period: int
    """Recall is measured over this long."""
    granularity: int
    """Step in which delays are counted."""
    bucket: int
    """Width of the buckets results are counted in by their time."""
    idle_after: int | None = None
    """Milliseconds without a tuple after which a stream holds the others back no longer."""
    late_rows: bool = False
    """Leave late tuples in the control log."""
    policy: PolicyPlan | None = None
    """What chooses K where tuples arrive one by one; the control source does where they do not."""
    ahead: AheadRule | None = None
    """Which times are too far ahead of their stream to be believed; None for none."""
    horizon: HorizonPlan | None = None
    """What says how long tuples are remembered, where the policy is in the cell."""
    named_hot: Hot = NOT_HOT
    """Keys the user says are hot."""
    follows_hot: bool = True
    """Whether other keys may be found to be hot, by whoever plans the batches."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names this very plan: a pipeline made for another one may have other settings."""

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self.layout.grid

    @property
    def max_ahead(self) -> int | None:
        """How far ahead of its stream a time is believed at once; None for any."""
        return None if self.ahead is None else self.ahead.max_ahead

    def hot_versions(self) -> tuple[Version, ...]:
        """Keys found to be hot, as the control source has decided."""
        if self.log is None or not self.follows_hot or not can_split(self.grid):
            return ()
        return self.log.read_hot()


class _Instance(NamedTuple):
    """An operator instance, and which of its tuples are counted in this cell."""

    pipeline: Pipeline
    owned: Owned


MEMORY: Memory[_Instance] = Memory(MOST_IN_MEMORY)


def run_batch(
    plan: CellPlan,
    cell: int,
    parcels: Iterable[tuple[str, bytes | None]],
    store: Store,
    *,
    batch: int,
) -> Generator[pa.RecordBatch, None, Report]:
    """Let a cell take in one batch: yields results, returns its report.

    State and control log are written when the last of them have been taken.
    """
    if plan.policy is not None:
        report = yield from run_tuples(plan, plan.policy, parcels, store, batch=batch)
        return report
    watch = Watch()
    query = plan.query
    delivery = deliver(query, parcels)
    watch.stop("decode")
    meta = read_meta(store, plan.identity, len(query.streams))
    instance = MEMORY.take(plan.run, meta.token)
    versions = plan.hot_versions()
    hot = version_at(versions, batch)
    if hot.since != meta.placed_by["since"]:
        take_over(plan, cell, store, meta, hot)
        instance = None
    restored = instance is None and meta.token != ""
    if instance is None:
        instance = _restored(plan, cell, store, meta)
    pipeline, owned = instance
    watch.stop("restore")

    before = Clocks.of(pipeline.progress)
    refuse_far_ahead(
        plan.ahead,
        query,
        delivery,
        local_times=before.local_times,
        confirmed=meta.confirmed,
        clock=meta.clock,
        owns=[plan.grid.owns(cell, s) for s in range(pipeline.m)],
    )
    first_rows = pipeline.n_arrived.copy()
    idle = _follow_clock(plan, meta, delivery)
    if delivery.control is not None and delivery.control.retention is not None:
        pipeline.remember_for(delivery.control.retention)
    arrivals = _arrivals_of(query, delivery)
    step = yield from gathered(_steps(pipeline, meta.k, delivery, arrivals, idle), watch)
    watch.stop("join")

    append(
        store,
        meta,
        delivery.bodies,
        query=query,
        remembered=pipeline.remembered,
        batch=batch,
        before=before,
        now=Clocks.of(pipeline.progress),
    )
    after = version_after(versions, batch)
    if after is not None:
        hand_over(plan, cell, store, meta, after)
    MEMORY.keep(plan.run, meta.token, instance)
    watch.stop("state")

    counted = [
        owned.append(s, len(table), delivery.owned(s)) for s, table in enumerate(delivery.tables)
    ]
    received = owned.at(step.stream, step.row)
    _leave_rows(plan, delivery, step, received, cell=cell, batch=batch, first_rows=first_rows)
    local_before = np.array(before.local_times, dtype=np.int64)
    arrived, _ = follow_ticks(
        arrivals.stream,
        arrivals.ts,
        np.zeros(len(arrivals), dtype=np.int64),
        marks=delivery.marks[np.newaxis],
        before=local_before,
    )
    profile = profile_of(
        step,
        arrived,
        granularity=plan.granularity,
        before=local_before,
        windows=[stream.window for stream in query.streams],
        bucket=plan.bucket,
        owned=(np.concatenate(counted), received),
        whole=plan.grid.n_cells == 1,
        tick_span=_span(before, step, arrivals.ts),
    )
    n_buffered = _n_buffered(pipeline, owned)
    _forget_flags(pipeline, owned)
    watch.stop("report")
    report = Report(
        batch=batch,
        cell=cell,
        n_cells=plan.grid.n_cells,
        streams=tuple(stream.name for stream in query.streams),
        unit=query.unit,
        period=plan.period,
        windows=tuple(stream.window for stream in query.streams),
        retention=pipeline.retention,
        limited=delivery.control is not None and delivery.control.limited,
        phase=None if delivery.control is None else delivery.control.phase,
        k=meta.k,
        clock=meta.clock,
        watermark=meta.watermark,
        base_time=meta.base_time,
        local_times=tuple(meta.local_times),
        earliest=int(arrivals.ts.min(initial=FOREVER)),
        has_data=delivery.has_data,
        n_arrived=tuple(delivery.n_arrived),
        refused=tuple(delivery.refused),
        n_buffered=n_buffered,
        n_kept=pipeline.n_kept,
        kept_bytes=pipeline.kept_bytes,
        n_delivered=len(arrivals),
        n_busiest=len(arrivals) + profile.n_produced + profile.n_lost,
        n_restored=int(restored),
        profile=profile,
        heavy=tuple(delivery.heavy),
        recall_before=None if delivery.control is None else delivery.control.recall,
        seconds={"route": delivery.route_seconds} | watch.seconds,
    )
    if plan.log is not None:
        plan.log.write_report(report)
    return report


def _restored(plan: CellPlan, cell: int, store: Store, meta: Meta) -> _Instance:
    """The instance whose state this is."""
    query = plan.query
    owned = Owned(np.array([plan.grid.owns(cell, s) for s in range(len(query.streams))]))
    chunks = []
    for stored in read_chunks(store, meta, query):
        chunks.append(stored.chunk)
        for s, times in enumerate(stored.chunk.times):
            owned.append(s, len(times), stored.owned[s])
    if meta.retention is None:
        return _Instance(Pipeline(query, plan.settings), owned)
    remembered = Remembered(meta.retention, meta.since)
    return _Instance(rebuild(query, plan.settings, chunks, meta.clocks, remembered), owned)


def _follow_clock(plan: CellPlan, meta: Meta, delivery: Delivery) -> NDArray[np.bool_]:
    """Take over what the control source says; the result tells which streams are idle now."""
    control = delivery.control
    if control is not None:
        meta.k, meta.clock = control.k, control.clock
        meta.seen_at = [meta.clock if at is None else at for at in meta.seen_at]
    idle = np.zeros(len(meta.seen_at), dtype=np.bool_)
    for s, n in enumerate(delivery.n_arrived):
        at = meta.seen_at[s]
        if n:
            # Without word from the control source the time is not known: the next one counts.
            meta.seen_at[s] = None if control is None else meta.clock
        elif plan.idle_after is not None and at is not None:
            idle[s] = meta.clock - at >= plan.idle_after
    return idle


def _arrivals_of(query: BoundQuery, delivery: Delivery) -> Arrivals:
    times = [
        times_of(table.column(stream.time), query.unit, query.time_unit)[0]
        for stream, table in zip(query.streams, delivery.tables, strict=True)
    ]
    return Arrivals(
        delivery.tables,
        np.concatenate([np.full(len(ts), s, dtype=np.int8) for s, ts in enumerate(times)]),
        np.concatenate([np.arange(len(ts)) for ts in times]),
        np.concatenate(times),
    )


def _steps(
    pipeline: Pipeline, k: int, delivery: Delivery, arrivals: Arrivals, idle: NDArray[np.bool_]
) -> Generator[pa.RecordBatch, None, Step]:
    if delivery.control is not None and delivery.control.flush and not delivery.has_data:
        return pipeline.flush()
    return pipeline.push_ticks(
        arrivals,
        np.zeros(len(arrivals), dtype=np.int64),
        n_ticks=1,
        k=k,
        marks=delivery.marks[np.newaxis],
        idle=idle[np.newaxis],
    )


def _span(before: Clocks, step: Step, ts: Int64s) -> int:
    """By how much a batch has advanced the base time."""
    if step.base_time == NEVER:
        return 0
    # The first batch has no base time before it: what it spans is its tuples.
    begin = int(ts.min(initial=step.base_time)) if before.base_time == NEVER else before.base_time
    return step.base_time - begin


def _leave_rows(
    plan: CellPlan,
    delivery: Delivery,
    step: Step,
    owned: NDArray[np.bool_],
    *,
    cell: int,
    batch: int,
    first_rows: Int64s,
) -> None:
    """Write refused rows, and late ones if asked for, where they can be read back."""
    if plan.log is None:
        return
    for s, stream in enumerate(plan.query.streams):
        if delivery.refused_rows[s]:
            rows = pa.concat_tables(delivery.refused_rows[s])
            plan.log.write_rows("refused", stream.name, batch, cell, rows)
        # What another cell counts is written there; here it is only written what it cost here.
        (late,) = np.nonzero(step.late & (step.stream == s) & (owned | (step.n_join > 0)))
        if not plan.late_rows or not len(late):
            continue
        # A late tuple goes straight to the join: it came with this very batch.
        rows = delivery.tables[s].take(pa.array(step.row[late] - first_rows[s]))
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


def _forget_flags(pipeline: Pipeline, owned: Owned) -> None:
    """Let go of flags nobody can ask for, at a cost in proportion to what came since."""
    in_use = pipeline.n_kept + pipeline.n_buffered
    for s in range(pipeline.m):
        if owned.n_flags(s) > 2 * in_use + 4096:
            waiting, _ = held_ids(pipeline.disorder.queues)
            rows = pipeline.pending.row[waiting][pipeline.pending.stream[waiting] == s]
            kept = pipeline.operator.windows
            rows = np.concatenate((rows, kept.rows_at(kept.places_of(s))))
            owned.forget_before(s, int(rows.min(initial=pipeline.n_arrived[s])))


def _n_buffered(pipeline: Pipeline, owned: Owned) -> int:
    waiting, _ = held_ids(pipeline.disorder.queues)
    pending = pipeline.pending
    return int(owned.at(pending.stream[waiting], pending.row[waiting]).sum())

"""The one cell of a join in which tuples arrive one by one, as in the paper.

Here K changes inside a batch, at the end of every adaptation interval, so the policy lives in the
cell. What is kept in Spark's state is a *log*: a snapshot of the operator instance, and behind it
the tuples of every batch since, with the K each of them met and how long tuples were remembered
then. Batches append to it; when they have outgrown the snapshot, a new one takes the place of all.
So the work of a batch is in proportion to its tuples, and an instance is rebuilt by letting the
tuples since the snapshot arrive once more.
"""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine import Pipeline, arrivals_of, drain, restore, snapshot
from recalljoin.engine.times import FOREVER
from recalljoin.quality.arrived import follow_tuples
from recalljoin.quality.horizon import Kept
from recalljoin.quality.policy import ArrivalPolicy
from recalljoin.quality.profile import Profile
from recalljoin.quality.profiling import profile_of
from recalljoin.spark.cell_state import check_identity, check_layout
from recalljoin.spark.delivery import deliver
from recalljoin.spark.instances import Memory, Watch, gathered
from recalljoin.spark.packing import table_of
from recalljoin.spark.refusing import refuse_far_ahead
from recalljoin.spark.report import Report

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import pyarrow as pa

    from recalljoin.engine import Arrivals
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.adaptation import Adaptation, PolicyPlan
    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.cell_state import Bodies, Store

LAYOUT = 4
SMALLEST_SNAPSHOT = 1 << 20
"""Bytes of tuples that are always worth keeping before a new snapshot is written."""
LARGEST_VALUE = 1 << 26
"""Largest state value, in bytes."""


@dataclass
class Meta:
    """The small part of the state, rewritten with every batch."""

    identity: str
    token: str = ""
    """Names this very state; empty before the first batch."""
    snapshot: list[int] = field(default_factory=list)
    """State values that hold the snapshot, if there is one."""
    snapshot_bytes: int = 0
    batches: list[int] = field(default_factory=list)
    """State values of the batches since."""
    batch_bytes: int = 0
    next_value: int = 0
    clock: int = 0
    adaptation: dict[str, Any] | None = None
    """What policy and horizon have learnt, and what the interval has shown so far."""
    confirmed: list[int] = field(default_factory=list)
    """For each stream by how much tuples far ahead of it have outnumbered others."""
    layout: int = LAYOUT


class _Instance(NamedTuple):
    pipeline: Pipeline
    adaptation: Adaptation


MEMORY: Memory[_Instance] = Memory(8)


def run_tuples(
    plan: CellPlan,
    policy_plan: PolicyPlan,
    parcels: Iterable[tuple[str, bytes | None]],
    store: Store,
    *,
    batch: int,
) -> Generator[pa.RecordBatch, None, Report]:
    """Let the cell take in one batch: yields results, returns its report."""
    watch = Watch()
    query = plan.query
    delivery = deliver(query, parcels)
    meta = _read_meta(store, plan.identity)
    instance = MEMORY.take(plan.run, meta.token)
    restored = instance is None and meta.token != ""
    if instance is None:
        instance = _restored(plan, policy_plan, store, meta)
    pipeline, adaptation = instance
    watch.stop("restore")
    m = pipeline.m
    # A state written before this was counted has none of it.
    meta.confirmed = meta.confirmed or [0] * m
    refuse_far_ahead(
        plan.ahead,
        query,
        delivery,
        local_times=[int(t) for t in pipeline.local_times],
        confirmed=meta.confirmed,
        clock=meta.clock,
        owns=[True] * m,
    )
    if delivery.control is not None:
        meta.clock = delivery.control.clock
    tables = {s.name: t for s, t in zip(query.streams, delivery.tables, strict=True)}
    run = _Run(plan, instance)
    if delivery.control is not None and delivery.control.flush and not delivery.has_data:
        yield from gathered(run.flush(), watch)
    else:
        yield from gathered(run.push(arrivals_of(query, tables)), watch)
    watch.stop("join")
    _append(store, meta, instance, delivery.bodies, run)
    MEMORY.keep(plan.run, meta.token, instance)
    watch.stop("state")
    report = Report(
        batch=batch,
        cell=0,
        n_cells=1,
        streams=tuple(stream.name for stream in query.streams),
        unit=query.unit,
        period=plan.period,
        windows=tuple(stream.window for stream in query.streams),
        retention=pipeline.retention,
        limited=adaptation.is_limited,
        phase=adaptation.phase,
        k=adaptation.k,
        clock=meta.clock,
        watermark=pipeline.join_time,
        base_time=pipeline.base_time,
        local_times=tuple(int(t) for t in pipeline.local_times),
        earliest=run.earliest,
        has_data=delivery.has_data,
        n_arrived=tuple(delivery.n_arrived),
        refused=tuple(delivery.refused),
        n_buffered=pipeline.n_buffered,
        n_kept=pipeline.n_kept,
        kept_bytes=pipeline.kept_bytes,
        n_delivered=sum(delivery.n_arrived),
        n_busiest=sum(delivery.n_arrived) + run.total.n_produced + run.total.n_lost,
        n_restored=int(restored),
        profile=run.total,
        adaptations=tuple(run.adaptations),
        recall_before=None if delivery.control is None else delivery.control.recall,
        seconds={"route": delivery.route_seconds} | watch.seconds,
    )
    if plan.log is not None:
        for s, stream in enumerate(query.streams):
            for number, rows in enumerate(delivery.refused_rows[s]):
                plan.log.write_rows("refused", stream.name, batch, number, rows)
        plan.log.write_report(report)
    return report


class _Run:
    """One batch on its way through the instance."""

    def __init__(self, plan: CellPlan, instance: _Instance) -> None:
        self.plan = plan
        self.pipeline, self.adaptation = instance
        self.windows = [stream.window for stream in plan.query.streams]
        self.total = Profile.empty(
            self.pipeline.m, granularity=plan.granularity, bucket=plan.bucket
        )
        self.earliest = FOREVER
        self.slacks: list[tuple[int, int]] = []
        """How many tuples in a row met which K."""
        self.retentions: list[tuple[int, int]] = []
        """After how many tuples of the batch the retention was changed, and to what."""
        self.adaptations: list[tuple[int, int]] = []
        """When K was adapted, by the fastest stream's time, and to what."""

    def push(self, arrivals: Arrivals) -> Generator[pa.RecordBatch, None, None]:
        if not len(arrivals):
            return
        # As it was where the batch before ended, unless the join was started anew with another one.
        self._remember_for(0)
        local = self.pipeline.local_times
        arrived, clocks = follow_tuples(arrivals.stream, arrivals.ts, before=local)
        self.earliest = int(arrivals.ts.min())
        points = self.adaptation.clock.points(clocks.latest, earliest=int(arrivals.ts[0]))
        begin = 0
        for end in [*points.tolist(), len(arrivals)]:
            if end == begin:
                continue
            part = slice(begin, end)
            k = self._slack(arrived.delay[part])
            step = yield from self.pipeline.push(arrivals.slice(begin, end), k=k)
            profile = profile_of(
                step,
                arrived.take(part),
                granularity=self.plan.granularity,
                before=local,
                windows=self.windows,
                bucket=self.plan.bucket,
            )
            local = clocks.local[:, end - 1]
            self.total += profile
            self.adaptation.observe(profile, end - begin)
            if end in points:
                self.adaptation.adapt(Kept(self.pipeline.n_kept, self.pipeline.kept_bytes))
                self._remember_for(end)
                self.adaptations.append((int(clocks.latest[end - 1]), self.adaptation.k))
            begin = end

    def _remember_for(self, n: int) -> None:
        """Remember tuples for as long as is chosen now, after ``n`` of the batch."""
        retention = self.adaptation.retention
        assert retention is not None, "the horizon is in the cell"
        if retention != self.pipeline.retention:
            self.pipeline.remember_for(retention)
            self.retentions.append((n, retention))

    def flush(self) -> Generator[pa.RecordBatch, None, None]:
        step = yield from self.pipeline.flush()
        none = np.empty(0, dtype=np.int64)
        arrived, _ = follow_tuples(none.astype(np.int8), none, before=self.pipeline.local_times)
        self.total += profile_of(
            step,
            arrived,
            granularity=self.plan.granularity,
            before=self.pipeline.local_times,
            windows=self.windows,
            bucket=self.plan.bucket,
        )

    def _slack(self, delay: Int64s) -> Int64s:
        policy = self.adaptation.policy
        if isinstance(policy, ArrivalPolicy):
            k = policy.arrive(delay)
        else:
            k = np.full(len(delay), policy.k)
        firsts = np.flatnonzero(np.diff(k, prepend=-1))
        lengths = np.diff(firsts, append=len(k))
        self.slacks += zip(lengths.tolist(), k[firsts].tolist(), strict=True)
        return k


def _read_meta(store: Store, identity: str) -> Meta:
    content = store.read_meta()
    if content is None:
        return Meta(identity)
    values = json.loads(content)
    check_layout(values.get("layout"), LAYOUT)
    check_identity(values["identity"], identity)
    return Meta(**values)


def _append(
    store: Store,
    meta: Meta,
    instance: _Instance,
    bodies: Bodies,
    run: _Run,
) -> None:
    """Add a batch to the log, or begin a new log with a snapshot."""
    pipeline, adaptation = instance
    slacks = run.slacks
    lengths = [[len(body) for body in parts] for parts in bodies]
    head = json.dumps({"lengths": lengths, "slacks": slacks, "retentions": run.retentions}).encode()
    content = b"".join((struct.pack("<q", len(head)), head, *(b for part in bodies for b in part)))
    is_flushed = not any(map(len, bodies)) and not slacks and pipeline.n_buffered == 0
    meta.batch_bytes += len(content)
    if meta.batch_bytes > max(SMALLEST_SNAPSHOT, meta.snapshot_bytes) or is_flushed:
        written = snapshot(pipeline).to_pybytes()
        for number in (*meta.snapshot, *meta.batches):
            store.drop_chunk(number)
        meta.snapshot, meta.batches = [], []
        meta.snapshot_bytes, meta.batch_bytes = len(written), 0
        for begin in range(0, len(written), LARGEST_VALUE):
            meta.snapshot.append(_write(store, meta, written[begin : begin + LARGEST_VALUE]))
    elif slacks:
        meta.batches.append(_write(store, meta, content))
    meta.adaptation = adaptation.snapshot()
    meta.token = uuid.uuid4().hex
    store.write_meta(json.dumps(asdict(meta)))


def _write(store: Store, meta: Meta, content: bytes) -> int:
    number = meta.next_value
    store.write_chunk(number, content)
    meta.next_value += 1
    return number


def _restored(plan: CellPlan, policy_plan: PolicyPlan, store: Store, meta: Meta) -> _Instance:
    """The instance whose state this is."""
    pipeline = Pipeline(plan.query, plan.settings)
    if meta.snapshot:
        written = b"".join(store.read_chunk(number) for number in meta.snapshot)
        pipeline = restore(plan.query, written, plan.settings)
    for number in meta.batches:
        arrivals, k, retentions = _decode(plan, store.read_chunk(number))
        begin = 0
        for end, retention in [*retentions, (len(arrivals), None)]:
            if end > begin:
                # Its results have gone out before.
                drain(pipeline.push(arrivals.slice(begin, end), k=k[begin:end]))
            if retention is not None:
                pipeline.remember_for(retention)
            begin = end
    adaptation = policy_plan.adaptation(plan.horizon)
    if meta.adaptation is not None:
        adaptation.restore(meta.adaptation)
    return _Instance(pipeline, adaptation)


def _decode(
    plan: CellPlan, content: bytes
) -> tuple[Arrivals, Int64s, list[tuple[int, int | None]]]:
    (size,) = struct.unpack_from("<q", content)
    head = json.loads(content[8 : 8 + size])
    view = memoryview(content)
    at = 8 + size
    tables = {}
    for s, lengths in enumerate(head["lengths"]):
        parts = []
        for length in lengths:
            parts.append(view[at : at + length])
            at += length
        tables[plan.query.streams[s].name] = table_of(plan.query, s, parts)
    lengths_of_k, slacks = np.array(head["slacks"], dtype=np.int64).reshape(-1, 2).T
    retentions = [(n, retention) for n, retention in head["retentions"]]
    return arrivals_of(plan.query, tables), np.repeat(slacks, lengths_of_k), retentions

"""The one cell of a join in which tuples arrive one by one, as in the paper.

Here K changes inside a batch, at the end of every adaptation interval, so the policy lives in the
cell. Spark's state holds a *log*: a snapshot of the operator instance, and behind it the tuples of
every batch since the snapshot, with the K in force at each tuple and how long tuples were
remembered. Every batch appends to the log; when the batches are larger than the snapshot, a new
snapshot replaces the whole log. So the work of a batch is in proportion to its tuples, and an
instance is rebuilt by letting the tuples since the snapshot arrive once more.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.state import restore, snapshot
from recalljoin.engine.step import drain
from recalljoin.engine.times import FOREVER
from recalljoin.errors import undamaged
from recalljoin.quality.cell import Cell
from recalljoin.quality.policy import ArrivalPolicy
from recalljoin.quality.profile import Profile
from recalljoin.quality.profiling import follow_tuples
from recalljoin.spark.framing import framed, unframed
from recalljoin.spark.identity import check_identity, check_layout
from recalljoin.spark.packing import table_of
from recalljoin.spark.report import report_of
from recalljoin.spark.tick_cell import leave_refused

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.quality.adaptation import Adaptation
    from recalljoin.spark.cell import ByTuple, CellPlan
    from recalljoin.spark.cell_state import CellStore
    from recalljoin.spark.delivery import Delivery
    from recalljoin.spark.report import Report

LAYOUT = 4
SMALLEST_SNAPSHOT = 1 << 20
"""Bytes of tuples up to which no new snapshot is written, however small the old snapshot is."""
LARGEST_VALUE = 1 << 26
"""Largest state value, in bytes."""


@dataclass
class TupleMeta:
    """The small part of the state, rewritten with every batch."""

    identity: str
    token: str = ""
    """Random name of this very state; empty before the first batch."""
    snapshot: list[int] = field(default_factory=list)
    """Numbers of the state values that hold the snapshot, if there is one."""
    snapshot_bytes: int = 0
    batches: list[int] = field(default_factory=list)
    """Numbers of the state values that hold the batches since the snapshot."""
    batch_bytes: int = 0
    next_value: int = 0
    clock: int = 0
    adaptation: dict[str, Any] | None = None
    """What policy and horizon have learnt, and what the interval has shown so far."""
    confirmed: list[int] = field(default_factory=list)
    """For each stream by how many tuples far ahead have outnumbered other tuples."""
    layout: int = LAYOUT


class Instance(NamedTuple):
    """The operator instance, and the adaptation that chooses its K."""

    cell: Cell
    adaptation: Adaptation


class TupleRun:
    """Tuples on their way through the instance, with K adapted wherever an interval ends."""

    def __init__(self, plan: CellPlan, instance: Instance) -> None:
        self.cell, self.adaptation = instance
        measures = plan.measures
        self.total = Profile.empty(
            len(measures.windows), granularity=measures.granularity, bucket=measures.bucket
        )
        """Profile of all tuples of the batch."""
        self.earliest = FOREVER
        """Smallest timestamp of the batch's tuples."""
        self.slacks: list[tuple[int, int]] = []
        """For each K in force in turn, the number of tuples that arrived meanwhile, and K."""
        self.retentions: list[tuple[int, int]] = []
        """For each change of the retention, the number of tuples before it, and the retention."""
        self.adaptations: list[tuple[int, int]] = []
        """For each adaptation, its time on the fastest stream, and the new K."""

    def push(self, arrivals: Arrivals) -> Generator[pa.RecordBatch, None, None]:
        """Let tuples arrive."""
        if not len(arrivals):
            return
        # The retention is as the last batch left it, unless a restart has set another retention.
        self._remember_for(0)
        self.earliest = int(arrivals.ts.min())
        arrived, clocks = follow_tuples(
            arrivals.stream, arrivals.ts, before=self.cell.pipeline.local_times
        )
        points = self.adaptation.clock.points(clocks.latest, earliest=int(arrivals.ts[0]))
        begin = 0
        for end in [*points.tolist(), len(arrivals)]:
            if end == begin:
                continue
            k = self._slack(arrived.delay[begin:end])
            taken = yield from self.cell.push(arrivals.slice(begin, end), k)
            self.total += taken.profile
            self.adaptation.observe(taken.profile, end - begin)
            if end in points:
                self.adaptation.adapt(self.cell.kept)
                self._remember_for(end)
                self.adaptations.append((int(clocks.latest[end - 1]), self.adaptation.k))
            begin = end

    def flush(self) -> Generator[pa.RecordBatch, None, None]:
        """End the input."""
        taken = yield from self.cell.flush()
        self.total += taken.profile

    def _remember_for(self, n: int) -> None:
        """Apply the retention chosen now, after the first ``n`` tuples of the batch."""
        retention = self.adaptation.retention
        assert retention is not None, "the horizon is in the cell"
        if retention != self.cell.pipeline.retention:
            self.cell.pipeline.remember_for(retention)
            self.retentions.append((n, retention))

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


class TupleCell:
    """The cell with its state while it takes in one batch.

    Parameters
    ----------
    plan, mode
        How the cell is run.
    store
        The cell's share of Spark's state.
    batch
        Number of the batch.
    """

    def __init__(self, plan: CellPlan, mode: ByTuple, store: CellStore, batch: int) -> None:
        self._plan, self._mode, self._store, self._batch = plan, mode, store, batch
        self._meta = _read_meta(store, plan.identity, len(plan.query.streams))
        self._instance: Instance
        self._run: TupleRun
        self._n_early = 0

    def token(self) -> str:
        """Name of the state that was written last; empty before the first batch."""
        return self._meta.token

    def resume(self, instance: object | None) -> bool:
        """Go on with the instance in memory; without one, rebuild it from the state."""
        if instance is None:
            self._instance = self._rebuilt()
        else:
            assert isinstance(instance, Instance)
            self._instance = instance
        self._run = TupleRun(self._plan, self._instance)
        return instance is None and self._meta.token != ""

    def _rebuilt(self) -> Instance:
        plan, meta = self._plan, self._meta
        pipeline = Pipeline(plan.query, plan.settings)
        if meta.snapshot:
            written = b"".join(self._store.read_chunk(number) for number in meta.snapshot)
            pipeline = restore(plan.query, written, plan.settings)
        for number in meta.batches:
            arrivals, k, retentions = _decode(plan, self._store.read_chunk(number))
            begin = 0
            for end, retention in [*retentions, (len(arrivals), None)]:
                if end > begin:
                    # The results of a replayed batch were handed on when the batch first ran.
                    drain(pipeline.push(arrivals.slice(begin, end), k=k[begin:end]))
                if retention is not None:
                    pipeline.remember_for(retention)
                begin = end
        adaptation = self._mode.policy.adaptation(self._mode.horizon)
        if meta.adaptation is not None:
            adaptation.restore(meta.adaptation)
        return Instance(Cell(pipeline, plan.measures), adaptation)

    def refuse(self, delivery: Delivery) -> None:
        """Take tuples with unbelievable times out of the delivery."""
        local_times = self._instance.cell.pipeline.local_times.tolist()
        delivery.refuse_far_ahead(
            self._plan.ahead,
            local_times=local_times,
            confirmed=self._meta.confirmed,
            clock=self._meta.clock,
            owns=[True] * len(local_times),
        )

    def take(self, delivery: Delivery) -> Generator[pa.RecordBatch, None, None]:
        """Let the tuples arrive in their order; yields results."""
        if delivery.control is not None:
            self._meta.clock = delivery.control.clock
        query = self._plan.query
        if delivery.control is not None and delivery.control.release is not None:
            # K-slack and Synchronizer know no watermark: they release all, or what is due.
            self._n_early = self._instance.cell.n_buffered
            yield from self._run.flush()
        if delivery.is_end:
            yield from self._run.flush()
        else:
            tables = {s.name: t for s, t in zip(query.streams, delivery.tables, strict=True)}
            yield from self._run.push(arrivals_of(query, tables))

    def save(self, delivery: Delivery) -> Instance:
        """Add the batch to the log, or begin a new log with a snapshot."""
        meta, run, pipeline = self._meta, self._run, self._instance.cell.pipeline
        bodies = [[body.content for body in of_stream] for of_stream in delivery.bodies]
        content = framed({"slacks": run.slacks, "retentions": run.retentions}, bodies)
        # What is released early is in no log of batches, so that it takes a snapshot.
        is_flushed = not any(bodies) and not run.slacks and pipeline.n_buffered == 0
        is_flushed |= self._n_early > 0
        meta.batch_bytes += len(content)
        if meta.batch_bytes > max(SMALLEST_SNAPSHOT, meta.snapshot_bytes) or is_flushed:
            written = snapshot(pipeline).to_pybytes()
            for number in (*meta.snapshot, *meta.batches):
                self._store.drop_chunk(number)
            meta.snapshot, meta.batches = [], []
            meta.snapshot_bytes, meta.batch_bytes = len(written), 0
            for begin in range(0, len(written), LARGEST_VALUE):
                meta.snapshot.append(self._write(written[begin : begin + LARGEST_VALUE]))
        elif run.slacks:
            meta.batches.append(self._write(content))
        meta.adaptation = self._instance.adaptation.snapshot()
        meta.token = uuid.uuid4().hex
        self._store.write_meta(json.dumps(asdict(meta)))
        return self._instance

    def _write(self, content: bytes) -> int:
        number = self._meta.next_value
        self._store.write_chunk(number, content)
        self._meta.next_value += 1
        return number

    def report(self, delivery: Delivery, *, restored: bool) -> Report:
        """What the batch has shown; refused rows are left in the control log."""
        leave_refused(self._plan, delivery.refused_rows, cell=0, batch=self._batch)
        run, adaptation = self._run, self._instance.adaptation
        return report_of(
            self._plan,
            self._instance.cell,
            run.total,
            batch=self._batch,
            k=adaptation.k,
            clock=self._meta.clock,
            phase=adaptation.phase,
            limited=adaptation.is_limited,
            recall_before=None if delivery.control is None else delivery.control.recall,
            has_data=delivery.has_data,
            n_arrived=tuple(delivery.n_arrived),
            refused=tuple(delivery.refused),
            n_delivered=sum(delivery.n_arrived),
            earliest=run.earliest,
            restored=restored,
            n_early=self._n_early,
            adaptations=tuple(run.adaptations),
        )


def _read_meta(store: CellStore, identity: str, m: int) -> TupleMeta:
    content = store.read_meta()
    if content is None:
        return TupleMeta(identity, confirmed=[0] * m)
    with undamaged("the state of a cell"):
        values = json.loads(content)
        check_layout(values.get("layout"), LAYOUT)
        check_identity(values["identity"], identity)
        return TupleMeta(**values)


def _decode(
    plan: CellPlan, content: bytes
) -> tuple[Arrivals, Int64s, list[tuple[int, int | None]]]:
    with undamaged("a batch of a cell's tuples"):
        head, bodies = unframed(content)
        tables = {
            stream.name: table_of(plan.query, s, bodies[s])
            for s, stream in enumerate(plan.query.streams)
        }
        lengths_of_k, slacks = np.array(head["slacks"], dtype=np.int64).reshape(-1, 2).T
        retentions = [(n, retention) for n, retention in head["retentions"]]
        return arrivals_of(plan.query, tables), np.repeat(slacks, lengths_of_k), retentions

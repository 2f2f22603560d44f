"""One batch of one cell: from parcels to results, a report, and a state that outlives the worker.

    parcels -> deliver -> the cell's instance -> results, state, report

The instance stays in the memory of the Python worker; Spark's state holds enough to rebuild it. A
random *token* is written to the state with every batch. The token tells whether the instance in
memory belongs to the state: after a failed attempt, a retry elsewhere or a restart it does not, and
the instance is rebuilt.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from recalljoin.spark.cells import NOT_HOT, Hot
from recalljoin.spark.delivery import deliver
from recalljoin.spark.hot_keys import Version, version_at
from recalljoin.spark.report import BATCH
from recalljoin.spark.tick_cell import TickCell
from recalljoin.spark.tuple_cell import TupleCell

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from recalljoin.engine.settings import EngineSettings
    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.quality.cell import Measures
    from recalljoin.quality.horizon import HorizonPlan
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.ahead import AheadRule
    from recalljoin.spark.cell_state import CellStore
    from recalljoin.spark.cells import Grid, Layout
    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.delivery import Delivery
    from recalljoin.spark.report import Report

MOST_IN_MEMORY = 64
"""Most instances that a worker keeps, over all queries."""
ENOUGH_BYTES = 1 << 22
"""Results are handed to Spark when they take this many bytes."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class ByTick:
    """All tuples of a batch arrive at once, and the control source chooses K."""


@dataclass(frozen=True)
class ByTuple:
    """Tuples arrive one by one. K changes inside a batch, so the only cell chooses K itself."""

    policy: PolicyPlan
    horizon: HorizonPlan


Mode = ByTick | ByTuple
"""How tuples arrive, and so who chooses K."""


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """What all cells of a query have in common."""

    query: BoundQuery
    layout: Layout
    settings: EngineSettings
    identity: str
    """What must stay the same while a checkpoint is in use, as JSON."""
    log: ControlLog | None
    """Where cells report to, if anywhere."""
    period: int
    """Recall is measured over this long."""
    target: float | None = None
    """The recall asked for, which reports repeat; None where K is fixed."""
    max_wait: int | None = None
    """The longest K allowed, which reports repeat; None for no limit."""
    measures: Measures
    """How profiles count."""
    mode: Mode = ByTick()
    idle_after: int | None = None
    """Milliseconds without a tuple after which a stream no longer holds other streams back."""
    late_rows: bool = False
    """Leave late tuples in the control log."""
    ahead: AheadRule | None = None
    """Decides which times are too far ahead of their stream; None to believe all times."""
    named_hot: Hot = NOT_HOT
    """Keys the user says are hot."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names this very plan: an instance made for another plan may have other settings."""

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self.layout.grid

    @property
    def max_ahead(self) -> int | None:
        """How far ahead of its stream a time is believed at once; None for no limit."""
        return None if self.ahead is None else self.ahead.max_ahead

    def versions(self) -> tuple[Version, ...]:
        """Where tuples go, as the control source has decided."""
        return () if self.log is None else self.log.read_versions()

    def at(self, version: Version) -> CellPlan:
        """The plan with the cells of a version."""
        return replace(self, layout=version.layout(self.layout))


class Memory:
    """Instances of this worker, by run and token.

    Parameters
    ----------
    most
        How many instances are kept, over all queries.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._instances: OrderedDict[tuple[str, str], object] = OrderedDict()

    def take(self, run: str, token: str) -> object | None:
        """Take an instance out while it changes: after a failure halfway it must not be used.

        Returns None if there is no instance for the token.
        """
        return self._instances.pop((run, token), None)

    def keep(self, run: str, token: str, instance: object) -> None:
        """Keep an instance for the batch that finds this token in its state."""
        self._instances[run, token] = instance
        while len(self._instances) > self.most:
            self._instances.popitem(last=False)


MEMORY = Memory(MOST_IN_MEMORY)


class Watch:
    """Measures the time of each stage; stages follow one another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def stop(self, stage: str) -> None:
        """Count the time since the last stop for this stage."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now


class CellBatch(Protocol):
    """A cell with its state while it takes in one batch; one class for each mode."""

    def token(self) -> str:
        """Name of the state that was written last; empty where there is no state."""

    def resume(self, instance: object | None) -> bool:
        """Go on with the instance in memory; without one, rebuild it from the state.

        Returns whether the instance was rebuilt.
        """

    def refuse(self, delivery: Delivery) -> None:
        """Take tuples with unbelievable times out of the delivery."""

    def take(self, delivery: Delivery) -> Generator[pa.RecordBatch, None, None]:
        """Let the tuples arrive; yields results."""

    def save(self, delivery: Delivery) -> object:
        """Write what has changed to the state; returns the instance, to be kept in memory."""

    def report(self, delivery: Delivery, *, restored: bool) -> Report:
        """Report what the batch has shown, without times; write late rows to the control log."""


def run_batch(
    plan: CellPlan,
    cell: int,
    parcels: Iterable[tuple[str, bytes | None]],
    store: CellStore,
    *,
    batch: int,
    versions: tuple[Version, ...],
) -> Generator[pa.RecordBatch, None, Report]:
    """Let a cell take in one batch: yields results, returns its report.

    State and control log are written after the last results have been taken.

    Parameters
    ----------
    plan
        What all cells have in common.
    cell
        Number of the cell.
    parcels
        Heads and bodies of what was sent to the cell.
    store
        The cell's share of Spark's state.
    batch
        Number of the batch.
    versions
        Where tuples go, from which batch on.
    """
    plan = plan.at(version_at(versions, batch))
    watch = Watch()
    delivery = deliver(plan.query, parcels)
    watch.stop("decode")
    taking: CellBatch
    if isinstance(plan.mode, ByTuple):
        taking = TupleCell(plan, plan.mode, store, batch)
    else:
        taking = TickCell(plan, cell, store, batch, versions)
    restored = taking.resume(MEMORY.take(plan.run, taking.token()))
    watch.stop("restore")
    taking.refuse(delivery)
    yield from gathered(taking.take(delivery), watch)
    watch.stop("join")
    instance = taking.save(delivery)
    if taking.token():
        MEMORY.keep(plan.run, taking.token(), instance)
    watch.stop("state")
    report = taking.report(delivery, restored=restored)
    watch.stop("report")
    report.seconds.update({"route": delivery.route_seconds} | watch.seconds)
    if delivery.control is not None:
        report.seconds[BATCH] = max(0.0, time.time() - delivery.control.clock / 1000)
    if plan.log is not None:
        plan.log.write_report(report)
    return report


def gathered(
    steps: Generator[pa.RecordBatch, None, _T], watch: Watch
) -> Generator[pa.RecordBatch, None, _T]:
    """Results put together in large pieces, because Spark takes some time for each piece."""
    held: list[pa.RecordBatch] = []
    n_bytes = 0
    while True:
        try:
            results = next(steps)
        except StopIteration as end:
            if held:
                yield from _handed_on(held, watch)
            outcome: _T = end.value
            return outcome
        held.append(results)
        n_bytes += results.nbytes
        if n_bytes >= ENOUGH_BYTES:
            yield from _handed_on(held, watch)
            held, n_bytes = [], 0


def _handed_on(held: list[pa.RecordBatch], watch: Watch) -> Iterator[pa.RecordBatch]:
    piece = held[0] if len(held) == 1 else pa.concat_batches(held)
    watch.stop("join")
    yield piece
    # The time until this line is reached is the time Spark takes to hand the piece on.
    watch.stop("emit")

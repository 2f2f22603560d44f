"""Recorded arrivals: DataFrames that do not stream, replayed through the same cells.

Rows are cut into ticks by their arrival column, tick by tick handed to cells as a streaming query
hands them micro-batches, and K is adapted between ticks by the same manager. All cells run as
threads of one task, because the slack of a tick depends on what all of them saw before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark import TaskContext
from pyspark.sql import functions as sf

from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import NANOSECONDS_PER
from recalljoin.spark.group import Parcel, run_group
from recalljoin.spark.packing import PARCELS, Control, Router
from recalljoin.spark.report import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.adaptation import Adaptation, PolicyPlan
    from recalljoin.quality.horizon import HorizonPlan
    from recalljoin.query import TimeUnit
    from recalljoin.spark.cell import CellPlan

TICK = "tick"
TICKED = PARCELS.append(pa.field(TICK, pa.int64(), nullable=False))
TICKED_DDL = (
    "key bigint NOT NULL, cell int NOT NULL, head string NOT NULL, body binary, "
    "tick bigint NOT NULL"
)


@dataclass
class MemoryStore:
    """State of a group that lives no longer than its task."""

    metas: dict[int, str] = field(default_factory=dict)
    chunks: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def read_meta(self, cell: int) -> str | None:
        """What :meth:`write_meta` wrote last."""
        return self.metas.get(cell)

    def write_meta(self, cell: int, content: str) -> None:
        """Replace the small part of a cell's state."""
        self.metas[cell] = content

    def read_chunk(self, cell: int, number: int) -> bytes:
        """A chunk."""
        return self.chunks[cell, number]

    def write_chunk(self, cell: int, number: int, content: bytes) -> None:
        """Add a chunk."""
        self.chunks[cell, number] = content

    def drop_chunk(self, cell: int, number: int) -> None:
        """Remove a chunk."""
        del self.chunks[cell, number]


def first_arrival(
    frames: Iterable[DataFrame], columns: Iterable[str], *, time_unit: TimeUnit
) -> int | None:
    """The smallest arrival of all inputs, in nanoseconds; None where there are no rows.

    Integers count in ``time_unit``.

    Raises
    ------
    InvalidSetting
        When a row has no arrival.
    """
    firsts: list[int] = []
    for frame, column in zip(frames, columns, strict=True):
        name = sf.col(f"`{column}`")
        found = frame.agg(sf.min(name).alias("first"), sf.count(sf.when(name.isNull(), 1)))
        table = found.toArrow()
        if table.column(1)[0].as_py():
            message = f"`arrival` must not be null; column {column!r} is"
            raise InvalidSetting(message)
        if table.column(0)[0].is_valid:
            unit = NANOSECONDS_PER[unit_of(table.column(0).type, time_unit)]
            firsts.append(int(_as_numbers(table.column(0))[0]) * unit)
    return min(firsts, default=None)


def unit_of(kind: pa.DataType, time_unit: TimeUnit) -> TimeUnit:
    """What a column of arrivals counts in."""
    unit: TimeUnit = kind.unit if pt.is_timestamp(kind) else time_unit
    return unit


def ticked_parcels(
    router: Router, arrival: str, *, first: int, length: int, factor: int = 1
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow that packs rows tick by tick.

    Parameters
    ----------
    router
        Packs the rows of one tick.
    arrival
        Column that says when a row arrived.
    first
        The first arrival of all inputs, in the finest unit among their arrival columns.
    length
        Length of a tick in that unit.
    factor
        How many of that unit make one of this arrival column's.
    """

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        part = 0
        for batch in batches:
            tick = (_as_numbers(batch.column(arrival)) * factor - first) // length
            order = np.argsort(tick, kind="stable")
            ordered = batch.take(pa.array(order))
            starts = np.flatnonzero(np.diff(tick[order], prepend=-1))
            for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
                number = int(tick[order[begin]])
                table = pa.Table.from_batches([ordered.slice(begin, end - begin)])
                for packed in router.packed(table.select(router.schema.names), task, part):
                    ticks = pa.array(np.full(packed.num_rows, number, dtype=np.int64))
                    yield pa.RecordBatch.from_arrays([*packed.columns, ticks], schema=TICKED)
                part += 1

    return pack


@dataclass(frozen=True)
class Replayer:
    """Runs all ticks of a recording, one after another.

    Parameters
    ----------
    plan
        What the cells have in common.
    policy
        What chooses the slack.
    horizon
        What says how long tuples are remembered; None where the cell does.
    length
        Length of a tick in milliseconds.
    start
        When the first tick begins, in milliseconds since 1970.
    """

    plan: CellPlan
    policy: PolicyPlan
    horizon: HorizonPlan | None
    length: int
    start: int

    def replay(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Results, from parcels in the order of their ticks."""
        run = _Run(self.plan, self.policy.adaptation(self.horizon))
        last = -1
        for tick, parcels in _by_tick(batches):
            if tick > last + 1 and run.n_ticks:
                # A tick without tuples matters if the slack has fallen. More of them do not.
                yield from run.tick({}, clock=self._clock(last + 1))
            yield from run.tick(parcels, clock=self._clock(tick))
            last = tick
        yield from run.tick({}, clock=self._clock(last + 1), flush=True)

    def _clock(self, tick: int) -> int:
        return self.start + tick * self.length


@dataclass
class _Run:
    """One replay on its way."""

    plan: CellPlan
    adaptation: Adaptation
    store: MemoryStore = field(default_factory=MemoryStore)
    n_ticks: int = 0

    def tick(
        self, parcels: dict[int, list[Parcel]], *, clock: int, flush: bool = False
    ) -> Iterator[pa.RecordBatch]:
        control = Control(
            k=self.adaptation.k,
            clock=clock,
            flush=flush,
            retention=self.adaptation.retention,
            limited=self.adaptation.is_limited,
            phase=self.adaptation.phase,
        )
        word: Parcel = (control.to_json(), None)
        cells = range(self.plan.grid.n_cells)
        given = {cell: [word, *parcels.get(cell, [])] for cell in cells}
        steps = run_group(self.plan, given, self.store, batch=self.n_ticks)
        self.n_ticks += 1
        reports = yield from steps
        merged(reports).show_to(self.adaptation)


def _by_tick(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, dict[int, list[Parcel]]]]:
    current: int | None = None
    held: dict[int, list[Parcel]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if current is not None and row[TICK] != current:
                yield current, held
                held = {}
            current = row[TICK]
            held.setdefault(row["cell"], []).append((row["head"], row["body"]))
    if current is not None:
        yield current, held


def _as_numbers(column: pa.Array | pa.ChunkedArray) -> Int64s:
    if pt.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers

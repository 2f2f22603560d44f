"""Recorded arrivals: DataFrames that do not stream, replayed through cells tick by tick.

Rows are cut into ticks by their arrival column, and K is adapted between ticks as in a streaming
query. All cells run as threads of one task, because the K of a tick depends on what all cells saw
before. Rows travel to this task in *blocks* of many ticks, sorted by the first tick of each block:
so when a block comes, all ticks before its first tick are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark import TaskContext
from pyspark.sql import functions as sf

from recalljoin.errors import InvalidSetting
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.query.durations import MAX_TIME, NANOSECONDS_PER, finest
from recalljoin.spark.cell import ByTuple, Watch, gathered
from recalljoin.spark.columns import quoted
from recalljoin.spark.packing import PIECE, from_bytes, to_bytes
from recalljoin.spark.recorded_run import TickRun, TupleRecording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.quality.horizon import HorizonPlan
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.cell import CellPlan

BLOCK_ORDER = ("tick", "stream", "task", "part", "piece")
"""Columns by which blocks must be sorted."""
BLOCKS = pa.schema(
    [pa.field(name, pa.int64(), nullable=False) for name in BLOCK_ORDER]
    + [pa.field("body", pa.binary(), nullable=False)]
)
BLOCKS_DDL = ", ".join([*(f"{name} bigint NOT NULL" for name in BLOCK_ORDER), "body binary"])
ROWS_AT_ONCE = 1 << 17
"""Complete ticks are taken in when they have at least this many rows."""
_TICK = "__tick"


def first_arrival(
    frames: Iterable[DataFrame], columns: Iterable[str], *, time_unit: TimeUnit
) -> int | None:
    """The smallest arrival of all inputs, in nanoseconds; None where there are no rows.

    Integers count in ``time_unit``.

    Raises
    ------
    InvalidSetting
        When a row has no arrival, or an arrival that cannot be counted with.
    """
    spans: list[tuple[str, int, int]] = []
    units: set[TimeUnit] = {"ms"}
    for frame, column in zip(frames, columns, strict=True):
        name = sf.col(quoted(column))
        n_null = sf.count(sf.when(name.isNull(), 1))
        table = frame.agg(sf.min(name).alias("first"), n_null, sf.max(name).alias("last")).toArrow()
        if table.column(1)[0].as_py():
            message = f"`arrival` must not be null; column {column!r} is"
            raise InvalidSetting(message)
        if table.column(0)[0].is_valid:
            unit = unit_of(table.column(0).type, time_unit)
            units.add(unit)
            first, last = (int(_as_numbers(table.column(i))[0]) for i in (0, 2))
            spans.append((column, first * NANOSECONDS_PER[unit], last * NANOSECONDS_PER[unit]))
    most = MAX_TIME * NANOSECONDS_PER[finest(units)]
    for column, first, last in spans:
        if first < -most or last > most:
            message = f"`arrival` must be a time that can be counted; column {column!r} goes beyond"
            raise InvalidSetting(message)
    return min((first for _, first, _ in spans), default=None)


def unit_of(kind: pa.DataType, time_unit: TimeUnit) -> TimeUnit:
    """The unit of a column of arrivals."""
    unit: TimeUnit = kind.unit if pt.is_timestamp(kind) else time_unit
    return unit


def in_blocks(
    schema: pa.Schema, stream: int, arrival: str, *, first: int, length: int, factor: int = 1
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow that packs rows into blocks.

    Parameters
    ----------
    schema
        Schema of the columns that the join reads.
    stream
        Index of the stream.
    arrival
        Column that says when a row arrived.
    first
        The first arrival of all inputs, in the finest unit among their arrival columns.
    length
        Length of a tick in the same unit.
    factor
        How many of the finest units make one unit of this stream's arrival column.
    """

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        for part, batch in enumerate(each for each in batches if each.num_rows):
            tick = (_as_numbers(batch.column(arrival)) * factor - first) // length
            rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            rows = rows.append_column(_TICK, pa.array(tick))
            if (np.diff(tick) < 0).any():
                order = np.argsort(tick, kind="stable")
                rows, tick = rows.take(pa.array(order)), tick[order]
            body = to_bytes(rows.combine_chunks())
            pieces = [body[begin : begin + PIECE] for begin in range(0, len(body), PIECE)]
            n = len(pieces)
            place = [np.full(n, each) for each in (tick[0], stream, task, part)]
            columns = [pa.array(each, pa.int64()) for each in (*place, np.arange(n))]
            yield pa.RecordBatch.from_arrays(
                [*columns, pa.array(pieces, pa.binary())], schema=BLOCKS
            )

    return pack


class _Rows(NamedTuple):
    """Rows of a stream in the order of their ticks."""

    stream: int
    task: int
    part: int
    rows: pa.Table
    tick: Int64s

    def cut(self, tick: int) -> tuple[_Rows, _Rows]:
        """The rows of ticks before ``tick``, and the other rows."""
        n = int(np.searchsorted(self.tick, tick))
        return (
            self._replace(rows=self.rows.slice(0, n), tick=self.tick[:n]),
            self._replace(rows=self.rows.slice(n), tick=self.tick[n:]),
        )


@dataclass(frozen=True)
class Replayer:
    """Runs all ticks of a recording, one after another.

    Parameters
    ----------
    plan
        What all cells have in common.
    policy
        Chooses K, unless the cell chooses.
    horizon
        Chooses how long tuples are remembered; None where the cell chooses.
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
        """Results, from blocks in their order."""
        yield from gathered(self._results(batches), Watch())

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Any:
        run: TickRun | TupleRecording
        if isinstance(self.plan.mode, ByTuple):
            run = TupleRecording(self.plan, self.plan.mode, start=self.start, length=self.length)
        else:
            adaptation = self.policy.adaptation(self.horizon)
            sources = SourcePlan.of(self.policy.settings)
            run = TickRun(self.plan, adaptation, sources, start=self.start, length=self.length)
        held: list[_Rows] = []
        for block in _blocks(batches):
            first = int(block.tick[0])
            n_complete = sum(int(np.searchsorted(each.tick, first)) for each in held)
            if n_complete >= ROWS_AT_ONCE:
                parts = [each.cut(first) for each in held]
                yield from run.take(*self._in_order([before for before, _ in parts]))
                held = [after for _, after in parts if len(after.tick)]
            held.append(block)
        if held:
            yield from run.take(*self._in_order(held))
        yield from run.flush()

    def _in_order(self, blocks: list[_Rows]) -> tuple[list[pa.Table], list[Int64s]]:
        """For each stream its rows and their ticks: by tick, then task, then row."""
        tables, ticks = [], []
        for s, stream in enumerate(self.plan.query.streams):
            mine = sorted((b for b in blocks if b.stream == s), key=lambda b: (b.task, b.part))
            if not mine:
                tables.append(stream.schema.empty_table())
                ticks.append(np.empty(0, dtype=np.int64))
                continue
            tick = np.concatenate([block.tick for block in mine])
            rows = pa.concat_tables([block.rows for block in mine])
            if (np.diff(tick) < 0).any():
                order = np.argsort(tick, kind="stable")
                rows, tick = rows.take(pa.array(order)), tick[order]
            tables.append(rows.combine_chunks())
            ticks.append(tick)
        return tables, ticks


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[_Rows]:
    """Blocks put together from their pieces, which come one after another."""
    place: tuple[int, ...] | None = None
    pieces: list[bytes] = []

    def whole() -> _Rows:
        assert place is not None
        rows = from_bytes(b"".join(pieces))
        tick = rows.column(_TICK).to_numpy()
        _, stream, task, part = place
        return _Rows(stream, task, part, rows.drop_columns([_TICK]), tick)

    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in (*BLOCK_ORDER, "body")]
        for *now, _, body in zip(*columns, strict=True):
            if tuple(now) != place:
                if pieces:
                    yield whole()
                place, pieces = tuple(now), []
            pieces.append(body)
    if pieces:
        yield whole()


def _as_numbers(column: pa.Array | pa.ChunkedArray) -> Int64s:
    if pt.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers: Int64s = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers

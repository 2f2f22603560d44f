"""The edge to Spark's state: cells in the groups of transformWithStateInPandas.

Spark hands a group to whichever Python worker is free. With one group for each executor, and
workers that run nothing else, it is always the same worker, and cells find their instances in the
worker's memory.

Results leave as Arrow arrays inside pandas frames: transformWithState takes pandas frames and makes
Arrow of them, value by value where types are nested; but a frame whose columns are Arrow arrays
already goes through at no cost. Every cell adds one more row, in which everything is null but the
counts that the query's own progress shows; rows with results have no counts. The counts are
observed before results are unfolded, where there are far fewer rows.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from recalljoin.engine import side_by_side
from recalljoin.engine.folding import Folded
from recalljoin.spark.cell import run_batch
from recalljoin.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import Column
    from pyspark.sql.streaming.stateful_processor import MapState

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.report import Report

COUNTS = "__counts"
"""Name of the column with the counts."""
COUNTS_TYPE = pa.list_(pa.int64())
CLOCKS = ("k", "watermark", "recall")
"""Counts that are the same in all cells. Recall is the last period's when the batch was planned."""
SUMS = (
    "arrived",
    "refused",
    "late",
    "buffered",
    "delivered",
    "produced",
    "lost",
    "nulls",
    "false_nulls",
)
"""Counts that are added up over the cells."""
_ONE = 10**12
"""The number that stands for a recall of 1, as counts are whole numbers."""

_PLACE_BITS = 40
"""Bits of a key in the state that number the places of one cell."""

# Local properties that Spark sets for the tasks of a streaming query.
_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"


@dataclass
class _GroupState:
    """A group's state behind a lock: cells are threads, Spark's state takes one call at a time."""

    values: MapState
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _CellStore:
    """A cell's share of its group's state.

    One map holds everything: Spark prepares each state variable anew in every batch, which takes
    longer than a small join does. The first place of a cell is for its meta data.
    """

    state: _GroupState
    cell: int

    def read_meta(self) -> str | None:
        content = self._read(0)
        return None if content is None else content.decode()

    def write_meta(self, content: str) -> None:
        self._write(0, content.encode())

    def read_chunk(self, number: int) -> bytes:
        content = self._read(1 + number)
        assert content is not None, f"chunk {number} of cell {self.cell} is in no state"
        return content

    def write_chunk(self, number: int, content: bytes) -> None:
        self._write(1 + number, content)

    def drop_chunk(self, number: int) -> None:
        with self.state.lock:
            self.state.values.removeKey(self._key(1 + number))

    def _key(self, place: int) -> tuple[int]:
        return (self.cell << _PLACE_BITS | place,)

    def _read(self, place: int) -> bytes | None:
        with self.state.lock:
            row = self.state.values.getValue(self._key(place))
        return None if row is None else bytes(row[0])

    def _write(self, place: int, content: bytes) -> None:
        with self.state.lock:
            self.state.values.updateValue(self._key(place), (content,))


class CellProcessor(StatefulProcessor):
    """Runs the cells of a query, group by group.

    Parameters
    ----------
    plan
        What all cells have in common.
    """

    def __init__(self, plan: CellPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once for each task."""
        settle()
        values = handle.getMapState("cells", "place bigint", "content binary")
        self._state = _GroupState(values)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002 - Spark's names
        """Called by Spark once for each group and batch."""
        parcels: dict[int, list[tuple[str, bytes | None]]] = {}
        for frame in rows:
            for cell, head, body in zip(frame["cell"], frame["head"], frame["body"], strict=True):
                content = None if body is None else bytes(body)
                parcels.setdefault(int(cell), []).append((str(head), content))
        batch, _, query_id = whereabouts()
        if self._plan.log is not None:
            self._plan.log.own(query_id)
        works = [
            run_batch(self._plan, cell, mine, _CellStore(self._state, cell), batch=batch)
            for cell, mine in sorted(parcels.items())
        ]
        reports = yield from _frames(side_by_side(works))
        if reports:
            yield in_pandas(self._counts(reports))

    def _counts(self, reports: list[Report]) -> pa.RecordBatch:
        schema = Folded(self._plan.query).schema
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(len(reports), field.type) for field in schema], schema=schema
        )
        return nothing.append_column(COUNTS, pa.array(map(counts_of, reports), COUNTS_TYPE))

    def close(self) -> None:
        """Called by Spark at the end of each task."""


def whereabouts() -> tuple[int, int, str]:
    """The batch, the partition and the query that this task works for."""
    context = TaskContext.get()
    if context is None:
        return 0, 0, "none"
    batch, query = (context.getLocalProperty(name) for name in (_BATCH_ID, _QUERY_ID))
    return int(batch or 0), context.partitionId(), query or "none"


def _frames(
    results: Generator[pa.RecordBatch, None, list[Report]],
) -> Generator[pd.DataFrame, None, list[Report]]:
    while True:
        try:
            piece = next(results)
        except StopIteration as end:
            reports: list[Report] = end.value
            return reports
        yield in_pandas(piece.append_column(COUNTS, pa.nulls(piece.num_rows, COUNTS_TYPE)))


def in_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """A batch as a pandas frame over the same memory; fit for Spark's use only."""
    columns = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(column), copy=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return _Frame(columns, copy=False)


class _Column(pd.Series):  # type: ignore[misc]
    @property
    def _constructor(self) -> type[_Column]:
        return _Column

    def apply(self, *_: Any, **__: Any) -> _Column:
        # Spark would convert nested values for Arrow here, but the values are Arrow's already.
        return self


class _Frame(pd.DataFrame):  # type: ignore[misc]
    @property
    def _constructor(self) -> type[_Frame]:
        return _Frame

    @property
    def _constructor_sliced(self) -> type[_Column]:
        return _Column


def counts_of(report: Report) -> list[int | None]:
    """The counts of a cell: first those of :data:`CLOCKS`, then those of :data:`SUMS`."""
    # Every cell knows of all arrivals; only the first cell counts them, so that sums are right.
    is_first = report.cell == 0
    return [
        report.k,
        report.watermark,
        None if report.recall_before is None else round(report.recall_before * _ONE),
        sum(report.n_arrived) if is_first else 0,
        report.n_refused if is_first else 0,
        report.profile.n_late,
        report.n_buffered,
        report.n_delivered,
        report.profile.n_produced,
        report.profile.n_lost,
        report.profile.nulls.total,
        report.profile.false_nulls.total,
    ]


def totals(counts: Column) -> list[Column]:
    """The counts over all cells, as columns to be observed."""
    at = {name: sf.get(counts, sf.lit(i)) for i, name in enumerate((*CLOCKS, *SUMS))}
    columns = {name: sf.max(at[name]) for name in CLOCKS}
    columns["recall"] /= sf.lit(float(_ONE))
    columns |= {name: sf.coalesce(sf.sum(at[name]), sf.lit(0)) for name in SUMS}
    return [column.alias(name) for name, column in columns.items()]

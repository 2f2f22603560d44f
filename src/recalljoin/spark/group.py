"""One batch of a group: its cells side by side, each with its share of the group's state.

Results leave as Arrow arrays inside pandas frames: transformWithState takes pandas frames and makes
Arrow of them, value by value where types are nested; but a frame whose columns are Arrow arrays
already goes through at no cost. Every cell adds one more row, in which everything is null but the
counts that the query's own progress shows; rows with results have no counts. The counts are
observed before results are unfolded, where there are far fewer rows.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa

from recalljoin.engine.folding import Folded
from recalljoin.engine.step import Rounds, side_by_side
from recalljoin.spark.cell import run_batch
from recalljoin.spark.counts import COUNTS, COUNTS_TYPE, counts_of
from recalljoin.spark.workers import whereabouts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql.streaming.stateful_processor import MapState

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.report import Report

_MUCH = 1 << 20
"""Bytes of tuples in a batch from which on cells surely are faster as threads."""
_LITTLE = 1 << 18
"""Bytes up to which results leave together."""
_PLACE_BITS = 40
"""Bits of a key in the state that number the places of one cell."""


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

    def drop_meta(self) -> None:
        self._drop(0)

    def write_chunk(self, number: int, content: bytes) -> None:
        self._write(1 + number, content)

    def drop_chunk(self, number: int) -> None:
        self._drop(1 + number)

    def _key(self, place: int) -> tuple[int]:
        return (self.cell << _PLACE_BITS | place,)

    def _drop(self, place: int) -> None:
        with self.state.lock:
            self.state.values.removeKey(self._key(place))

    def _read(self, place: int) -> bytes | None:
        with self.state.lock:
            row = self.state.values.getValue(self._key(place))
        return None if row is None else bytes(row[0])

    def _write(self, place: int, content: bytes) -> None:
        with self.state.lock:
            self.state.values.updateValue(self._key(place), (content,))


def run_group(
    plan: CellPlan, values: MapState, frames: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Let the cells of a group take in one batch; yields results, and at last the counts."""
    parcels: dict[int, list[tuple[str, bytes | None]]] = {}
    for frame in frames:
        for cell, head, body in zip(frame["cell"], frame["head"], frame["body"], strict=True):
            content = None if body is None else bytes(body)
            parcels.setdefault(int(cell), []).append((str(head), content))
    batch, _, query_id = whereabouts()
    if plan.log is not None:
        plan.log.own(query_id)
    state = _GroupState(values)
    versions = plan.versions()
    works = [
        run_batch(plan, cell, mine, _CellStore(state, cell), batch=batch, versions=versions)
        for cell, mine in sorted(parcels.items())
    ]
    n_bytes = sum(len(body or b"") for mine in parcels.values() for _, body in mine)
    running = side_by_side(works) if n_bytes > _MUCH else _rounds(query_id).run(works)
    yield from map(in_pandas, _in_few(_rows(running, plan)))


@functools.lru_cache(maxsize=64)
def _rounds(query_id: str) -> Rounds:  # noqa: ARG001 - one for each query of this worker
    return Rounds()


def _rows(
    results: Generator[pa.RecordBatch, None, list[Report]], plan: CellPlan
) -> Iterator[pa.RecordBatch]:
    """The results, and at last a row of counts for each cell."""
    reports = yield from _uncounted(results)
    if reports:
        yield _counts(plan, reports)
    if any(report.n_restored for report in reports):
        give_back()


def give_back() -> None:
    """Hand memory that nobody uses back to the system.

    To rebuild a cell takes several times the memory of the cell for a moment, and the allocators
    of C and of Arrow would keep most of it for good.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # Other C libraries than that of GNU have no such function.
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


def _uncounted(
    results: Generator[pa.RecordBatch, None, list[Report]],
) -> Generator[pa.RecordBatch, None, list[Report]]:
    while True:
        try:
            piece = next(results)
        except StopIteration as end:
            reports: list[Report] = end.value
            return reports
        yield piece.append_column(COUNTS, pa.nulls(piece.num_rows, COUNTS_TYPE))


def _in_few(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows; small batches together, as Spark takes some milliseconds for a frame."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if held and sum(each.nbytes for each in (*held, batch)) > _LITTLE:
            yield pa.concat_batches(held)
            held = []
        held.append(batch)
    if held:
        yield pa.concat_batches(held)


def _counts(plan: CellPlan, reports: list[Report]) -> pa.RecordBatch:
    schema = Folded(plan.query).schema
    nothing = pa.RecordBatch.from_arrays(
        [pa.nulls(len(reports), field.type) for field in schema], schema=schema
    )
    return nothing.append_column(COUNTS, pa.array(map(counts_of, reports), COUNTS_TYPE))


def in_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    """A batch as a pandas frame over the same memory; fit for Spark's use only."""
    columns = map(pd.arrays.ArrowExtensionArray, batch.columns)
    named = dict(zip(batch.schema.names, columns, strict=True))
    return _Frame(named, index=pd.RangeIndex(len(batch)), copy=False)


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

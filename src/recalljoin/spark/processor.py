"""The edge to Spark's state: cells in the groups of transformWithStateInPandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from recalljoin.engine.folding import Folded
from recalljoin.spark.frames import in_pandas
from recalljoin.spark.group import Parcel, run_group
from recalljoin.spark.observed import COUNTS, COUNTS_TYPE, counts_of
from recalljoin.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import MapState

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.report import Report

# Local properties Spark sets for the tasks of a streaming query.
_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"


@dataclass
class _SparkStore:
    meta: MapState
    chunks: MapState

    def read_meta(self, cell: int) -> str | None:
        row = self.meta.getValue((cell,))
        return None if row is None else cast("str", row[0])

    def write_meta(self, cell: int, content: str) -> None:
        self.meta.updateValue((cell,), (content,))

    def read_chunk(self, cell: int, number: int) -> bytes:
        row = self.chunks.getValue((cell, number))
        assert row is not None, f"chunk {number} of cell {cell} is in no state"
        return bytes(row[0])

    def write_chunk(self, cell: int, number: int, content: bytes) -> None:
        self.chunks.updateValue((cell, number), (content,))

    def drop_chunk(self, cell: int, number: int) -> None:
        self.chunks.removeKey((cell, number))


class CellProcessor(StatefulProcessor):
    """Runs the cells of a query, group by group.

    Parameters
    ----------
    plan
        What they have in common.
    """

    def __init__(self, plan: CellPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once for each task."""
        settle()
        self._store = _SparkStore(
            handle.getMapState("meta", "cell int", "content string"),
            handle.getMapState("chunks", "cell int, number bigint", "content binary"),
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002 - Spark's names
        """Called by Spark once for each group and batch."""
        parcels: dict[int, list[Parcel]] = {}
        for frame in rows:
            for cell, head, body in zip(frame["cell"], frame["head"], frame["body"], strict=True):
                content = None if body is None else bytes(body)
                parcels.setdefault(int(cell), []).append((str(head), content))
        batch, _, query_id = whereabouts()
        if self._plan.log is not None:
            self._plan.log.own(query_id)
        reports = yield from _frames(run_group(self._plan, parcels, self._store, batch=batch))
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
    """The batch, the partition and the query this task works for."""
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

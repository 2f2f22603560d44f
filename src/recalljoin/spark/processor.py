"""The edge to Spark's state: cells in the groups of transformWithStateInPandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pandas as pd  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from recalljoin.spark.group import Parcel, run_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.stateful_processor import MapState

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.report import Report

OUTPUT_DDL = (
    "cell int, body binary, k bigint, watermark bigint, arrived bigint, refused bigint, "
    "late bigint, buffered bigint, delivered bigint, produced bigint, lost bigint"
)
"""Rows that leave a cell: one for each blob of results, then one with what was counted."""
COUNTED = ("arrived", "refused", "late", "buffered", "delivered", "produced", "lost")
_COLUMNS = ("cell", "body", "k", "watermark", *COUNTED)

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
        steps = run_group(self._plan, parcels, self._store, batch=batch)
        while True:
            try:
                cell, blob = next(steps)
            except StopIteration as end:
                for report in end.value:
                    yield _frame(report.cell, None, report)
                return
            yield _frame(cell, blob, None)

    def close(self) -> None:
        """Called by Spark at the end of each task."""


def whereabouts() -> tuple[int, int, str]:
    """The batch, the partition and the query this task works for."""
    context = TaskContext.get()
    if context is None:
        return 0, 0, "none"
    batch, query = (context.getLocalProperty(name) for name in (_BATCH_ID, _QUERY_ID))
    return int(batch or 0), context.partitionId(), query or "none"


def _frame(cell: int, blob: bytes | None, report: Report | None) -> pd.DataFrame:
    values: dict[str, Any] = dict.fromkeys(_COLUMNS)
    values.update(cell=cell, body=blob)
    if report is not None:
        # What every cell hears of is told by the first alone, so that sums are right.
        first = cell == 0
        values.update(
            k=report.k,
            watermark=report.watermark,
            arrived=sum(report.n_arrived) if first else 0,
            refused=report.n_refused if first else 0,
            late=report.profile.n_late,
            buffered=report.n_buffered,
            delivered=report.n_delivered,
            produced=report.profile.n_produced,
            lost=report.profile.n_lost,
        )
    frame = pd.DataFrame({name: [value] for name, value in values.items()})
    return frame.astype(dict.fromkeys(_COLUMNS[2:], "Int64"))

"""The control source: a streaming source whose offsets carry the slack of every batch.

Spark asks the control source for an offset when it plans a batch. The offset has the K that
:mod:`recalljoin.spark.batch_planner` chooses. Spark writes offsets to its own log before it runs a
batch: so the K of a batch is decided once, and is the same in every replay. The rows of the control
source, one for every cell, take K to the cells.

The control source is the heartbeat as well: without its rows, a batch without data would call no
cell.

Spark makes a control source in four processes, and plans batches in one of them. So this module
loads nothing of what planning needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from recalljoin.spark.sealed import Sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recalljoin.spark.batch_planner import BatchPlanner, ControlPlan

PARCELS_DDL = "key bigint NOT NULL, cell int NOT NULL, head string NOT NULL, body binary"
"""Schema of the rows as Spark reads it; that of :data:`recalljoin.spark.packing.PARCELS`."""
FORMAT = "recalljoin_control"


@dataclass
class _Rows(InputPartition):
    """The one partition of a batch."""

    rows: list[tuple[Any, ...]]


class ControlReader(_SimpleStreamReaderWrapper, SupportsTriggerAvailableNow):
    """Has batches planned, and hands over the rows for the cells.

    The rows are few and known when a batch is planned. Spark takes rows along with the plan from
    readers of this base class alone; from any other reader it fetches them in a Python task of
    their own, once a batch.
    """

    def __init__(self, plan: Sealed[ControlPlan]) -> None:
        # Spark asks the inner reader what it can do; it is the same.
        super().__init__(self)  # type: ignore[arg-type]
        self._plan = plan

    @cached_property
    def _planner(self) -> BatchPlanner:
        from recalljoin.spark.batch_planner import BatchPlanner  # noqa: PLC0415 - large, see above

        return BatchPlanner(self._plan.open())

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return self._planner.first_offset()

    def prepareForTriggerAvailableNow(self) -> None:
        """Called by Spark in a bounded run, which must come to an end."""
        self._planner.come_to_an_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        """Offset at the end of the next batch, with its K; ``start`` if there is no next batch."""
        return self._planner.next_offset(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The one partition of a batch."""
        rows = self._planner.rows(start, end)
        return [_Rows(rows)] if rows else []

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
        """The rows of a batch, which Spark takes along with its plan."""
        rows = self._planner.rows(start, end)
        return iter(rows) if rows else None

    def commit(self, end: dict[str, Any]) -> None:
        """Called by Spark when a batch is done; there is nothing to be cleaned up."""

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of a batch, for a task that has lost those that came along with the plan."""
        assert isinstance(partition, _Rows)
        return iter(partition.rows)


class ControlSource(DataSource):
    """The control source as Spark knows it."""

    reads_with = ControlReader

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The rows are parcels for the cells."""
        return PARCELS_DDL

    def streamReader(self, schema: Any) -> ControlReader:  # noqa: ARG002 - Spark's
        """Make the reader, in a process of its own beside the driver."""
        return self.reads_with(Sealed.from_text(self.options["plan"]))

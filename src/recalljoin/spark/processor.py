"""The edge to Spark's state: cells in the groups of transformWithStateInPandas.

Spark hands a group to whichever Python worker is free. With one group for each executor, and
workers that run nothing else, it is always the same worker, and cells find their instances in the
worker's memory.

Spark also starts a process beside the driver, once a query, only to learn which state there is. So
this module loads nothing of what a cell needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from recalljoin.spark.sealed import Sealed
from recalljoin.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.spark.cell import CellPlan


class CellProcessor(StatefulProcessor):
    """Runs the cells of a query, group by group.

    Parameters
    ----------
    plan
        What all cells have in common.
    """

    def __init__(self, plan: CellPlan) -> None:
        self._plan = Sealed.of(plan)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once for each task."""
        self._values = handle.getMapState("cells", "place bigint", "content binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002 - Spark's names
        """Called by Spark once for each group and batch."""
        from recalljoin.spark.group import run_group  # noqa: PLC0415 - large, see above

        yield from run_group(self._plan.open(), self._values, rows)
        settle()

    def close(self) -> None:
        """Called by Spark at the end of each task."""

"""Joins of joins: a stream that comes from another join of the same query.

Two control sources plan the batches of such a query, and neither knows what the other is about to
do. So the join behind follows the reports of the join before it: its input ends when the join
before it has ended, and not when that join has no result for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from recalljoin.engine.times import FOREVER
from recalljoin.spark.control import FORMAT
from recalljoin.spark.sealed import Sealed
from recalljoin.spark.session import is_connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from recalljoin.spark.batch_planner import ControlPlan
    from recalljoin.spark.control_log import ControlLog


_SHUFFLES: Final = (
    "Aggregate", "CoGroup", "Deduplicate", "Distinct", "FlatMapGroups", "GroupMap", "Join",
    "MapGroups", "RebalancePartitions", "Repartition", "Sort", "TransformWithState",
)  # fmt: skip
"""How the operators of a plan begin to be called whose tasks run whether there are rows or not."""


@dataclass(frozen=True)
class Upstream:
    """A join whose results are the input of another join."""

    log: ControlLog
    flush: bool
    """Whether the end of a bounded run releases everything."""
    name: str
    """Name of its metrics in the query's progress."""

    def has_ended(self) -> bool:
        """Whether no more results will come in this bounded run, as far as batches have ended."""
        last = self.log.last_report()
        if last is None or last.has_data:
            return False
        return not self.flush or last.watermark == FOREVER


def upstream_of(frame: DataFrame) -> tuple[Upstream, ...]:
    """The joins that a streaming DataFrame comes from."""
    return tuple(Upstream(plan.log, plan.flush, plan.name) for plan in plans_of(frame))


def plans_of(frame: DataFrame) -> list[ControlPlan]:
    """The plans of the joins that a streaming DataFrame comes from."""
    return [Sealed.from_text(text).open() for text in _options_of_sources(frame, FORMAT)]


def runs_in_every_batch(frame: DataFrame) -> bool:
    """Whether tasks of a streaming DataFrame run even in batches in which its sources rest.

    A task without rows then says nothing about whether the input has ended.
    """
    if is_connected(frame.sparkSession):
        return _shuffles_in_connect(getattr(frame, "_plan", None))
    pending = [frame._jdf.queryExecution().analyzed()]
    while pending:
        node = pending.pop()
        if node.nodeName().startswith(_SHUFFLES):
            return True
        children = node.children()
        pending += [children.apply(n) for n in range(children.size())]
    return False


def _shuffles_in_connect(plan: Any) -> bool:
    if plan is None:
        return False
    base = type(plan).__mro__[-2]
    inner = [
        each
        for value in vars(plan).values()
        for each in (value if isinstance(value, list | tuple) else [value])
        if isinstance(each, base)
    ]
    return type(plan).__name__.startswith(_SHUFFLES) or any(map(_shuffles_in_connect, inner))


def _options_of_sources(frame: DataFrame, source: str) -> Iterator[str]:
    """The option ``plan`` of every source called ``source`` that a DataFrame is made from."""
    if is_connected(frame.sparkSession):
        yield from _in_connect(getattr(frame, "_plan", None), source)
        return
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == source:
            yield leaf.extraOptions().get("plan")


def _in_connect(plan: Any, source: str) -> Iterator[str]:
    """The same for Spark Connect, where plans are Python objects with their inputs inside."""
    if plan is None:
        return
    if getattr(plan, "_format", None) == source:
        yield plan._options["plan"]
    base = type(plan).__mro__[-2]
    for value in vars(plan).values():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, base):
                yield from _in_connect(each, source)

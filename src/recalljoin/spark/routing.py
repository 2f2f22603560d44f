"""What the tasks that read a stream run: they pack its tuples for the cells.

Spark runs them in Python workers of their own, one for each core. So this module loads neither the
engine's kernels nor the policies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recalljoin.spark.hot_keys import version_at
from recalljoin.spark.log_folder import LogFolder
from recalljoin.spark.packing import Router
from recalljoin.spark.sealed import Sealed
from recalljoin.spark.workers import settle, whereabouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from recalljoin.spark.cell import CellPlan


def routing(
    plan: CellPlan, s: int, *, watches: bool, always: bool = False
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pack the tuples of stream ``s``; ``watches`` for keys that many tuples have.

    ``always`` says that tasks of the stream run in every batch.
    """
    hot, max_ahead = plan.named_hot, plan.max_ahead
    router = Router(plan.query, plan.layout, s, hot, watches, max_ahead, always)
    sealed = Sealed.of(router)
    log = None if plan.log is None else LogFolder(plan.log.folder)

    def route(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = sealed.open()
        batch, task, _ = whereabouts()
        if log is not None:
            now = version_at(log.read_versions(), batch)
            layout = now.layout(router.layout)
            router = replace(router, hot=router.hot | now.hot, layout=layout)
        yield from router.route(batches, task)
        settle()

    return route

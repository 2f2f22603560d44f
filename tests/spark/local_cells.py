"""Cells without Spark: tasks, shuffle and state played by plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from recalljoin.engine.folding import Folded
from recalljoin.engine.settings import EngineSettings
from recalljoin.quality.cell import Measures
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.spark import cell
from recalljoin.spark.cell import ByTick, ByTuple, CellPlan, run_batch
from recalljoin.spark.cells import NOT_HOT, Hot, Layout, make_grid
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.hot_keys import version_at
from recalljoin.spark.packing import Control, Router
from recalljoin.spark.report import Report, merged
from tests.unfolding import unfolded

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.ahead import AheadRule

TICKS = EngineSettings(arrival="tick", slack=True)


@dataclass
class DictStore:
    """State of one cell."""

    meta: str | None = None
    chunks: dict[int, bytes] = field(default_factory=dict)

    def read_meta(self) -> str | None:
        return self.meta

    def write_meta(self, content: str) -> None:
        self.meta = content

    def drop_meta(self) -> None:
        self.meta = None

    def read_chunk(self, number: int) -> bytes:
        return self.chunks[number]

    def write_chunk(self, number: int, content: bytes) -> None:
        self.chunks[number] = content

    def drop_chunk(self, number: int) -> None:
        del self.chunks[number]

    def copy(self) -> DictStore:
        return DictStore(self.meta, dict(self.chunks))


class Cells:
    """The cells of a plan, batch by batch."""

    def __init__(self, plan: CellPlan) -> None:
        self.plan = plan
        self.stores = [DictStore() for _ in range(plan.grid.n_cells)]
        self.n_batches = 0
        self.memory = cell.Memory(cell.MOST_IN_MEMORY)

    def batch(
        self,
        tables: list[pa.Table],
        *,
        control: Control | None,
        n_tasks: int = 1,
        forget: bool = False,
    ) -> tuple[list[pa.RecordBatch], Report]:
        """One micro-batch: results of all cells, and their reports together.

        ``forget`` makes the cells come back from their state, as in a new worker.
        """
        if forget:
            self.memory = cell.Memory(cell.MOST_IN_MEMORY)
        cell.MEMORY = self.memory  # as each worker process has its own
        versions = self.plan.versions()
        now = version_at(versions, self.n_batches)
        layout = now.layout(self.plan.layout)
        self.stores += [DictStore() for _ in range(layout.grid.n_cells - len(self.stores))]
        parcels: list[list[tuple[str, bytes | None]]] = [[] for _ in range(layout.grid.n_cells)]
        for s, table in enumerate(tables):
            router = Router(
                self.plan.query,
                layout,
                s,
                self.plan.named_hot | now.hot,
                watches=True,
                max_ahead=self.plan.max_ahead,
            )
            for task in range(n_tasks):
                piece = table.take(pa.array(range(task, table.num_rows, n_tasks), pa.int64()))
                for packed in router.route(piece.to_batches(), task):
                    for row in packed.to_pylist():
                        parcels[row["cell"]].append((row["head"], row["body"]))
        if control is not None:
            for of_cell in parcels:
                of_cell.append((control.to_json(), None))
        results: list[pa.RecordBatch] = []
        reports = []
        for number, mine in enumerate(parcels):
            if not mine:
                continue
            steps = run_batch(
                self.plan,
                number,
                mine,
                self.stores[number],
                batch=self.n_batches,
                versions=versions,
            )
            while True:
                try:
                    results.append(unfolded(next(steps), Folded(self.plan.query)))
                except StopIteration as end:
                    reports.append(end.value)
                    break
        self.n_batches += 1
        return results, merged(reports)


class LocalJoin(Cells):
    """A join over several cells, with a plan made for tests of cells."""

    def __init__(
        self,
        query: BoundQuery,
        n_cells: int,
        folder: Path,
        *,
        settings: EngineSettings = TICKS,
        idle_after: int | None = None,
        identity: str = '{"query": "the same"}',
        named_hot: Hot = NOT_HOT,
        policy: PolicyPlan | None = None,
        ahead: AheadRule | None = None,
    ) -> None:
        grid = make_grid(query, n_cells)
        plan = CellPlan(
            query=query,
            layout=Layout(grid, 1),
            settings=replace(settings, folded=True),
            identity=identity,
            log=ControlLog(str(folder)),
            period=100,
            measures=Measures(tuple(stream.window for stream in query.streams), 1, 1),
            mode=ByTick() if policy is None else ByTuple(policy, HorizonPlan(policy.settings)),
            idle_after=idle_after,
            late_rows=True,
            named_hot=named_hot,
            ahead=ahead,
        )
        super().__init__(plan)

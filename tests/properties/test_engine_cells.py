"""Several instances that share the work by key: what comes out does not depend on their number."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import marks_of
from recalljoin.engine.step import Step, drain
from tests.properties.engine_runs import ARRIVAL, Script, tables_of, through_engine
from tests.properties.engine_scripts import scripts
from tests.reference import conditions
from tests.strategies import cases
from tests.unfolding import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

# One class over all streams: a key lives in one cell.
KINDS = (conditions.single_class, conditions.string_keys, conditions.null_keys)


class Cells:
    """``n`` instances that see the tuples of their keys, and the progress of all streams."""

    def __init__(self, script: Script, n: int) -> None:
        self.script = script
        self.arrivals = arrivals_of(script.bound, tables_of(script.case))
        # Null keys have to go somewhere; here it is cell 0.
        keys = sorted({repr(e.values["a"]) for e in script.case.arrivals})
        self.cell = np.array(
            [
                0 if e.values["a"] is None else keys.index(repr(e.values["a"])) % n
                for e in script.case.arrivals
            ],
            dtype=np.int64,
        )
        self.tick = np.array([e.tick for e in script.case.arrivals], dtype=np.int64)
        self.pipelines = [Pipeline(script.bound, script.settings) for _ in range(n)]

    def run(self) -> tuple[list[Counter[Any]], dict[str, int], Counter[tuple[int, int]]]:
        """Results of each batch, totals, and the sum of the slack histograms."""
        batches: list[Counter[Any]] = []
        totals: Counter[str] = Counter()
        slack: Counter[tuple[int, int]] = Counter()
        for cells in self.drained():
            found: Counter[Any] = Counter()
            for pipeline, out, step in cells:
                for batch in out:
                    found.update(_named(rows_of(batch, pipeline), self.script.case.m))
                totals["produced"] += step.n_produced
                totals["lost"] += step.n_lost
                totals["late"] += step.n_late
                totals["beyond"] += int(step.beyond.sum())
                for fate, at in np.argwhere(step.slack).tolist():
                    slack[fate, at] += int(step.slack[fate, at])
            batches.append(found)
        return batches, dict(totals), slack

    def drained(self) -> Iterator[list[tuple[Pipeline, list[pa.RecordBatch], Step]]]:
        """For each batch, and for the end of the input, what comes out of every instance."""
        for number, piece in enumerate([*self.script.pieces, None]):
            retention = self.script.retention_from(number)
            cells = []
            for cell, pipeline in enumerate(self.pipelines):
                if retention is not None:
                    pipeline.remember_for(retention)
                steps = pipeline.flush() if piece is None else self._push(pipeline, cell, *piece)
                cells.append((pipeline, *drain(steps)))
            yield cells

    def _push(self, pipeline: Pipeline, cell: int, begin: int, end: int) -> Any:
        m = self.script.case.m
        here = (self.tick >= begin) & (self.tick < end)
        marks = marks_of(
            self.tick[here] - begin,
            self.arrivals.stream[here],
            self.arrivals.ts[here],
            n_ticks=end - begin,
            m=m,
        )
        (mine,) = np.nonzero(here & (self.cell == cell))
        return pipeline.push_ticks(
            _taken(self.arrivals, mine, m),
            self.tick[mine] - begin,
            n_ticks=end - begin,
            k=np.array(self.script.k[begin:end], dtype=np.int64),
            marks=marks,
        )


def _taken(arrivals: Arrivals, places: np.ndarray[Any, Any], m: int) -> Arrivals:
    stream, row = arrivals.stream[places], arrivals.row[places].copy()
    tables = []
    for s in range(m):
        tables.append(arrivals.tables[s].take(row[stream == s]))
        row[stream == s] = np.arange(int((stream == s).sum()))
    return Arrivals(tuple(tables), stream, row, arrivals.ts[places])


def _named(batch: Any, m: int) -> list[tuple[int, ...]]:
    return list(zip(*(batch.column(i).field(ARRIVAL).to_pylist() for i in range(m)), strict=True))


@given(
    script=scripts("tick", source=cases(kinds=KINDS), idles=False, remembers=True),
    n=st.sampled_from((2, 3, 8)),
)
def test_the_same_batches_come_out_of_any_number_of_cells(script: Script, n: int) -> None:
    assert Cells(script, n).run() == Cells(script, 1).run()


@given(script=scripts("tick", rows=True, source=cases(kinds=KINDS), idles=False, remembers=True))
def test_three_cells_produce_and_lose_what_one_instance_does(script: Script) -> None:
    batches, totals, slack = Cells(script, 3).run()
    whole = through_engine(script)
    assert sum(batches, Counter()) == Counter(members for _, members in whole.results)
    assert (totals["produced"], totals["lost"]) == (whole.n_produced, whole.n_lost)
    assert totals["late"] == sum(event.late for event in whole.events)
    assert totals["beyond"] == sum(event.beyond for event in whole.events)
    fates = ("produced", "lost")
    assert {(fates[fate], at): n for (fate, at), n in slack.items()} == whole.slack

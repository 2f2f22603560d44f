"""Eager, outer, semi and anti joins over several cells, after a restart, and beside DuckDB."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.chunks import Chunk, is_over, last_in_window, needed_at, rebuild
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.query.kinds import EMITS, HOWS
from tests.effort import HALF
from tests.properties.engine_runs import ARRIVAL, Script, tables_of, taken_as
from tests.properties.engine_scripts import large_case
from tests.properties.kind_runs import KindAccount, KindEngineRun
from tests.properties.test_engine_cells import KINDS, Cells
from tests.properties.test_engine_kinds import kind_scripts, pair_scripts
from tests.reference import conditions
from tests.unfolding import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recalljoin.engine.pipeline import Pipeline
    from tests.reference.conditions import Condition


class Rebuilt(KindEngineRun):
    """Pushes tick by tick; what is kept between ticks is chunks and clocks."""

    def accounts_with(self, rebuilds: frozenset[int]) -> list[KindAccount]:
        """Run to the end, rebuilding after some ticks."""
        ticks = np.array([e.tick for e in self.script.case.arrivals], dtype=np.int64)
        begins = [begin for begin, _ in self.script.pieces]
        chunks: list[Chunk] = []
        told = []
        for n in range(self.script.length):
            for piece, begin in enumerate(begins):
                if begin == n:
                    self.remember(piece)
            part = self.arrivals.slice(*(int(i) for i in np.searchsorted(ticks, (n, n + 1))))
            times = tuple(part.ts[part.stream == s] for s in range(self.script.case.m))
            before, remembered = self.pipeline.clocks, self.pipeline.remembered
            told.append(self.after(*drain(self.push_ticks(n, n + 1))))
            chunks.append(Chunk(part.tables, times, before, n, remembered))
            if n in rebuilds:
                chunks = self._rebuilt_from(chunks)
        told.append(self.after(*drain(self.pipeline.flush())))
        return told

    def _rebuilt_from(self, chunks: list[Chunk]) -> list[Chunk]:
        now, remembered = self.pipeline.clocks, self.pipeline.remembered
        bound, retention = self.script.bound, remembered.retention
        left = []
        for number, chunk in enumerate(chunks):
            if is_over(last_in_window(bound, chunk), retention, now.watermark):
                continue
            # Every other chunk without the tuples nobody can need.
            left.append(
                _trimmed(chunk, needed_at(bound, retention, chunk, now.watermark))
                if number % 2
                else chunk
            )
        self.pipeline = rebuild(bound, self.script.settings, left, now, remembered)
        return left


def _trimmed(chunk: Chunk, masks: list[NDArray[np.bool_]]) -> Chunk:
    tables, times = zip(chunk.tables, masks, strict=True), zip(chunk.times, masks, strict=True)
    return replace(
        chunk,
        tables=tuple(table.filter(pa.array(mask)) for table, mask in tables),
        times=tuple(ts[mask] for ts, mask in times),
    )


@given(script=kind_scripts(), data=st.data())
def test_rebuilding_from_chunks_after_any_ticks_changes_nothing(
    script: Script, data: st.DataObject
) -> None:
    rebuilds = data.draw(st.frozensets(st.integers(0, max(0, script.length - 1))))
    with taken_as(script):
        rebuilt, whole = (Rebuilt(script).accounts_with(some) for some in (rebuilds, frozenset()))
    assert rebuilt == whole


class KindCells(Cells):
    """Cells that share the work by key; a preserved tuple is in one of them."""

    def __init__(self, script: Script, n: int) -> None:
        super().__init__(script, n)
        self.told: list[Counter[str]] = []

    def everything(self) -> tuple[list[Counter[object]], list[Counter[str]]]:
        """Rows of each batch, and what verdicts have brought by then."""
        batches = []
        for cells in self.drained():
            found: Counter[object] = Counter()
            told: Counter[str] = Counter()
            for pipeline, out, step in cells:
                for batch in out:
                    found.update(_named(batch, pipeline))
                told["produced"] += step.n_produced
                told["lost"] += step.n_lost
                if step.told is not None:
                    told["nulls"] += len(step.told.nulls)
                    told["false"] += len(step.told.false_nulls)
            batches.append(found)
            self.told.append(told)
        return batches, self.told


def _named(batch: pa.RecordBatch, pipeline: Pipeline) -> list[tuple[object, ...]]:
    rows = rows_of(batch, pipeline).to_pylist()
    return [tuple(v[ARRIVAL] if isinstance(v, dict) else v for v in row.values()) for row in rows]


@HALF
@given(script=pair_scripts(KINDS), n=st.sampled_from((2, 3, 8)))
def test_the_same_rows_and_counts_come_out_of_any_number_of_cells(script: Script, n: int) -> None:
    assert KindCells(script, n).everything() == KindCells(script, 1).everything()


OUTER = {"left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "SEMI", "anti": "ANTI"}


@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "kind",
    [conditions.single_class, conditions.null_keys, conditions.residual, conditions.band,
     conditions.theta, conditions.either, conditions.string_keys],
    ids=lambda kind: str(kind.__name__),
)  # fmt: skip
def test_with_a_large_k_the_rows_are_duckdbs(
    kind: Callable[[int], Condition], how: str, emit: str
) -> None:
    duckdb = pytest.importorskip("duckdb")
    case = large_case(kind(2), 7, 300)
    length = case.arrivals[-1].tick + 1
    settings = EngineSettings(arrival="tick", folded=emit == "eager")
    script = Script(case, settings, (10_000,) * length, cuts=(3, 40), how=how, emit=emit)  # type: ignore[arg-type]
    found = Counter(row for account in KindEngineRun(script).accounts() for row in account.rows)
    w1, w2 = case.windows
    condition = f"({case.condition.sql}) AND s2.ts <= s1.ts + {w1} AND s1.ts <= s2.ts + {w2}"
    shown, time = f"s1.{ARRIVAL}, s2.{ARRIVAL}", "greatest(s1.ts, s2.ts)"
    if how in ("semi", "anti"):
        shown, time = f"s1.{ARRIVAL}", "s1.ts" if how == "semi" else f"s1.ts + {w1}"
    elif how != "inner":
        alone = f"CASE WHEN s2.ts IS NULL THEN s1.ts + {w1} WHEN s1.ts IS NULL THEN s2.ts + {w2} "
        time = alone + f"ELSE {time} END"
    with duckdb.connect() as connection:
        for name, table in tables_of(case).items():
            connection.register(name, table)
        rows = connection.execute(
            f"SELECT {shown}, {time} FROM s1 {OUTER.get(how, '')} JOIN s2 ON {condition}"
        ).fetchall()
    assert found == Counter((tuple(row[:-1]), row[-1]) for row in rows)
    assert rows

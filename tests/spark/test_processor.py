"""The processor under Spark's own tester: no JVM, state in dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from recalljoin.engine.folding import Folded
from recalljoin.query.model import Query, Stream
from recalljoin.spark import cell as cell_module
from recalljoin.spark.counts import CLOCKS, COUNTS, SUMS
from recalljoin.spark.packing import Control, Router
from recalljoin.spark.processor import CellProcessor
from tests.spark.local_cells import LocalJoin
from tests.unfolding import unfolded

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})
QUERY = Query(
    streams=[Stream("s1", window=50), Stream("s2", window=50)], condition="s1.a = s2.a"
).bind({"s1": SCHEMA, "s2": SCHEMA})


def parcels(folder: Path, tables: list[pa.Table], k: int, n_cells: int = 1) -> tuple[Any, Any]:
    """A plan with one group, and what a batch sends to it."""
    plan = LocalJoin(QUERY, n_cells, folder).plan
    head = Control(k=k, clock=0).to_json()
    rows: list[Any] = [{"cell": cell, "head": head, "body": None} for cell in range(n_cells)]
    for s, table in enumerate(tables):
        for batch in Router(QUERY, plan.layout, s).route(table.to_batches(), 0):
            rows += [{name: row[name] for name in rows[0]} for row in batch.to_pylist()]
    return plan, pd.DataFrame(rows)


def table(*ts: int) -> pa.Table:
    return pa.table({"ts": list(ts), "a": [1] * len(ts)}, schema=SCHEMA)


def times(output: Any) -> list[int]:
    rows = output.dropna(subset="members_0").drop(columns=COUNTS)
    folded = Folded(QUERY)
    batch = pa.RecordBatch.from_pandas(rows, folded.schema, preserve_index=False)
    return sorted(unfolded(batch, folded)["result_time"].to_pylist()) if len(rows) else []


def counts(output: Any) -> list[dict[str, int]]:
    lists = output[COUNTS].dropna()
    return [dict(zip((*CLOCKS, *SUMS), values, strict=True)) for values in lists]


def test_results_leave_folded_and_counts_in_the_last_row(tmp_path: Path) -> None:
    plan, rows = parcels(tmp_path, [table(10, 20), table(15, 90)], k=0)
    tester = TwsTester(CellProcessor(plan))
    output: Any = tester.testInPandas(0, rows)
    assert times(output) == [15, 20]
    assert output[COUNTS].isna().tolist() == [True, False]
    assert [len(each) for each in output["members_0"].dropna()] == [2]
    (last,) = counts(output)
    assert (last["arrived"], last["produced"], last["buffered"]) == (4, 2, 1)
    assert last["watermark"] == 20


def test_a_cell_goes_on_from_its_state_when_its_memory_is_gone(tmp_path: Path) -> None:
    plan, first = parcels(tmp_path, [table(10, 30), table(30)], k=10)
    _, second = parcels(tmp_path, [table(60), table(60)], k=10)
    outputs = []
    for forget in (False, True):
        tester = TwsTester(CellProcessor(plan))
        before = times(tester.testInPandas(0, first))
        if forget:
            cell_module.MEMORY = cell_module.Memory(most=1)
        outputs.append((before, times(tester.testInPandas(0, second))))
        # What is known of cell 0, and its two chunks.
        assert sorted(tester.peekMapState("cells", 0)) == [(0,), (1,), (2,)]
    assert outputs[0] == outputs[1] == ([], [30, 30])


def test_cells_of_a_group_run_side_by_side(tmp_path: Path) -> None:
    tables = [
        pa.table({"ts": range(40), "a": [i % 5 for i in range(40)]}, schema=SCHEMA)
        for _ in range(2)
    ]
    found = []
    for n_cells in (1, 4):
        plan, rows = parcels(tmp_path / str(n_cells), tables, 0, n_cells)
        output: Any = TwsTester(CellProcessor(plan)).testInPandas(0, rows)
        found.append(times(output))
        assert len(counts(output)) == n_cells
        assert sum(each["arrived"] for each in counts(output)) == 80
    assert found[0] == found[1] != []


def test_a_cell_that_fails_fails_the_group(tmp_path: Path) -> None:
    plan, rows = parcels(tmp_path, [table(1), table(1)], 0, 4)
    rows.loc[rows["cell"] == 2, "head"] = "no head"
    with pytest.raises(ValueError, match="Expecting value"):
        TwsTester(CellProcessor(plan)).testInPandas(0, rows)

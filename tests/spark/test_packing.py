"""Parcels carry tuples, marks and refused rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from recalljoin.engine.times import NEVER
from recalljoin.query.model import Query, Stream
from recalljoin.spark.cells import Layout, make_grid
from recalljoin.spark.control import PARCELS_DDL
from recalljoin.spark.delivery import deliver
from recalljoin.spark.packing import PARCELS, Control, Router, needed_schema

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})


def bound(select: str = "*") -> BoundQuery:
    query = Query(
        streams=[Stream("s1", window="5 s"), Stream("s2", window="5 s")],
        condition="s1.a = s2.a",
        select=select,
    )
    return query.bind({"s1": SCHEMA, "s2": SCHEMA})


def parcels_of(
    table: pa.Table, *, n_cells: int = 2, task: int = 0, stream: int = 0
) -> list[list[tuple[str, bytes | None]]]:
    query = bound()
    grid = make_grid(query, n_cells)
    found: list[list[tuple[str, bytes | None]]] = [[] for _ in range(grid.n_cells)]
    for batch in Router(query, Layout(grid, 1), stream).route(table.to_batches(), task):
        assert batch.schema == PARCELS
        for row in batch.to_pylist():
            found[row["cell"]].append((row["head"], row["body"]))
    return found


def test_every_cell_hears_of_all_tuples_and_gets_its_own() -> None:
    table = pa.table({"ts": [5, 9, 7], "a": [1, 2, 3]}, schema=SCHEMA)
    deliveries = [deliver(bound(), mine) for mine in parcels_of(table)]
    assert [d.n_arrived for d in deliveries] == [[3, 0], [3, 0]]
    assert [d.marks.tolist() for d in deliveries] == [[9, NEVER], [9, NEVER]]
    rows = [row["a"] for d in deliveries for row in d.tables[0].to_pylist()]
    assert sorted(rows) == [1, 2, 3]
    assert all(d.tables[1].num_rows == 0 and d.has_data for d in deliveries)


def test_rows_without_a_usable_time_are_refused_counted_and_sent_to_the_first_cell() -> None:
    table = pa.table({"ts": [None, 1, 2**62, None], "a": [1, 2, 3, 4]}, schema=SCHEMA)
    first, second = (deliver(bound(), mine) for mine in parcels_of(table))
    expected = {"null time": 2, "time out of range": 1}
    assert first.refused == second.refused == [expected, {}]
    assert first.n_arrived == [1, 0]
    (rows,) = first.refused_rows[0]
    assert rows.column("a").to_pylist() == [1, 3, 4]
    assert rows.column("__reason").to_pylist() == ["null time", "time out of range", "null time"]
    assert second.refused_rows == [[], []]


def test_tuples_are_taken_in_the_order_of_tasks_however_parcels_come() -> None:
    parts = [pa.table({"ts": [t], "a": [t]}, schema=SCHEMA) for t in range(3)]
    parcels = [
        parcel for t, part in enumerate(parts) for parcel in parcels_of(part, n_cells=1, task=t)[0]
    ]
    for order in (parcels, parcels[::-1]):
        assert deliver(bound(), order).tables[0].column("a").to_pylist() == [0, 1, 2]


def test_a_task_without_rows_still_says_that_a_source_has_moved_on() -> None:
    (mine,) = parcels_of(SCHEMA.empty_table(), n_cells=1)
    delivery = deliver(bound(), mine)
    assert delivery.has_data
    assert delivery.n_arrived == [0, 0]


def test_a_word_from_the_control_source_alone_is_no_data() -> None:
    delivery = deliver(bound(), [(Control(k=7, clock=11, flush=True).to_json(), None)])
    assert delivery.control == Control(k=7, clock=11, flush=True)
    assert not delivery.has_data


def test_large_tasks_are_packed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recalljoin.spark.packing.ROWS_AT_ONCE", 10)
    ts = np.arange(35)
    (mine,) = parcels_of(pa.table({"ts": ts, "a": ts}, schema=SCHEMA), n_cells=1)
    assert [json.loads(head)["n"] for head, _ in mine] == [10, 10, 10, 5]
    assert deliver(bound(), mine).tables[0].column("ts").to_pylist() == ts.tolist()


def test_long_bodies_travel_in_short_rows_that_may_come_in_any_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recalljoin.spark.packing.PIECE", 100)
    n = 300
    ts = pa.array([None if i % 10 == 0 else i for i in range(n)], pa.int64())
    table = pa.table({"ts": ts, "a": range(n)}, schema=SCHEMA)
    shuffled = np.random.default_rng(1)
    for mine in parcels_of(table):
        assert max(len(body or b"") for _, body in mine) <= 100
        assert len(mine) > 20
        expected = deliver(bound(), mine)
        found = deliver(bound(), [mine[i] for i in shuffled.permutation(len(mine))])
        assert found.n_arrived == expected.n_arrived == [270, 0]
        assert found.tables == expected.tables
        assert found.refused_rows == expected.refused_rows
        assert found.refused == [{"null time": 30}, {}]
    rows = [deliver(bound(), mine).tables[0].column("a").to_pylist() for mine in parcels_of(table)]
    assert sorted(rows[0] + rows[1]) == [i for i in range(n) if i % 10]


def test_only_columns_the_query_reads_travel() -> None:
    wide = SCHEMA.append(pa.field("note", pa.string())).append(pa.field("x", pa.int64()))
    query = Query(
        streams=[Stream("s1", window="5 s"), Stream("s2", window="5 s")],
        condition="s1.a = s2.a",
        select="s1.x",
    ).bind({"s1": wide, "s2": wide})
    assert needed_schema(query, 0).names == ["ts", "a", "x"]
    assert needed_schema(query, 1).names == ["ts", "a"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_reads_parcels_as_they_are_written() -> None:
    read = StructType.fromDDL(PARCELS_DDL)
    assert isinstance(read, StructType)
    assert [(f.name, f.dataType, f.nullable) for f in read] == [
        (f.name, from_arrow_type(f.type), f.nullable) for f in PARCELS
    ]

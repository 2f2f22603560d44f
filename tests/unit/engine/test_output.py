"""What results look like: structs, projections, types."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.step import drain
from recalljoin.query.model import Query, Stream
from tests.unit.engine.inputs import bound, run

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery


def results_of(query: BoundQuery, tables: dict[str, pa.Table]) -> pa.Table:
    pipeline = Pipeline(query)
    batches, _ = drain(pipeline.push(arrivals_of(query, tables), k=0))
    rest, _ = drain(pipeline.flush())
    assert pipeline.output is not None
    return pa.Table.from_batches([*batches, *rest], schema=pipeline.output.schema)


def test_a_star_gives_one_struct_per_stream_and_the_time_of_the_result() -> None:
    results, _ = run(bound("s1.a = s2.a"), [(1, 3, 7), (2, 5, 7)])
    assert results == [
        {
            "s1": {"ts": 3, "a": 7, "n": 0},
            "s2": {"ts": 5, "a": 7, "n": 1},
            "result_time": 5,
        }
    ]


def test_a_projection_gives_its_columns_in_order_with_their_names() -> None:
    query = bound("s1.a = s2.a", select="s2.ts AS later, s1.a + 1 AS b, 'x' AS c, s1.ts")
    results, _ = run(query, [(1, 3, 7), (2, 5, 7)])
    assert [list(row.items()) for row in results] == [
        [("later", 5), ("b", 8), ("c", "x"), ("ts", 3), ("result_time", 5)]
    ]


def test_a_projection_may_read_one_stream_only_or_none() -> None:
    query = bound("s1.a = s2.a", select="s1.n AS n")
    results, _ = run(query, [(1, 3, 7), (2, 5, 7), (2, 6, 7)])
    assert [row["n"] for row in results] == [0, 0]
    results, _ = run(bound("s1.a = s2.a", select="1 AS one"), [(1, 3, 7), (2, 5, 7)])
    assert [row["one"] for row in results] == [1]


def test_counting_gives_no_rows() -> None:
    results, steps = run(bound("s1.a = s2.a", select="count(*)"), [(1, 3, 7), (2, 5, 7)])
    assert results == []
    assert sum(step.n_produced for step in steps) == 1


def test_values_of_every_type_survive() -> None:
    types = {
        "list": pa.list_(pa.struct({"x": pa.int8(), "y": pa.string()})),
        "map": pa.map_(pa.string(), pa.list_(pa.float32())),
        "kind": pa.dictionary(pa.int16(), pa.string()),
        "price": pa.decimal128(30, 4),
        "day": pa.date32(),
        "seen": pa.timestamp("ns", "Europe/Berlin"),
        "raw": pa.large_binary(),
        "view": pa.string_view(),
        "flag": pa.bool_(),
        "none": pa.null(),
        "fixed": pa.list_(pa.int8(), 2),
        "bytes": pa.binary(3),
    }
    schema = pa.schema({"ts": pa.int64(), **types})
    row: dict[str, Any] = {
        "list": [{"x": 1, "y": None}, {"x": None, "y": "z"}],
        "map": [("k", [1.5, None])],
        "kind": "word",
        "price": Decimal("12345678901234567890.1234"),
        "day": datetime.date(1815, 12, 10),
        "seen": None,
        "raw": b"\x00\xff",
        "view": "a text too long to be stored in place",
        "flag": True,
        "none": None,
        "fixed": [1, 2],
        "bytes": b"abc",
    }
    empty = dict.fromkeys(types)
    one = pa.Table.from_pylist([{"ts": 1, **row}, {"ts": 2, **empty}], schema=schema)
    two = pa.Table.from_pylist([{"ts": 2, **empty}, {"ts": 3, **row}], schema=schema)
    query = Query(streams=[Stream("a", window=10), Stream("b", window=10)]).bind(
        {"a": schema, "b": schema}
    )
    results = results_of(query, {"a": one, "b": two})
    # Views cannot be taken apart row by row, dictionaries not be put together without end: such
    # columns come out as plain ones.
    plain = schema
    for name in ("view", "kind"):
        plain = plain.set(plain.get_field_index(name), pa.field(name, pa.string()))
    assert results.schema.field("a").type == pa.struct(list(plain))
    results.validate(full=True)
    pairs = {(r["a"]["ts"], r["b"]["ts"]): r for r in results.to_pylist()}
    assert set(pairs) == {(1, 2), (1, 3), (2, 2), (2, 3)}
    assert pairs[1, 3]["a"] == {"ts": 1, **row}
    assert pairs[1, 3]["b"] == {"ts": 3, **row}
    assert pairs[2, 2]["a"] == {"ts": 2, **empty}


def test_the_time_of_a_result_has_the_type_and_unit_of_the_query() -> None:
    one = pa.table({"ts": pa.array([1], pa.timestamp("s", "UTC"))})
    two = pa.table({"ts": pa.array([1_500], pa.timestamp("ms", "UTC"))})
    query = Query(streams=[Stream("a", window="5 s"), Stream("b", window="5 s")]).bind(
        {"a": one.schema, "b": two.schema}
    )
    results = results_of(query, {"a": one, "b": two})
    assert results.schema.field("result_time").type == pa.timestamp("ms", "UTC")
    assert results["result_time"].cast(pa.int64()).to_pylist() == [1500]


def test_the_schema_is_known_before_the_first_result() -> None:
    query = bound("s1.a = s2.a", select="s1.a AS a, s2.n / 2 AS half")
    output = Pipeline(query).output
    assert output is not None
    assert output.schema == pa.schema(
        {"a": pa.int64(), "half": pa.float64(), "result_time": pa.int64()}
    )


def test_a_table_in_many_chunks_is_as_good_as_one() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"ts": pa.int64(), "key": kind, "tags": pa.list_(pa.string())})

    def part(first: int) -> pa.Table:
        rows = [{"ts": i, "key": f"k{i}", "tags": [str(i)]} for i in range(first, first + 3)]
        return pa.Table.from_pylist(rows, schema=schema)

    chunked = pa.concat_tables([part(first) for first in range(0, 30, 3)])
    assert chunked["key"].num_chunks == 10
    query = Query(
        streams=[Stream("a", window=0), Stream("b", window=0)], condition="a.key = b.key"
    ).bind({"a": schema, "b": schema})
    results = results_of(query, {"a": chunked, "b": chunked}).to_pylist()
    assert [row["a"]["ts"] for row in results] == list(range(30))
    assert all(row["a"] == row["b"] for row in results)
    assert [row["a"]["tags"] for row in results] == [[str(i)] for i in range(30)]

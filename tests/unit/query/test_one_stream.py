"""Which parts of a query Spark computes, and how they are handed to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.explain import explain
from recalljoin.query.expressions import Column
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream
from recalljoin.query.one_stream import computed_text

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "x": pa.int64(),
        "name": pa.string(),
        "odd name": pa.string(),
        "l": pa.list_(pa.int64()),
        "place": pa.struct({"city": pa.string(), "at": pa.struct({"x": pa.float64()})}),
    }
)
OWN = pa.schema([*SCHEMA, ("only_a", pa.int64())])
SCHEMAS = {"a": OWN, "b": SCHEMA}


def query(condition: str | None, select: str = "*", functions: Functions | None = None) -> Query:
    streams = [Stream("a", window=1), Stream("b", window=1)]
    return Query(
        streams=streams, condition=condition, select=select, functions=functions or Functions()
    )


def columns(condition: str, functions: Functions | None = None) -> dict[str, dict[str, str]]:
    found = query(condition, functions=functions).spark_columns(SCHEMAS)
    for texts in found.values():
        assert not any(set(name) & set(".`") for name in texts)
    return {s: {f"={computed_text(n)}": t for n, t in texts.items()} for s, texts in found.items()}


def bound(condition: str | None, select: str = "*", **types: pa.DataType) -> BoundQuery:
    """As Spark would bind it, whose columns are of the types given in their order."""
    stated = query(condition, select)
    kinds = iter(types.values())
    computed = {
        stream: pa.schema([(name, next(kinds)) for name in texts])
        for stream, texts in stated.spark_columns(SCHEMAS).items()
    }
    return stated.bind(SCHEMAS, computed=computed)


@pytest.mark.parametrize(
    ("condition", "of_a", "of_b"),
    [
        ("a.x = b.x", {}, {}),
        (
            "lower(a.name) = lower(b.name)",
            {"=lower(a.name)": "lower(`name`)"},
            {"=lower(b.name)": "lower(`name`)"},
        ),
        (
            "abs(a.x - CAST(b.name AS DOUBLE)) < 3",
            {},
            {"=CAST(b.name AS DOUBLE)": "CAST(`name` AS DOUBLE)"},
        ),
        ("a.x + 1 < b.x", {"=a.x + 1": "`x` + 1"}, {}),
        (
            "a.x > 5 OR b.name LIKE 'it''s\\_%'",
            {"=a.x > 5": "`x` > 5"},
            {"=b.name LIKE 'it\\'s\\\\_%'": "`name` LIKE 'it\\'s\\\\_%'"},
        ),
        ("only_a + 1 = b.x", {"=only_a + 1": "`only_a` + 1"}, {}),
        ("a.place.city = b.name", {"=a.place.city": "`place`.`city`"}, {}),
        ("a.place.at.x < b.x", {"=a.place.at.x": "`place`.`at`.`x`"}, {}),
        ("upper(A.`odd name`) = b.NAME", {"=upper(A.`odd name`)": "upper(`odd name`)"}, {}),
        ("a.l[0] = b.x", {"=a.l[0]": "`l`[0]"}, {}),
        (
            "size(filter(a.l, v -> v > a.x)) = b.x",
            {"=size(FILTER(a.l, v -> v > a.x))": "size(FILTER(`l`, v -> v > `x`))"},
            {},
        ),
        (
            "CASE WHEN a.x > 1 THEN 'p' ELSE a.name END = b.name",
            {
                "=CASE WHEN a.x > 1 THEN 'p' ELSE a.name END": (
                    "CASE WHEN `x` > 1 THEN 'p' ELSE `name` END"
                )
            },
            {},
        ),
        # Times moved by constants stay, as windows follow from them.
        ("a.ts BETWEEN b.ts AND b.ts + INTERVAL 10 MINUTES", {}, {}),
        ("a.ts - (INTERVAL 1 DAY) < b.ts", {}, {}),
        (
            "date_trunc('hour', a.ts) = b.ts",
            {"=date_trunc('hour', a.ts)": "date_trunc('hour', `ts`)"},
            {},
        ),
    ],
)
def test_the_largest_parts_of_one_stream_become_columns(
    condition: str, of_a: dict[str, str], of_b: dict[str, str]
) -> None:
    assert columns(condition) == {"a": of_a, "b": of_b}


def test_a_function_of_your_own_is_not_given_to_spark_but_its_arguments_are() -> None:
    functions = Functions()
    functions.register(lambda x: x, name="clean", returns="string")
    found = columns("clean(lower(a.name)) = b.name", functions=functions)
    assert found == {"a": {"=lower(a.name)": "lower(`name`)"}, "b": {}}


def test_columns_of_spark_are_keys_conditions_and_operands() -> None:
    text = "lower(a.name) = b.name AND a.x > 5 AND abs(a.x - length(b.name)) < 3"
    found = bound(text, key=pa.string(), flag=pa.bool_(), length=pa.int32())
    key = found.classes[0].members[0]
    assert isinstance(key, Column)
    assert computed_text(key.name) == "lower(a.name)"
    assert [set(part.streams) for part in found.residual] == [{0}, {0, 1}]
    names = found.streams[0].columns.names
    assert [computed_text(name) for name in names[-2:]] == ["lower(a.name)", "a.x > 5"]
    assert names[:-2] == OWN.names
    assert found.streams[0].schema == OWN
    lines = explain(found).split("\n")
    assert "  lower(a.name) = b.name  (string)" in lines
    assert "  a.x > 5" in lines
    assert (
        "  abs(a.x - (LENGTH(b.name))) < 3" in lines or "  abs(a.x - (length(b.name))) < 3" in lines
    )


def test_what_is_selected_is_computed_by_spark_from_columns() -> None:
    found = bound(None, "a.x + b.x AS sum, upper(b.name), b.place.city, a.*")
    assert found.spark_select == (
        ("sum", "`a`.`x` + `b`.`x`"),
        ("upper(b.name)", "upper(`b`.`name`)"),
        ("city", "`b`.`place`.`city`"),
        *((name, f"`a`.`{name}`") for name in OWN.names),
    )
    assert [column.name for column in found.select or ()] == [
        "a.x", "b.x", "b.name", "b.place", *(f"a.{n}" for n in OWN.names if n != "x"),
    ]  # fmt: skip
    assert bound(None).spark_select is None


@pytest.mark.parametrize(
    ("condition", "select", "message"),
    [
        (
            "concat(a.name, b.name) = 'x'",
            "*",
            "in `concat(a.name, b.name) = 'x'`: `concat(a.name, b.name)`: over several streams "
            "there are comparison, AND, OR, NOT, BETWEEN, IN, IS NULL, arithmetic, mathematical "
            "functions and functions of your own; let each part of it read one stream, or register "
            "a function with `Functions.register`",
        ),
        (
            "concat(a.name, uuid()) = b.name",
            "*",
            "in `concat(a.name, uuid()) = b.name`: `uuid` may give another value each time, and a "
            "condition may be checked at any time; add what it gives to the stream as a column",
        ),
        (
            "lower(a.nam) = b.name",
            "*",
            "in `lower(a.nam) = b.name`: stream `a` has no column `nam`; did you mean `name`?",
        ),
        (
            None,
            "sum(a.x)",
            "in `sum(a.x)`: `sum` is an aggregate; the only one is SELECT count(*), on its own",
        ),
        (
            None,
            "upper(a.nam)",
            "in `upper(a.nam)`: stream `a` has no column `nam`; did you mean `name`?",
        ),
        (
            None,
            "a.x, b.x",
            "two outputs are called `x` (names ignore case); give one another name with AS, or "
            "select `*` for one struct per stream",
        ),
    ],
)
def test_what_spark_cannot_do_either_is_refused(
    condition: str | None, select: str, message: str
) -> None:
    with pytest.raises(InvalidQuery) as caught:
        bound(condition, select)
    assert str(caught.value) == message


def test_a_function_of_your_own_cannot_be_selected_on_spark() -> None:
    functions = Functions()
    functions.register(lambda x: x, name="clean")
    stated = query(None, "clean(a.x) AS it", functions=functions)
    empty = dict.fromkeys("ab", pa.schema([]))
    with pytest.raises(InvalidQuery, match="Spark computes what is selected, and does not know"):
        stated.bind(SCHEMAS, computed=empty)
    assert stated.bind(SCHEMAS).select is not None

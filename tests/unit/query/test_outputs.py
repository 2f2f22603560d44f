from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema({"ts": pa.int64(), "a1": pa.int32(), "place": pa.struct({"city": pa.string()})})


def bind(select: str) -> BoundQuery:
    other = pa.schema({"t": pa.int64(), "b": pa.string()})
    query = Query(
        streams=[Stream("s1", window="5 s"), Stream("s2", time="t", window="5 s")], select=select
    )
    return query.bind({"s1": SCHEMA, "s2": other})


def columns(select: str) -> list[tuple[str, str]]:
    found = bind(select).select
    assert found is not None
    return [(column.name, str(column.expression.type)) for column in found]


def test_a_star_is_one_struct_per_stream() -> None:
    bound = bind("*")
    assert bound.select is None
    assert not bound.counts_only


@pytest.mark.parametrize(
    ("select", "name"),
    [("count(*)", "count"), ("COUNT(*) AS n", "n"), ("Count( * ) results", "results")],
)
def test_a_count_is_only_that(select: str, name: str) -> None:
    bound = bind(select)
    assert bound.select is None
    assert bound.counts_only
    assert bound.count_name == name


def test_columns_keep_their_type_and_are_called_what_they_are() -> None:
    assert columns("s1.a1, s2.t AS time, b, s1.place.city, s1.PLACE") == [
        ("a1", "int32"),
        ("time", "int64"),
        ("b", "string"),
        ("city", "string"),
        ("PLACE", "struct<city: string>"),
    ]


def test_expressions_are_called_what_they_say() -> None:
    assert columns("s1.a1  +  1, b < 'x' AS low, abs( s1.a1 )") == [
        ("s1.a1 + 1", "int64"),
        ("low", "bool"),
        ("abs(s1.a1)", "int64"),
    ]


def test_all_columns_of_a_stream() -> None:
    assert columns("s2.*, S1.*") == [
        ("t", "int64"),
        ("b", "string"),
        ("ts", "int64"),
        ("a1", "int32"),
        ("place", "struct<city: string>"),
    ]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("*, s1.a1", "`*` must stand alone in SELECT; drop it or the other outputs"),
        ("count(*), s1.a1", "`count(*)` must stand alone in SELECT; drop it or the other outputs"),
        ("* EXCEPT (a1)", "`* EXCEPT (a1)` is not supported; name the columns you want"),
        (
            "s1.a1, s1.a1",
            "two outputs are called `a1` (names ignore case); give one another name with AS, "
            "or select `*` for one struct per stream",
        ),
        (
            "s1.a1 AS v, s2.b AS V",
            "two outputs are called `V` (names ignore case); give one another name with AS, "
            "or select `*` for one struct per stream",
        ),
        ("q.*", "in `q.*`: no stream `q` in FROM; known streams: `s1`, `s2`"),
        ("s1.place.*", "in `s1.place.*`: write `stream.*` for all columns of a stream"),
        (
            "max(s1.a1)",
            "in `max(s1.a1)`: `max` is an aggregate; the only one is SELECT count(*), on its own",
        ),
        (
            "count(s1.a1)",
            "in `count(s1.a1)`: `count` is an aggregate; "
            "the only one is SELECT count(*), on its own",
        ),
        (
            "count(DISTINCT s1.a1)",
            "in `count(DISTINCT s1.a1)`: `count` is an aggregate; "
            "the only one is SELECT count(*), on its own",
        ),
        ("(SELECT 1)", "in `(SELECT 1)`: subqueries are not supported; join the stream instead"),
        ("", "SELECT asks for nothing; write `*`, `count(*)` or a list of columns"),
    ],
)
def test_wrong_outputs_are_refused(select: str, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        bind(select)
    assert str(caught.value) == message

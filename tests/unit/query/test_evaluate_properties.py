"""Random expressions, evaluated by the library and by obvious Python."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings

from recalljoin.errors import InvalidQuery
from recalljoin.query import BoundQuery, Expression, Query, Stream, evaluate
from tests.effort import effort
from tests.unit.query.terms import SCHEMA, Row, Term, array_of, booleans, rows, terms

# Large trees are slow to draw, and many of them are needed to meet all functions.
THOROUGH = settings(
    effort(2),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
STREAMS = (Stream("s1", window="5 s"), Stream("s2", window="5 s"))


def bound(condition: str | None, select: str) -> BoundQuery:
    query = Query(streams=STREAMS, condition=condition, select=select)
    try:
        return query.bind({"s1": SCHEMA, "s2": SCHEMA})
    except InvalidQuery as error:
        # Products of many decimals outgrow what Arrow has; refusing them is right.
        assume("more than 76 digits" not in str(error))
        raise


def values_of(expression: Expression, table: list[Row]) -> list[Any]:
    def column(stream: int, name: str) -> pa.Array:
        return array_of(f"s{stream + 1}.{name}", table)

    result = evaluate(expression, column, len(table))
    assert result.type == expression.type
    result.validate(full=True)
    if pa.types.is_duration(result.type):
        micros = result.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        return [None if value is None else timedelta(microseconds=value) for value in micros]
    return list(result.to_pylist())


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


@THOROUGH
@given(term=terms(), table=rows())
def test_every_expression_gives_what_plain_python_gives(term: Term, table: list[Row]) -> None:
    outputs = bound(None, f"{term.sql} AS it").select
    assert outputs is not None
    got = values_of(outputs[0].expression, table)
    expected = [term.run(row) for row in table]
    assert all(map(same, got, expected)), (term.sql, got, expected)


@THOROUGH
@given(term=booleans(4), table=rows())
def test_classes_and_residual_together_say_the_same_as_the_condition(
    term: Term, table: list[Row]
) -> None:
    query = bound(term.sql, "*")

    def key(value: Any) -> Any:
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    holds = [True] * len(table)
    for found in query.classes:
        members = [values_of(member, table) for member in found.members.values()]
        for at, values in enumerate(zip(*members, strict=True)):
            holds[at] &= None not in values and len({key(value) for value in values}) == 1
    for part in query.residual:
        holds = [
            so_far and value is True
            for so_far, value in zip(holds, values_of(part.expression, table), strict=True)
        ]
    assert holds == [term.run(row) is True for row in table]

"""What the engine computes over several streams is what Spark computes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given

from recalljoin.query.evaluate import compute
from recalljoin.query.model import Query, Stream
from tests.spark.residuals import (
    COLUMNS,
    CONDITIONS,
    FUNCTIONS,
    NUMBERS,
    STREAM_DDL,
    Row,
    Term,
    rows,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from pyspark.sql import SparkSession

    from recalljoin.query.kernels import Computed

pytestmark = [
    pytest.mark.spark,
    # Hypothesis shows a strategy by the text of all its parts.
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

ROWS = rows(150)
SCHEMA = pa.schema([("ts", pa.int64()), *((name, kind) for name, (kind, _, _) in COLUMNS.items())])


def by_engine(sql: str, table: list[Row]) -> Computed:
    streams = [Stream("a", window=1), Stream("b", window=1)]
    select = Query(streams=streams, select=f"{sql} AS it").bind({"a": SCHEMA, "b": SCHEMA}).select
    assert select is not None

    def column(s: int, name: str) -> pa.Array:
        return pa.array([row["ab"[s]][name] for row in table], COLUMNS[name][0])

    return compute(select[0].expression, column, len(table))


def by_spark(spark: SparkSession, texts: list[str], table: list[Row]) -> list[list[Any]]:
    data = [tuple(tuple(row[s].values()) for s in "ab") for row in table]
    frame = spark.createDataFrame(data, f"a struct<{STREAM_DDL}>, b struct<{STREAM_DDL}>")
    found = frame.coalesce(1).selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts)))
    return [list(values) for values in zip(*(tuple(row) for row in found.collect()), strict=True)]


def drawn(terms: SearchStrategy[Term]) -> list[Term]:
    """As many expressions as a test has examples, for one evaluation by Spark."""
    found: dict[str, Term] = {}

    @given(terms)
    def draw(term: Term) -> None:
        found[term.sql] = term

    draw()
    return list(found.values())


def same(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return bool(one == other)


@pytest.mark.parametrize(
    ("terms", "tolerance"), [(CONDITIONS, 0.0), (NUMBERS, 0.0), (FUNCTIONS, 1e-12)]
)
def test_random_expressions_have_the_value_they_have_in_spark(
    spark: SparkSession, terms: SearchStrategy[Term], tolerance: float
) -> None:
    found = drawn(terms)
    assert len(found) > 20
    expected = by_spark(spark, [term.spark for term in found], ROWS)
    for term, values in zip(found, expected, strict=True):
        mine = by_engine(term.sql, ROWS)
        assert mine.n_impossible == 0 or not term.safe
        for row, one, other in zip(ROWS, mine.values.to_pylist(), values, strict=True):
            assert same(one, other, tolerance), (term.sql, row, one, other)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("a.i + b.i", (2**63 - 1, 1)),
        ("a.i - b.i", (-(2**63), 1)),
        ("a.i * b.i", (2**62, 2)),
        ("a.i / b.i", (1, 0)),
        ("a.i % b.i", (1, 0)),
        ("a.f / b.f", (1.0, 0.0)),
        ("-least(a.i, b.i)", (-(2**63), 0)),
        ("abs(least(a.i, b.i))", (-(2**63), 0)),
    ],
)
def test_where_spark_raises_a_value_is_impossible(
    spark: SparkSession, sql: str, values: tuple[Any, Any]
) -> None:
    from pyspark.errors import PySparkException

    name = "f" if isinstance(values[0], float) else "i"
    table = [{s: dict.fromkeys(COLUMNS) | {name: v} for s, v in zip("ab", values, strict=True)}]
    assert by_engine(sql, table).n_impossible == 1
    with pytest.raises(PySparkException):
        by_spark(spark, [sql], table)

"""Spark makes the same rows of folded results as the engine itself."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine import folding
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from recalljoin.query.bound_query import BoundQuery

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 31, tzinfo=UTC)
SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "a": pa.int64(), "b.c": pa.string()})


def tables(m: int, n: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(m)
    return {
        f"s{s + 1}": pa.table(
            {
                "ts": [START + timedelta(milliseconds=i) for i in range(n)],
                "a": random.integers(0, 6, n),
                "b.c": [f"{s} {i}" if i % 3 else None for i in range(n)],
            },
            schema=SCHEMA,
        )
        for s in range(m)
    }


def produced(query: BoundQuery, given: dict[str, pa.Table], *, folded: bool) -> Any:
    pipeline = Pipeline(query, EngineSettings(folded=folded))
    batches, _ = drain(pipeline.push(arrivals_of(query, given), k=0))
    rest, _ = drain(pipeline.flush())
    return [*batches, *rest]


@pytest.mark.parametrize(
    ("m", "select"),
    [
        (2, "*"),
        (2, "s2.a AS x, s1.ts AS y, s2.`b.c`"),
        (2, "s1.a AS x, s1.a + 2 AS y"),
        (5, "*"),
        (5, "s5.`b.c` AS last, s4.a * 2 AS twice, s1.ts"),
    ],
)
def test_unfolded_rows_are_those_of_the_engine(
    spark: SparkSession, m: int, select: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    from recalljoin.spark.unfolding import folded_schema, unfolded

    monkeypatch.setattr(folding, "FEWEST", 100)
    condition = " AND ".join(f"s1.a = s{s}.a" for s in range(2, m + 1))
    streams = [Stream(f"s{s + 1}", window="50 ms") for s in range(m)]
    query = Query(streams=streams, condition=condition, select=select).bind(
        {each.name: SCHEMA for each in streams}
    )
    given = tables(m, 40 if m == 2 else 14)
    pieces = [batch.to_pylist() for batch in produced(query, given, folded=True)]
    form = folding.Folded(query)
    schema, output = form.schema, from_arrow_schema(form.output.schema)

    def leave(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            for rows in pieces:
                yield pa.RecordBatch.from_pylist(rows, schema)
            # What a cell leaves besides results.
            yield pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)

    left = spark.range(1).coalesce(1).mapInArrow(leave, folded_schema(form, output))
    found = unfolded(left, form, output)
    assert found.columns == form.output.schema.names
    assert [f.dataType for f in found.schema] == [f.dataType for f in output]
    rows = [tuple(map(repr, row)) for row in _values(found.toArrow())]
    flat = pa.Table.from_batches(produced(query, given, folded=False))
    assert Counter(rows) == Counter(tuple(map(repr, row)) for row in _values(flat))
    assert len(rows) > 100


def _values(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)

"""Streams that have Kafka's columns `topic` and `partition` are followed by partition."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_names import joined, source
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ("id AS ts", "'orders' AS topic", "CAST(id % 3 AS INT) AS partition")


@pytest.mark.parametrize(
    ("columns", "more", "n_sources"),
    [
        (COLUMNS, {}, 6),
        (COLUMNS, {"follow_partitions": False}, None),
        ((*COLUMNS[:2], "id % 3 AS partition"), {}, None),
    ],
)
def test_partitions_are_followed_where_a_stream_tells_them(
    spark: SparkSession,
    tmp_path: Path,
    columns: tuple[str, ...],
    more: dict[str, Any],
    n_sources: int | None,
) -> None:
    import recalljoin as rj

    frame = source(spark, tmp_path, *columns)
    result = joined(frame, tmp_path, ("x", "y"), on="x.ts = y.ts", **more)
    assert result.select("x.*").columns == ["ts", "topic", "partition"]
    run(result, tmp_path)
    found = Counter(row.x.ts for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == Counter(range(5))
    first = rj.open(str(tmp_path / "log")).progress().collect()[0]
    assert first.sources == n_sources
    told = rj.open(str(tmp_path / "log")).sources().collect()
    assert len(told) <= (n_sources or 0)
    if n_sources is not None:
        assert {(row.source, row.stream) for row in told} <= {
            (f"orders-{n}", stream) for n in range(3) for stream in ("x", "y")
        }
        assert {each.source for each in first.furthest_behind} <= {f"orders-{n}" for n in range(3)}

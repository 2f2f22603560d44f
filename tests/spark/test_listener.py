"""Metrics of a query as Spark hands them to a listener, and a join in words."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidSetting
from tests.spark.test_running_query import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, a bigint"
START = 1_790_000_000
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "operations.md"


def recipe() -> str:
    """The program in the page on operations."""
    (found,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    return str(found)


def test_the_listener_of_the_page_is_told_of_every_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    for first in (0, 10, 20):
        times = f"timestamp_seconds({START} + id) AS ts"
        frame = spark.range(first, first + 10).selectExpr(times, "id % 3 AS a").coalesce(1)
        for name in "lr":
            frame.write.mode("append").parquet(str(tmp_path / name))
    frames = [
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / name))
        for name in "lr"
    ]
    joined = rj.join(
        *(
            rj.Stream(name, frame, window="5 seconds")
            for name, frame in zip("lr", frames, strict=True)
        ),
        on="l.a = r.a",
        recall=0.9,
        initial_wait=0,
        cells=2,
        control_log=str(tmp_path / "log"),
    )
    # What a join is and how its work is divided can be read before it is started.
    text = rj.explain(joined.select("result_time"))
    assert "l.a = r.a  (int64)" in text
    assert "keys l.a = r.a divided by 2" in text
    assert "recall of at least 0.9 over 1 min" in text
    assert "K is chosen by the policy slack, from 0 to any length" in text
    with pytest.raises(InvalidSetting, match="comes from no streaming join of recalljoin"):
        rj.explain(spark.range(3))
    seen: list[tuple[Any, ...]] = []
    names: dict[str, Any] = {"spark": spark, "print": lambda *told: seen.append(told)}
    program = recipe().replace("spark.streams.addListener(", "listener = (")
    exec(program, names)
    spark.streams.addListener(names["listener"])
    try:
        query = (
            joined.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        n = len(query.recentProgress)
        # Every trigger that ran a batch has its metrics.
        observed = [p["observedMetrics"]["recalljoin"] for p in query.recentProgress]
        assert [m["target"] for m in observed] == [0.9] * n
        measured = [m for m in observed if m["recall"] is not None]
        assert len(measured) > 0
        until(lambda: len(seen) == len(measured), seconds=30)
        assert [each[1:] for each in seen] == [
            (m["k_ms"], m["recall"], m["lost"]) for m in measured
        ]
    finally:
        spark.streams.removeListener(names["listener"])
    told = rj.open(query).progress().orderBy("batch").collect()
    assert len(told) == n
    assert told[-1]["streams"]["l"]["idle"] is False
    assert told[-1]["took"].total_seconds() > 0
    # Times are dates, and waits are intervals.
    assert isinstance(told[-1]["k"], dt.timedelta)
    known = [row["watermark"] for row in told if row["watermark"] is not None]
    assert known == sorted(known)
    end = dt.datetime.fromtimestamp(START + 29)  # noqa: DTZ006 - as Spark hands times over
    assert told[-1]["streams"]["l"]["time"] == end
    lag = dt.datetime.now(dt.UTC).timestamp() - START - 29
    assert 0 < told[-1]["streams"]["l"]["lag"].total_seconds() < lag
    assert observed[-1]["watermark"] is not None
    assert "keys l.a = r.a divided by 2" in rj.open(query).explain()

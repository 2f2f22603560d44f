"""On Spark, too, times of any type in any stream give the same results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from recalljoin.query.durations import TimeUnit

pytestmark = pytest.mark.spark

START = 1_700_000_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
YEAR_2200 = 7_258_118_400


def counted(unit: TimeUnit) -> Callable[[Column], Column]:
    return lambda seconds: seconds * PER_SECOND[unit]


def rows(spark: SparkSession, step: int, kind: Callable[[Column], Column]) -> DataFrame:
    """Rows whose time, and that of their arrival, is of some type; a seventh is 20 s late."""
    late = sf.when(sf.col("id") % 7 == 0, 20).otherwise(0)
    arrival = sf.lit(START) + sf.col("id")
    frame = spark.range(0, 300, step)
    return frame.select(
        kind(arrival - late).alias("ts"),
        kind(arrival).alias("at"),
        (sf.col("id") % 5).alias("k"),
        sf.col("id").alias("n"),
    )


def streamed(frame: DataFrame, folder: Path) -> DataFrame:
    frame.coalesce(1).write.parquet(str(folder))
    return frame.sparkSession.readStream.schema(frame.schema).parquet(str(folder))


def pairs(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = frame.selectExpr("a.n AS x", "b.n AS y", "unix_seconds(timestamp(result_time)) AS t")
    return sorted(tuple(row) for row in found.collect())


def run(joined: DataFrame, folder: Path) -> DataFrame:
    out = str(folder / "out")
    query = joined.writeStream.format("parquet").option("path", out)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    return joined.sparkSession.read.schema(joined.schema).parquet(out)


NO_ZONE: Callable[[Column], Column] = lambda seconds: sf.timestamp_seconds(seconds).cast(  # noqa: E731
    "timestamp_ntz"
)


@pytest.mark.parametrize(
    ("one", "other", "unit"),
    [
        (sf.timestamp_seconds, counted("ms"), "ms"),
        (sf.timestamp_seconds, lambda seconds: seconds.cast("int"), "s"),
        (counted("ns"), sf.timestamp_seconds, "ns"),
        (NO_ZONE, counted("us"), "us"),
    ],
)
def test_a_timestamp_meets_a_long(
    spark: SparkSession,
    tmp_path: Path,
    one: Callable[[Column], Column],
    other: Callable[[Column], Column],
    unit: TimeUnit,
) -> None:
    import recalljoin as rj

    def joined(a: DataFrame, b: DataFrame, **how: Any) -> DataFrame:
        return rj.join(
            rj.Stream("a", a, window="10 s", arrival=how.pop("at", None)),
            rj.Stream("b", b, window="10 s", arrival=how.pop("at_b", None)),
            on="a.k = b.k",
            **{"k": "30 s", **how},
        )

    stamps = [rows(spark, step, sf.timestamp_seconds) for step in (1, 2)]
    same = [streamed(frame, tmp_path / f"in{s}") for s, frame in enumerate(stamps)]
    log = str(tmp_path / "log")
    expected = pairs(run(joined(*same, flush=True, control_log=log), tmp_path / "same"))
    assert len(expected) > 300

    mixed = [rows(spark, 1, one), rows(spark, 2, other)]
    live = [streamed(frame, tmp_path / f"mixed{s}") for s, frame in enumerate(mixed)]
    log = str(tmp_path / "mixed_log")
    found = run(joined(*live, flush=True, control_log=log, time_unit=unit), tmp_path / "mixed")
    assert pairs(found) == expected

    # Recorded arrivals, in ticks shorter than a second, with a slack that loses results.
    how: dict[str, Any] = {"at": "at", "at_b": "at", "k": "5 s", "tick": "500 ms"}
    recorded = pairs(joined(*stamps, **how))
    assert 0 < len(recorded) < len(expected)
    assert pairs(joined(*mixed, **how, time_unit=unit)) == recorded


def test_one_time_of_the_year_2200_in_each_stream_takes_no_result_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    found = {}
    for name, absurd in (("sane", False), ("spoiled", True)):
        folder = tmp_path / name
        frames = []
        for s, step in enumerate((1, 2)):
            frame = rows(spark, step, sf.timestamp_seconds)
            if absurd:
                extra = frame.limit(1).withColumn("ts", sf.timestamp_seconds(sf.lit(YEAR_2200)))
                frame = extra.unionAll(frame)
            # A file for every minute, read one after the other.
            for minute in range(5):
                begin = START + 60 * minute
                part = frame.where(sf.unix_seconds("at").between(begin, begin + 59))
                part.coalesce(1).write.mode("append").parquet(str(folder / f"in{s}"))
            frames.append(
                spark.readStream.schema(frame.schema)
                .option("maxFilesPerTrigger", 1)
                .parquet(str(folder / f"in{s}"))
            )
        streams = (rj.Stream(n, f, window="10 s") for f, n in zip(frames, "ab", strict=True))
        log = str(folder / "log")
        joined = rj.join(*streams, on="a.k = b.k", k="30 s", flush=True, control_log=log, cells=2)
        found[name] = pairs(run(joined, folder))
        refused = rj.open(log).progress().agg(sf.sum("refused")).first()
        assert refused is not None
        assert refused[0] == (2 if absurd else 0)
    assert found["spoiled"] == found["sane"]
    assert len(found["sane"]) > 300
    for name in "ab":
        (row,) = rj.open(str(tmp_path / "spoiled" / "log")).refused(name).collect()
        assert row["reason"] == "time far ahead of its stream"

"""What Spark computes of a query, from the condition to what is selected."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidQuery
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CLICKS = "ts timestamp, name string, x double, `odd, name` struct<deep: int>, at bigint"
IMPRESSIONS = "ts timestamp, name string, s string, y bigint, at bigint"
START = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


def moment(seconds: int) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def inputs(spark: SparkSession) -> dict[str, DataFrame]:
    clicks = [(moment(n), "aB"[n % 2] * 2, n / 2, (n,), n) for n in range(0, 900, 7)]
    shown = [
        (moment(n), "Ab"[n % 2] * 2, "nothing" if n == 33 else str(n / 3), n % 4, n)
        for n in range(0, 900, 11)
    ]
    return {
        "c": spark.createDataFrame(clicks, CLICKS),
        "i": spark.createDataFrame(shown, IMPRESSIONS),
    }


ON = """lower(c.name) = lower(i.name)
    AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES
    AND abs(c.x - try_cast(i.s AS double)) < 150
    AND (c.`odd, name`.deep % 2 = 0 OR i.y > 1)"""
OUTPUTS = [
    "upper(c.name) AS name",
    "concat_ws('-', c.name, i.name) AS both",
    "i.ts",
    "round(c.x - cast(try_cast(i.s AS double) AS decimal(9, 2)), 2) AS gap",
    "c.`odd, name`.deep",
]
SELECT = ", ".join(OUTPUTS)


def expected(frames: dict[str, DataFrame]) -> DataFrame:
    """The same in Spark's own words."""
    from pyspark.sql import functions as sf

    c, i = frames["c"].alias("c"), frames["i"].alias("i")
    return c.join(i, sf.expr(ON)).selectExpr(*OUTPUTS)


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"on": ON, "cells": 2, "control_log": str(tmp_path / "log"), **more}


@pytest.mark.parametrize("how", ["recorded", "recorded tuple", "streaming"])
def test_a_join_says_what_spark_says(spark: SparkSession, tmp_path: Path, how: str) -> None:
    import recalljoin as rj

    frames = inputs(spark)
    truth = sorted(map(str, expected(frames).collect()))
    assert len(truth) > 500
    if how == "streaming":
        streamed = {}
        for name, frame in frames.items():
            frame.coalesce(1).write.parquet(str(tmp_path / name))
            streamed[name] = spark.readStream.schema(frame.schema).parquet(str(tmp_path / name))
        joined = rj.join(
            *(rj.Stream(name, frame) for name, frame in streamed.items()),
            **settings(tmp_path, select=SELECT, k="20 minutes", flush=True),
        )
        run(joined, tmp_path)
        result = spark.read.parquet(str(tmp_path / "out"))
    else:
        more = {"arrival": "tuple", "cells": 1} if how == "recorded tuple" else {"tick": "10 s"}
        result = joined = rj.join(
            *(rj.Stream(name, frame, arrival="at") for name, frame in frames.items()),
            **settings(tmp_path, select=SELECT, k="20 minutes", time_unit="s", **more),
        )
    assert joined.columns == ["name", "both", "ts", "gap", "deep", "result_time"]
    assert sorted(map(str, result.drop("result_time").collect())) == truth


def test_a_star_shows_the_columns_of_the_streams_alone(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    frames = inputs(spark)
    joined = rj.join(
        *(rj.Stream(name, frame, arrival="at") for name, frame in frames.items()),
        **settings(tmp_path, k="20 minutes", time_unit="s"),
    )
    assert joined.schema["c"].dataType == frames["c"].schema
    assert joined.schema["i"].dataType == frames["i"].schema
    assert joined.count() == expected(frames).count()


def test_refused_and_late_rows_show_the_columns_of_the_stream_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    frames = inputs(spark)
    late = spark.createDataFrame([(moment(0), "aa", 0.5, (1,), 2000)], CLICKS)
    timeless = spark.createDataFrame([(None, "aa", 0.5, (1,), 5)], CLICKS)
    frames["c"] = frames["c"].unionAll(late).unionAll(timeless)
    joined = rj.join(
        *(rj.Stream(name, frame, arrival="at") for name, frame in frames.items()),
        **settings(tmp_path, k=0, time_unit="s", late_rows=True),
    )
    joined.count()
    opened = rj.open(str(tmp_path / "log"))
    own = frames["c"].schema.names
    assert opened.refused("c").select("c.*").columns == own
    assert opened.late("c").select("c.*").columns == own
    assert opened.late("c").where("delay > INTERVAL '0.8' SECOND").count() == 1


def test_a_recording_is_evaluated_with_the_same_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    from recalljoin.experiments.evaluation import evaluate
    from recalljoin.experiments.setup import Setup

    frames = inputs(spark)
    text = f"SELECT {SELECT} FROM c, i WHERE {ON}"
    setup = Setup(policy="max", mode="rows")
    record = evaluate(
        text, frames, setup, spark=spark, arrival="at", time_unit="s", output=tmp_path / "rows"
    )
    found = spark.read.parquet(str(tmp_path / "rows"))
    assert record.n_produced == found.count() == expected(frames).count()
    assert found.columns == ["name", "both", "ts", "gap", "deep", "result_time"]


def test_what_cannot_be_computed_does_not_match_and_is_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as sf

    import recalljoin as rj

    frames = inputs(spark)
    joined = rj.join(
        *(rj.Stream(name, frame, arrival="at") for name, frame in frames.items()),
        **settings(
            tmp_path, on="abs(c.ts - i.ts) < INTERVAL 1 MINUTE AND c.x / i.y > 0", k="1 min"
        ),
        time_unit="s",
    )
    c, i = frames["c"].alias("c"), frames["i"].alias("i")
    pairs = c.join(i, sf.expr("abs(c.ts - i.ts) < INTERVAL 1 MINUTE"))
    assert joined.count() == pairs.where("try_divide(c.x, i.y) > 0").count()
    last = rj.open(str(tmp_path / "log")).progress().orderBy("batch").collect()[-1]
    assert last["total_uncomputable"] == pairs.where("i.y = 0").count() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on": "lowr(c.name) = i.name"}, r"in `lowr\(c.name\)`: Spark cannot compute it: \[UNRES"),
        (
            {"on": "c.name + 1 = i.s", "select": "nope(c.x)"},
            "Spark cannot compute it: |do not comp",
        ),
        ({"on": "rand() < c.x"}, "`rand` may give another value each time"),
        ({"on": "c.name = i.name"}, "stream `c` has no window"),
        ({"select": "nope(c.x)"}, r"in `nope\(`c`.`x`\)`: Spark cannot compute it: \[UNRESOLVED"),
    ],
)
def test_what_spark_does_not_know_is_refused_when_the_join_is_made(
    spark: SparkSession, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    import recalljoin as rj

    frames = inputs(spark)
    with pytest.raises(InvalidQuery, match=message):
        rj.join(
            *(rj.Stream(name, frame, arrival="at") for name, frame in frames.items()),
            **settings(tmp_path, k=0, **change),
        )

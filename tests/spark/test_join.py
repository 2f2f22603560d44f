"""join() and sql() as users meet them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidQuery, InvalidSetting
from tests.reference.tick import run_ticks
from tests.spark.recorded import record
from tests.spark.test_streaming_query import places, run, slacks_used

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WINDOWS = (100, 60)


def joined(spark: SparkSession, folder: Path, **more: Any) -> DataFrame:
    import recalljoin as rj

    frames = record(2, 1).frames(spark, folder / "in")
    settings: dict[str, Any] = {
        "on": "s1.a = s2.a",
        "k": 40,
        "cells": 2,
        "control_log": str(folder / "log"),
        **more,
    }
    return rj.join(
        *(rj.Stream(f"s{s + 1}", f, window=WINDOWS[s]) for s, f in enumerate(frames)),
        **settings,
    )


def expected(n_ticks: int, *, empty_tick: int | None = None, **settings: Any) -> Any:
    recording = record(2, n_ticks, seed=3)
    query = recording.query(
        WINDOWS, lambda rows: rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"]
    )
    tuples = [
        replace(e, tick=e.tick + (empty_tick is not None and e.tick >= empty_tick))
        for e in recording.tuples
    ]
    return run_ticks(query, tuples, **settings)


def test_a_query_goes_on_from_its_checkpoint_with_another_recall_and_policy(
    spark: SparkSession, tmp_path: Path
) -> None:
    recording = record(2, 8, seed=3)
    recording.write(tmp_path / "in", ticks=range(4))
    run(joined(spark, tmp_path, k=None, recall=0.9, interval=1, policy="percentile"), tmp_path)
    recording.write(tmp_path / "in", ticks=range(4, 8))
    run(
        joined(spark, tmp_path, k=None, recall=0.99, interval=1, policy="max", flush=True), tmp_path
    )
    slacks = slacks_used(tmp_path)
    # 4 ticks and one without data, at whose end the first run stopped; 4 ticks and two at the end.
    assert len(slacks) == 11
    found = places(spark.read.parquet(str(tmp_path / "out")), 2)
    reference = expected(8, empty_tick=4, k=lambda n: slacks[n])
    assert found == Counter(result.arrivals for result in reference.produced)


def test_an_old_checkpoint_refuses_another_join(spark: SparkSession, tmp_path: Path) -> None:
    recording = record(2, 3, seed=3)
    recording.write(tmp_path / "in", ticks=range(2))
    run(joined(spark, tmp_path), tmp_path)
    recording.write(tmp_path / "in", ticks=[2])
    for changed, what in (
        ({"on": "s1.a = s2.a AND s1.ts < s2.ts"}, "`condition`: was"),
        ({"emit": "eager"}, "`emit`: was ordered, is eager"),
    ):
        with pytest.raises(Exception, match=what):
            run(joined(spark, tmp_path, **changed), tmp_path)
    run(joined(spark, tmp_path), tmp_path)


def test_a_control_log_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    record(2, 1, seed=3).write(tmp_path / "in")
    run(joined(spark, tmp_path), tmp_path)
    other = joined(spark, tmp_path).writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(Exception, match=r"belongs to another join; give every join a folder"):
        other.option("checkpointLocation", str(tmp_path / "other")).start().awaitTermination()


def test_a_sink_with_two_actions_sees_the_same_twice(spark: SparkSession, tmp_path: Path) -> None:
    record(2, 4, seed=3).write(tmp_path / "in")
    seen: list[tuple[int, Counter[tuple[int, ...]]]] = []

    def sink(batch: DataFrame, number: int) -> None:
        seen.append((number, places(batch, 2)))
        seen.append((number, places(batch, 2)))

    query = (
        joined(spark, tmp_path, flush=True)
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert seen[::2] == seen[1::2]
    total = sum((found for _, found in seen[::2]), Counter())
    assert total == Counter(result.arrivals for result in expected(4, k=40).produced)


def test_types_of_all_kinds_ride_along_untouched(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    schema = (
        "ts timestamp, id string, tags array<string>, props map<string,decimal(10,2)>, "
        "raw binary, inner struct<x:int,y:struct<z:date>>, day date, f float"
    )
    moment = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)
    row = (
        moment, "ü-1", ["a", None], {"p": Decimal("1.50")}, bytearray(b"\x00\xff"),
        (1, (dt.date(2024, 1, 1),)), dt.date(1969, 12, 31), 0.5,
    )  # fmt: skip
    empty = (moment + dt.timedelta(milliseconds=1), "ü-1", None, None, None, None, None, None)
    spark.createDataFrame([row, empty], schema).coalesce(1).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    result = rj.join(
        rj.Stream("l", frame, window="1 second"),
        rj.Stream("r", frame, window="1 second"),
        on="l.id = r.id",
        k="0 ms",
        cells=2,
        control_log=str(tmp_path / "log"),
        flush=True,
    )
    assert result.schema["l"].dataType == frame.schema
    assert result.schema["result_time"].dataType == frame.schema["ts"].dataType
    run(result, tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(found) == 4
    # By their text, since rows with lists and maps cannot be members of a set.
    written = {str(each) for each in spark.read.parquet(str(tmp_path / "in")).collect()}
    assert len(written) == 2
    for side in ("l", "r"):
        assert {str(each[side]) for each in found} == written
    assert {each["result_time"] - each["l"]["ts"] for each in found} == {
        dt.timedelta(0),
        dt.timedelta(milliseconds=1),
    }


def test_sql_selects_flat_columns_that_a_later_operator_can_aggregate(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    recording = record(2, 4, seed=3)
    recording.write(tmp_path / "in")
    frames = recording.frames(spark, tmp_path / "in")
    result = rj.sql(
        "SELECT s1.place AS one, s2.place + 0 AS two FROM s1 [100 MS], s2 [60 MS] "
        "WHERE s1.a = s2.a WITH RECALL 0.95 OVER 1 SECOND",
        {"s1": frames[0], "s2": frames[1]},
        cells=2,
        control_log=str(tmp_path / "log"),
        policy="none",
        flush=True,
    )
    assert result.columns == ["one", "two", "result_time"]
    query = (
        result.groupBy("one").count()
        .writeStream.format("memory").queryName("counts").outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    counts = {each["one"]: each["count"] for each in spark.table("counts").collect()}
    reference = Counter(result.arrivals[0] for result in expected(4, k=0).produced)
    assert counts == reference


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"k": None}, InvalidSetting, "neither is given"),
        ({"recall": 0.9}, InvalidSetting, "both are given"),
        ({"on": "s1.nope = s2.a"}, InvalidQuery, "nope"),
        ({"select": "count(*)"}, InvalidQuery, r"SELECT count\(\*\) is for local runs"),
        ({"cells": 0}, InvalidSetting, "`cells` must be between 1 and 1024, got 0"),
    ],
)
def test_what_cannot_run_is_refused_when_the_join_is_made(
    spark: SparkSession,
    tmp_path: Path,
    changed: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    record(2, 1).write(tmp_path / "in")
    with pytest.raises(error, match=message):
        joined(spark, tmp_path, **changed)


def test_a_session_with_more_partitions_than_cells_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(2, 1).write(tmp_path / "in")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    try:
        with pytest.raises(InvalidSetting, match=r"is 16, but the join has 1 group.*Set it to 1"):
            joined(spark, tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")


def test_frames_that_do_not_stream_need_an_arrival_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    still = spark.createDataFrame([(1, 1)], "ts bigint, a bigint")
    with pytest.raises(InvalidSetting, match=r"stream `s1`, `s2` is not a streaming DataFrame"):
        rj.join(rj.Stream("s1", still), rj.Stream("s2", still), k=0)
    with pytest.raises(InvalidSetting, match="must be a Spark DataFrame, got list"):
        rj.join(rj.Stream("s1", []), rj.Stream("s2", []), k=0)
    recording = record(2, 1)
    recording.write(tmp_path / "in")
    moving, _ = recording.frames(spark, tmp_path / "in")
    with pytest.raises(InvalidSetting, match="not streaming here: `s1`"):
        rj.join(rj.Stream("s1", still), rj.Stream("s2", moving), k=0)
    with pytest.raises(InvalidSetting, match="`arrival` is for recorded data"):
        rj.join(rj.Stream("s1", moving, arrival="place"), rj.Stream("s2", moving), k=0)


@pytest.mark.parametrize("settings", [{"k": 40}, {"recall": 0.9, "interval": 1, "policy": "max"}])
def test_recorded_arrivals_are_replayed_by_ticks(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any]
) -> None:
    import recalljoin as rj

    recording = record(2, 9, seed=4, empty=[3, 4, 5])
    # Ticks are 100 ms of arrival time, counted from the first arrival.
    frames = [
        spark.createDataFrame(
            [
                (
                    e.ts,
                    e.values["a"],
                    e.arrival,
                    7_030 + 100 * e.tick + (e.arrival % 90 if i else 0),
                )
                for i, e in enumerate(e for e in recording.tuples if e.stream == s)
            ],
            "ts bigint, a bigint, place bigint, at bigint",
        ).repartition(3)
        for s in range(2)
    ]
    joined = rj.join(
        *(rj.Stream(f"s{s + 1}", f, window=WINDOWS[s], arrival="at") for s, f in enumerate(frames)),
        on="s1.a = s2.a",
        cells=3,
        tick="100 ms",
        control_log=str(tmp_path / "log"),
        **settings,
    )
    found = places(joined, 2)
    progress = rj.open(str(tmp_path / "log")).progress().collect()
    slacks = {row["batch"]: row["k"] // dt.timedelta(milliseconds=1) for row in progress}
    # Of the three ticks without tuples one was run; the others change nothing.
    schedule = [slacks[n] for n in (0, 1, 2, 3, 3, 3, 4, 5, 6)]
    query = recording.query(
        WINDOWS, lambda rows: rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"]
    )
    reference = run_ticks(query, recording.tuples, k=lambda n: schedule[n])
    assert found == Counter(result.arrivals for result in reference.produced)


def test_progress_late_and_refused_rows_are_read_from_the_control_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    log = str(tmp_path / "log")
    with pytest.raises(InvalidSetting, match="holds nothing that a join has written"):
        rj.open(log)
    rows = [(100, 1, 0), (110, 1, 0), (90, 1, 150), (None, 1, 150)]
    frame = spark.createDataFrame(rows, "ts bigint, a bigint, at bigint")
    other = spark.createDataFrame([(100, 1, 0), (120, 1, 0)], "ts bigint, a bigint, at bigint")
    joined = rj.join(
        rj.Stream("l", frame, window=50, arrival="at"),
        rj.Stream("r", other, window=50, arrival="at"),
        on="l.a <= r.a",
        k=0,
        cells=4,
        control_log=log,
        late_rows=True,
    )
    # The late tuple of 90 has lost its result with 100; with 120 it is still joined.
    assert sorted((row["l"]["ts"], row["r"]["ts"]) for row in joined.collect()) == [
        (90, 120), (100, 100), (100, 120), (110, 100), (110, 120),
    ]  # fmt: skip
    opened = rj.open(log)
    progress = opened.progress().orderBy("batch").collect()
    last = progress[-1]
    assert (last["total_produced"], last["total_lost"], last["total_late"]) == (5, 1, 1)
    assert (last["total_arrived"], last["total_refused"]) == (5, 1)
    assert progress[1]["refused_by"] == {"l: null time": 1}
    assert progress[0]["replication"] == 2.0
    assert [row["watermark"] for row in progress] == [110, 110, None]
    assert progress[0]["seconds"]["join"] > 0
    (late,) = opened.late("l").collect()
    assert (late["l"]["ts"], late["lost"], late["batch"]) == (90, 1, 1)
    assert late["delay"] == dt.timedelta(milliseconds=20)
    (refused,) = opened.refused("l").collect()
    assert (refused["l"]["a"], refused["reason"]) == (1, "null time")
    with pytest.raises(InvalidSetting, match=r"holds no late rows of stream 'r'; none has come"):
        opened.late("r")
    with pytest.raises(
        InvalidSetting, match=r"holds no refused rows of stream 'L'; did you mean `l`"
    ):
        opened.refused("L")


def test_the_forecast_says_what_each_slack_would_have_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    def run(log: Path, **settings: Any) -> None:
        # Per 100 ms of arrival one tuple in time on both sides, and one on the left 30 late.
        left = [(100 * n, 1, 100 * n) for n in range(10)]
        left += [(100 * n - 30, 2, 100 * n + 60) for n in range(1, 10)]
        right = [(100 * n + at, key, 100 * n) for n in range(10) for at, key in ((0, 1), (-25, 2))]
        schema = "ts bigint, a bigint, at bigint"
        joined = rj.join(
            rj.Stream("l", spark.createDataFrame(left, schema), window=10, arrival="at"),
            rj.Stream("r", spark.createDataFrame(right, schema), window=10, arrival="at"),
            on="l.a = r.a",
            control_log=str(log),
            tick="50 ms",
            **settings,
        )
        joined.count()

    run(tmp_path / "adaptive", recall=0.9, period="600 ms", interval="100 ms", cells=2)
    curve = rj.open(str(tmp_path / "adaptive")).forecast().orderBy("k").collect()
    recalls = [row["recall"] for row in curve]
    assert recalls == sorted(recalls)
    assert recalls[-1] == 1
    # Half of the results lie 25 back when their last member comes, which a slack of 30 waits for.
    assert recalls[0] == pytest.approx(0.5, abs=0.1)
    assert {row["k"]: row["recall"] for row in curve}[dt.timedelta(milliseconds=30)] == 1
    run(tmp_path / "fixed", k=30)
    with pytest.raises(InvalidSetting, match="holds no slack of results; the policy `slack` asks"):
        rj.open(str(tmp_path / "fixed")).forecast()

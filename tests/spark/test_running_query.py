"""Queries that run on: a silent stream, late tuples, tuples one by one."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "at": pa.int64()})


class Inputs:
    """Two streams that read files as they come, one a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.n_files = 0
        for name in ("s1", "s2"):
            (folder / name).mkdir(parents=True)
        self.frames = [
            spark.readStream.schema("ts bigint, a bigint, at bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / name))
            for name in ("s1", "s2")
        ]

    def write(self, name: str, *ts: int, key: int = 1) -> None:
        """One more file of a stream."""
        table = pa.table({"ts": ts, "a": [key] * len(ts), "at": ts}, schema=SCHEMA)
        draft = self.folder / f"{self.n_files}.draft"
        pq.write_table(table, draft)
        date = 10**9 + self.n_files
        os.utime(draft, (date, date))
        draft.rename(self.folder / name / f"{self.n_files:04d}.parquet")
        self.n_files += 1

    def joined(self, **more: Any) -> DataFrame:
        """Both within 50 of each other."""
        import recalljoin as rj

        settings: dict[str, Any] = {
            "on": "s1.a = s2.a",
            "select": "s1.ts AS one, s2.ts AS two",
            "cells": 2,
            "control_log": str(self.folder / "log"),
            **more,
        }
        arrival = "at" if more.get("arrival") == "tuple" else None
        streams = [
            rj.Stream(name, frame, window=50, arrival=arrival)
            for name, frame in zip(("s1", "s2"), self.frames, strict=True)
        ]
        return rj.join(*streams, **settings)


def until(holds: Callable[[], bool], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def pairs(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    # Spark reads committed files only: a query that is stopped may have begun another one.
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted((row["one"], row["two"]) for row in rows)


def test_a_silent_stream_is_left_behind_and_waited_for_again_when_it_returns(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 100)
    inputs.write("s2", 100)
    query = (
        inputs.joined(k=0, idle_after="1 second")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )

    def watermark() -> int | None:
        observed = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
        return observed[-1]["recalljoin"]["watermark"] if observed else None

    try:
        until(lambda: watermark() == 100)
        inputs.write("s1", 200)
        # Nobody writes s2: without it, s1 alone says how far time has come.
        until(lambda: watermark() == 200)
        inputs.write("s2", 230)
        inputs.write("s1", 240)
        # It is back, and holds the other one at 230.
        until(lambda: watermark() == 230)
        # Now the other one falls silent. Were both silent, nobody would be left behind.
        inputs.write("s2", 245)

        def goes_on_alone() -> bool:
            inputs.write("s2", 245, key=2)
            return watermark() == 245

        until(goes_on_alone)
    finally:
        query.stop()
    assert pairs(spark, tmp_path) == [(100, 100), (200, 230), (200, 245), (240, 230), (240, 245)]


def test_late_tuples_of_a_streaming_query_come_with_what_they_cost(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 100, 110)
    inputs.write("s2", 100, 105, 110)
    inputs.write("s1", 90, 150)
    inputs.write("s2", 150)
    run(inputs.joined(k=0, late_rows=True), tmp_path)
    (late,) = rj.open(str(tmp_path / "log")).late("s1").collect()
    assert (late["s1"]["ts"], late["lost"], late["batch"]) == (90, 3, 1)
    assert late["delay"] == timedelta(milliseconds=20)
    last = rj.open(str(tmp_path / "log")).progress().orderBy("batch").collect()[-1]
    assert (last["total_lost"], last["total_late"]) == (3, 1)
    found = last["total_produced"] / (last["total_produced"] + 3)
    # More results may still be found lost, as there are such that took as long.
    assert 0.5 < last["recall"] <= found == last["recall_at_most"]


def test_tuples_arrive_one_by_one_and_k_changes_inside_a_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    inputs = Inputs(spark, tmp_path)
    times = [t - (30 if t % 7 == 0 else 0) for t in range(0, 600, 5)]
    for name in ("s1", "s2"):
        inputs.write(name, *times[:60])
        inputs.write(name, *times[60:])
    joined = inputs.joined(
        arrival="tuple", recall=0.99, period=300, interval=50, cells=1, flush=True
    )
    run(joined, tmp_path)
    rows = rj.open(str(tmp_path / "log")).progress().orderBy("batch").collect()
    assert len(rows[0]["ks"]) > 3
    assert max(rows[1]["ks"]) > timedelta(0)
    true = sum(abs(a - b) <= 50 for a in times for b in times)
    assert rows[-1]["total_produced"] == len(pairs(spark, tmp_path)) > 0.9 * true
    assert rows[-1]["total_produced"] + rows[-1]["total_lost"] == true

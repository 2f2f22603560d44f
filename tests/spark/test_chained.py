"""A join of a join: two control sources in one query, which must not wait for each other."""

from __future__ import annotations

import random
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.test_running_query import Inputs, pairs
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WINDOW = 60
N_FILES = 4


def recorded(seed: int) -> dict[str, list[list[int]]]:
    """For each stream the times in each of its files, out of order over files."""
    chance = random.Random(seed)
    return {
        name: [[100 * n + chance.randrange(-80, 100) for _ in range(6)] for n in range(N_FILES)]
        for name in ("s1", "s2", "s3")
    }


class Three(Inputs):
    """Three streams that read a file a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        (folder / "s3").mkdir()
        self.frames.append(
            spark.readStream.schema("ts bigint, a bigint, at bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "s3"))
        )

    def write_all(self, times: dict[str, list[list[int]]]) -> None:
        """All files of all streams."""
        for name, files in times.items():
            for file in files:
                self.write(name, *file)

    def chained(self, *, flush: bool = True, k: int = 10_000, log: str = "log") -> DataFrame:
        import recalljoin as rj

        how: dict[str, Any] = {"k": k, "flush": flush, "cells": 2, "max_ahead": None}
        s1, s2, s3 = self.frames
        first = rj.join(
            rj.Stream("s1", s1, window=WINDOW),
            rj.Stream("s2", s2, window=WINDOW),
            on="s1.a = s2.a",
            select="s1.a, s1.ts AS one, s2.ts AS two",
            control_log=str(self.folder / f"{log}1"),
            **how,
        )
        return rj.join(
            rj.Stream("j", first.where("one >= 0 OR one < 0"), time="result_time", window=WINDOW),
            rj.Stream("s3", s3, window=WINDOW),
            on="j.a = s3.a",
            select="j.one, j.two, s3.ts AS three",
            control_log=str(self.folder / f"{log}2"),
            name="second",
            **how,
        )


def all_results(times: dict[str, list[list[int]]]) -> list[tuple[int, ...]]:
    flat = [[t for file in files for t in file] for files in times.values()]
    return sorted(
        (a, b, c)
        for a, b, c in product(*flat)
        if abs(a - b) <= WINDOW and abs(max(a, b) - c) <= WINDOW
    )


def found(folder: Path) -> list[tuple[int, ...]]:
    table = pq.read_table(folder / "out") if (folder / "out").exists() else pa.table({})
    return sorted(tuple(row.values())[:3] for row in table.to_pylist())


def test_a_bounded_run_ends_with_every_result(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Three(spark, tmp_path)
    times = recorded(1)
    inputs.write_all(times)
    query = run(inputs.chained(), tmp_path)
    assert query.exception() is None
    assert found(tmp_path) == all_results(times)
    assert len(found(tmp_path)) > 100
    # Four batches with files, and a few in which one join after the other comes to its end.
    assert query.lastProgress is not None
    assert query.lastProgress["batchId"] <= N_FILES + 6


def test_without_flush_nothing_is_lost_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Three(spark, tmp_path)
    times = recorded(2)
    for begin in (0, N_FILES // 2):
        for name, files in times.items():
            for file in files[begin : begin + N_FILES // 2]:
                inputs.write(name, *file)
        # The second run begins from the checkpoint, and only that one releases everything.
        run(inputs.chained(flush=begin > 0), tmp_path)
    assert found(tmp_path) == all_results(times)


def test_a_join_behind_waits_for_a_join_that_has_no_result_for_a_while(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Three(spark, tmp_path)
    times = recorded(3)
    # The third stream ends with its first file, the others go on for long without any result.
    times["s3"] = [[t for file in times["s3"] for t in file]]
    inputs.write_all(times)
    run(inputs.chained(), tmp_path)
    assert found(tmp_path) == all_results(times)


def test_a_query_that_runs_on_plans_no_batches_without_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Three(spark, tmp_path)
    times = recorded(4)
    inputs.write_all(times)
    query = (
        inputs.chained(flush=False, k=0)
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert query.lastProgress is not None
        before = query.lastProgress["batchId"]
        time.sleep(5)
        assert query.lastProgress["batchId"] <= before + 1
    finally:
        query.stop()


@pytest.mark.parametrize("shuffle", ["deduplicated", "divided anew"])
def test_a_bounded_run_over_streams_that_are_shuffled_ends(
    spark: SparkSession, tmp_path: Path, shuffle: str
) -> None:
    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 1, 2)
    inputs.write("s2", 1, 3)
    inputs.frames = [
        frame.dropDuplicates() if shuffle == "deduplicated" else frame.repartition(2)
        for frame in inputs.frames
    ]
    query = (
        inputs.joined(k=0, flush=True)
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert pairs(spark, tmp_path) == [(1, 1), (1, 3), (2, 1), (2, 3)]


def test_two_joins_with_one_log_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    inputs = Three(spark, tmp_path)
    inputs.write("s1", 1)
    inputs.write("s2", 1)
    s1, s2, _ = inputs.frames
    how: dict[str, Any] = {"k": 0, "on": "x.a = y.a", "control_log": str(tmp_path / "log")}
    one, other = (
        rj.join(rj.Stream("x", s1, window=9), rj.Stream("y", s2, window=9), name=name, **how)
        for name in ("one", "other")
    )
    with pytest.raises(Exception, match=r"belongs to another join; give every join a folder"):
        run(one.unionAll(other), tmp_path)


def test_two_joins_of_one_name_are_refused_when_they_are_planned(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    inputs = Three(spark, tmp_path)
    s1, s2, s3 = inputs.frames
    how: dict[str, Any] = {"k": 0, "on": "x.a = y.a"}
    first = rj.join(
        rj.Stream("x", s1, window=9), rj.Stream("y", s2, window=9), select="x.a, x.ts", **how
    )
    with pytest.raises(rj.InvalidSetting, match=r"`name` of both is 'recalljoin'"):
        rj.join(rj.Stream("x", first, window=9), rj.Stream("y", s3, window=9), **how)

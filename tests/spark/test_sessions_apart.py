"""What needs a session of its own: Spark's defaults, failing tasks, Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

RUN = """
query = (
    joined.writeStream.format("parquet")
    .option("path", "out").option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
found = sorted(map(tuple, spark.read.parquet("out").select("l", "r").collect()))
print("SAME", found == sorted((a, b) for a in range(300) for b in range(300)
                              if abs(a - b) <= 5 and a % 3 == b % 3))
"""

# Nothing is set that the join needs, and every task of the last stage fails once.
PROGRAM = (
    """
import logging
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
import recalljoin as rj

logging.basicConfig(level="WARNING", format="LOG %(message)s")
spark = (
    SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
for name in ("l", "r"):
    spark.range(300).selectExpr("id AS ts", "id % 3 AS a").coalesce(1).write.parquet(name)
frames = [spark.readStream.schema("ts bigint, a bigint").parquet(n) for n in ("l", "r")]
joined = rj.join(
    rj.Stream("l", frames[0], window=5), rj.Stream("r", frames[1], window=5),
    on="l.a = r.a", select="l.ts AS l, r.ts AS r", k=0, control_log="log", flush=True,
)

def stumble(batches):
    for batch in batches:
        yield batch
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("a task fails after all its results are out")

joined = joined.mapInArrow(stumble, joined.schema)
"""
    + RUN
    + """
print("PARTITIONS", spark.conf.get("spark.sql.shuffle.partitions"))
print("ARROW", spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch"))
print("STORE", spark.conf.get("spark.sql.streaming.stateStore.providerClass").rpartition(".")[2])
last = rj.open("log").progress().orderBy("batch").collect()[-1]
print("PRODUCED", last["total_produced"] == len(found))
"""
)

# Two batches, so that cells must come back; K is chosen by the policy.
CONNECTED = (
    """
from pyspark.sql import SparkSession
import recalljoin as rj

spark = SparkSession.builder.remote("local[2]").getOrCreate()
print("SESSION", type(spark).__module__)
for name in ("l", "r"):
    for n in range(2):
        rows = spark.range(150 * n, 150 * n + 150).selectExpr("id AS ts", "id % 3 AS a")
        rows.coalesce(1).write.mode("append").parquet(name)
frames = [
    spark.readStream.schema("ts bigint, a bigint").option("maxFilesPerTrigger", 1).parquet(n)
    for n in ("l", "r")
]
streams = [rj.Stream(n, f, window=5) for f, n in zip(frames, "lr")]
asked = dict(on="l.a = r.a", select="l.ts AS l, r.ts AS r", recall=0.9, flush=True)
try:
    rj.join(*streams, **asked)
except rj.InvalidSetting as error:
    print("REFUSED", error)
joined = rj.join(*streams, **asked, control_log="log")
"""
    + RUN
    + """
batches = rj.open("log").progress().orderBy("batch").collect()
print("PRODUCED", batches[-1]["total_produced"] == len(found), "in", len(batches) > 2)
print("OPENED", rj.open(query).progress().count() == len(batches))
replayed = rj.join(
    *(rj.Stream(n, spark.read.parquet(n).selectExpr("*", "ts AS at"), window=5, arrival="at")
      for n in "lr"),
    on="l.a = r.a", select="l.ts AS l, r.ts AS r", k=300,
)
print("REPLAYED", sorted((row["l"], row["r"]) for row in replayed.collect()) == found)
spark.stop()
"""
)


def output_of(program: str, folder: Path) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout.splitlines() + run.stderr.splitlines()


def test_defaults_are_set_with_a_word_and_tasks_that_are_tried_again_change_nothing(
    tmp_path: Path,
) -> None:
    lines = output_of(PROGRAM, tmp_path)
    assert {"SAME True", "PRODUCED True", "PARTITIONS 1"} <= set(lines)
    assert {"STORE RocksDBStateStoreProvider", "ARROW 67108864b"} <= set(lines)
    (said,) = (line for line in lines if line.startswith("LOG set in this Spark session"))
    assert "spark.sql.shuffle.partitions=1" in said


def test_it_runs_under_spark_connect(tmp_path: Path) -> None:
    lines = set(output_of(CONNECTED, tmp_path))
    assert "SESSION pyspark.sql.connect.session" in lines
    assert {"SAME True", "PRODUCED True in True", "OPENED True", "REPLAYED True"} <= lines
    (refused,) = (line for line in lines if line.startswith("REFUSED"))
    assert "`control_log` must name a folder that all workers see" in refused

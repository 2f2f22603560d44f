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

# Nothing is set that the join needs, and every task of the last stage fails once.
PROGRAM = """
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
    rj.stream(frames[0], name="l", window=5), rj.stream(frames[1], name="r", window=5),
    on="l.a = r.a", select="l.ts AS l, r.ts AS r", k=0, control_log="log", flush=True,
)

def stumble(batches):
    for batch in batches:
        yield batch
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("a task fails after all its results are out")

query = (
    joined.mapInArrow(stumble, joined.schema).writeStream.format("parquet")
    .option("path", "out").option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
found = sorted(map(tuple, spark.read.parquet("out").select("l", "r").collect()))
print("SAME", found == sorted((a, b) for a in range(300) for b in range(300)
                              if abs(a - b) <= 5 and a % 3 == b % 3))
print("PARTITIONS", spark.conf.get("spark.sql.shuffle.partitions"))
print("ARROW", spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch"))
print("STORE", spark.conf.get("spark.sql.streaming.stateStore.providerClass").rpartition(".")[2])
last = rj.progress(spark, "log").orderBy("batch").collect()[-1]
print("PRODUCED", last["total_produced"] == len(found))
"""

CONNECTED = """
import recalljoin as rj
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[1]").getOrCreate()
frame = spark.range(3)
try:
    rj.join(rj.stream(frame, name="l"), rj.stream(frame, name="r"), k=0)
except rj.InvalidSetting as error:
    print("REFUSED", error)
spark.stop()
"""


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
    assert {"STORE RocksDBStateStoreProvider", f"ARROW {2**31 - 1}"} <= set(lines)
    assert "LOG set spark.sql.shuffle.partitions to 1, the number of groups of cells" in lines


def test_spark_connect_is_refused_when_the_join_is_made(tmp_path: Path) -> None:
    # Spark Connect has more needs than the join; where they are not met it cannot be called at all.
    pytest.importorskip("grpc_status")
    pytest.importorskip("zstandard")
    refused = [line for line in output_of(CONNECTED, tmp_path) if line.startswith("REFUSED")]
    assert "joins under Spark Connect are not supported" in refused[0]

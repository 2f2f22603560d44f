"""The environment `make setup` leaves behind runs the parts of Spark this library stands on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

# A process of its own: one session serves the other Spark tests, with other settings.
PROGRAM = """
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

class Count(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n long")
    def handleInputRows(self, key, rows, timer_values):
        n = sum(len(frame) for frame in rows)
        self.seen.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [self.seen.get()[0]]})
    def close(self):
        pass

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    .getOrCreate()
)
spark.range(6).selectExpr("id % 2 AS k").write.parquet("in")
counted = (
    spark.readStream.schema("k long").parquet("in").groupBy("k")
    .transformWithStateInPandas(Count(), "k long, n long", "Append", "None")
)
query = (
    counted.writeStream.format("memory").queryName("out").option("checkpointLocation", "state")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
print(sorted(tuple(row) for row in spark.table("out").collect()))
"""


def test_a_stateful_python_operator_runs_in_a_streaming_query(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "[(0, 3), (1, 3)]"

"""A process to be killed: runs one streaming join from wherever its checkpoint stands.

``python -m tests.spark.crash_driver FOLDER [MASTER]`` reads FOLDER/in and writes FOLDER/out; it
creates FOLDER/running when the query has started. FOLDER/case says which join is run
(:mod:`tests.spark.crash_cases`). If a MASTER is given, some tasks that have done all their work
take long to end, so that Spark starts copies of them elsewhere: FOLDER/copies counts these.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.crash_cases import frames_in, next_case_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.task.duration.threshold": "1500ms",
}
STRAGGLES_IN = (3, 9)
"""Batches."""


def straggling(copies: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Lets results through, and holds the first attempt of a task up when they are all out."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        if context.partitionId() == 0 and batch in STRAGGLES_IN:
            if context.attemptNumber() == 0:
                time.sleep(60)
            else:
                (copies / str(batch)).touch()

    return pass_on


def main(folder: Path, master: str | None = None) -> None:
    """Run to the end of the input."""
    from pyspark.sql import SparkSession

    case = next_case_in(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    if master is not None:
        for name, value in SPECULATION.items():
            builder = builder.config(name, value)
    spark = (
        builder.master(master or case.master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    joined = case.joined(frames_in(case, spark, folder), folder)
    if master is not None:
        (folder / "copies").mkdir()
        joined = joined.mapInArrow(straggling(folder / "copies"), joined.schema)
    query = (
        joined.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    (folder / "running").touch()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

"""A process to be killed: runs one streaming join from wherever its checkpoint stands.

``python -m tests.spark.crash_driver FOLDER [MASTER]`` reads FOLDER/in and writes FOLDER/out; it
creates FOLDER/running when the query has started. FOLDER/kind, if it is there, says which kind of
join is run and when its results leave. On a cluster, some tasks that have done all their
work take long to end, so that Spark starts copies of them elsewhere: FOLDER/copies counts these.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tests.spark.recorded import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from recalljoin.query.kinds import Emit, How

WINDOWS = (100, 60)
N_TICKS = 24
SEED = 11


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


def kind_in(folder: Path) -> tuple[How, Emit]:
    """Which kind of join is run in a folder, and when its results leave."""
    if not (folder / "kind").exists():
        return "inner", "ordered"
    how, emit = (folder / "kind").read_text().split()
    return cast("How", how), cast("Emit", emit)


def main(folder: Path, master: str = "local[2]", groups: int = 1) -> None:
    """Run to the end of the input."""
    from pyspark.sql import SparkSession

    import recalljoin as rj

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: SparkSession.Builder = SparkSession.builder
    if groups > 1:
        for name, value in SPECULATION.items():
            builder = builder.config(name, value)
    spark = (
        builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    recording = record(2, N_TICKS, seed=SEED)
    frames = recording.frames(spark, folder / "in")
    how, emit = kind_in(folder)
    joined = rj.join(
        *(rj.Stream(f"s{s + 1}", f, window=WINDOWS[s]) for s, f in enumerate(frames)),
        on="s1.a = s2.a",
        how=how,
        emit=emit,
        recall=0.9,
        period=400,
        interval=50,
        granularity=10,
        cells=2,
        groups=groups,
        control_log=str(folder / "log"),
        flush=True,
    )
    if groups > 1:
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
    if len(sys.argv) > 2:
        main(Path(sys.argv[1]), sys.argv[2], groups=2)
    else:
        main(Path(sys.argv[1]))

"""A process to be killed: runs one streaming join from wherever its checkpoint stands.

``python -m tests.spark.crash_driver FOLDER [MASTER]`` reads FOLDER/in and writes FOLDER/out; it
creates FOLDER/running when the query has started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.recorded import record

WINDOWS = (100, 60)
N_TICKS = 24
SEED = 11


def main(folder: Path, master: str = "local[2]", groups: int = 1) -> None:
    """Run to the end of the input."""
    from pyspark.sql import SparkSession

    import recalljoin.spark as rj

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
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
    joined = rj.join(
        *(rj.stream(f, name=f"s{s + 1}", window=WINDOWS[s]) for s, f in enumerate(frames)),
        on="s1.a = s2.a",
        recall=0.9,
        period=400,
        interval=50,
        granularity=10,
        cells=2,
        groups=groups,
        control_log=str(folder / "log"),
        flush=True,
    )
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

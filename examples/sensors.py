"""Sensors: which vehicles of two fleets came within ten metres of each other.

Positions arrive by radio. Each vehicle sends in order, but one in a tunnel is silent, and hands
in its positions later. There is no equality in the condition, only a distance.

    python examples/sensors.py 2>/dev/null

It takes half a minute; without `2>/dev/null` Spark's warnings and the join's own log lines are
shown as well. Spark's own join of two streams refuses a condition without an equality; the last
line is what it says.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import recalljoin as rj

SECOND = 1_000
BEGIN = 1_700_000_000_000


def make(folder: Path, seconds: int = 60, n_vehicles: int = 40) -> None:
    """Positions of two fleets, four a second and vehicle."""
    rng = np.random.default_rng(3)
    for fleet in ("a", "b"):
        time = np.tile(np.arange(0, seconds * SECOND, 250), n_vehicles)
        vehicle = np.repeat(np.arange(n_vehicles), seconds * 4)
        steps = rng.normal(0, 1.5, (2, n_vehicles, seconds * 4))
        x, y = (rng.uniform(0, 200, (2, n_vehicles, 1)) + steps.cumsum(axis=2)).reshape(2, -1)
        late = rng.exponential(50, len(time))
        for one in range(0, n_vehicles, 10):
            # This vehicle is in a tunnel for five seconds.
            begin = rng.integers(0, (seconds - 5) * SECOND)
            held = (vehicle == one) & (time > begin) & (time < begin + 5 * SECOND)
            late[held] = begin + 5 * SECOND - time[held]
        batch = ((time + late) // (2 * SECOND)).astype(int)
        (folder / fleet).mkdir()
        for number in range(batch.max() + 1):
            (rows,) = np.nonzero(batch == number)
            rows = rows[np.argsort((time + late)[rows], kind="stable")]
            times = pa.array(BEGIN + time[rows]).cast(pa.timestamp("ms", "UTC"))
            columns = {"ts": times, "vehicle": vehicle[rows], "x": x[rows], "y": y[rows]}
            path = folder / fleet / f"{number:03d}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_000_000_000 + number,) * 2)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream that gets one file in each micro-batch."""
    stream = spark.readStream.schema("ts timestamp, vehicle long, x double, y double")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(folder))


def main() -> None:
    """Start Spark, and run the example in a folder that is removed afterwards."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="recalljoin-sensors-") as work:
        make(Path(work))
        run(spark, Path(work))
        spark.stop()


def run(spark: SparkSession, work: Path) -> None:
    """Run the join and print what it found."""
    rj.prepare(spark)
    a, b = read(spark, work / "a"), read(spark, work / "b")
    near = "sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) < 10"

    met = rj.join(
        # Each vehicle is a source: while one is silent, the join may wait for it.
        rj.Stream("a", a, time="ts", window="200 ms", source="vehicle"),
        rj.Stream("b", b, time="ts", window="200 ms", source="vehicle"),
        on=near,
        select="a.vehicle AS one, b.vehicle AS other",
        recall=0.99,
        period="10 seconds",
        control_log=str(work / "log"),
        flush=True,
    )
    query = (
        met.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = pq.read_table(work / "out")
    sorted_a, sorted_b = (spark.read.parquet(str(work / fleet)) for fleet in "ab")
    close = sf.expr(f"abs(unix_millis(a.ts) - unix_millis(b.ts)) <= 200 AND {near}")
    true = sorted_a.alias("a").join(sorted_b.alias("b"), close).count()
    print(f"recalljoin, 99 % asked for: {found.num_rows / true:.2%} of {true} encounters")
    told = rj.open(str(work / "log")).progress().where("held_by IS NOT NULL").collect()
    if told:
        longest = max(told, key=lambda batch: batch["held_for"])
        vehicle, held = longest["held_by"], longest["held_for"].total_seconds()
        print(f"   it waited longest for vehicle {vehicle}, which was {held:.1f} s behind")

    try:
        own = a.alias("a").withWatermark("ts", "1 second")
        own = own.join(b.alias("b").withWatermark("ts", "1 second"), sf.expr(near))
        own.writeStream.format("noop").start().awaitTermination()
    except StreamingQueryException as refusal:
        (reason,) = re.findall("Stream-stream join[^.]*", str(refusal))[:1]
        print(f"Spark's own join: {reason}")


if __name__ == "__main__":
    main()

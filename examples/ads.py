"""Ads: which impressions were clicked within ten minutes, and which were not.

Impressions, clicks and conversions arrive out of order. A left join shows every impression, with
its click if there is one; "no click" must be true, because somebody is paid by it. The click is
then joined with the conversion that follows within an hour: a join of a join.

    python examples/ads.py 2>/dev/null

It takes one or two minutes; without `2>/dev/null` Spark's warnings and the joins' own log lines are
shown as well. Beside it is the same left join as Spark has it, with a delay of its watermark
guessed short and guessed long: short, some nulls are wrong and nobody is told; long, every "no
click" waits for ten minutes more. Spark's own join has fewer nulls in all, because those that wait
when the input ends never leave it; `flush=True` lets out those of recalljoin.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import recalljoin as rj

MINUTE = 60_000
BEGIN = 1_700_000_000_000


def write(
    folder: Path, time: np.ndarray, late: np.ndarray, end: int, **columns: np.ndarray
) -> None:
    """One file for each two minutes of arrival until the end: a micro-batch each."""
    folder.mkdir()
    batch = (time + late) // (2 * MINUTE)
    for number in range(end // (2 * MINUTE)):
        (rows,) = np.nonzero(batch == number)
        times = pa.array(BEGIN + time[rows]).cast(pa.timestamp("ms", "UTC"))
        table = pa.table({"ts": times} | {name: each[rows] for name, each in columns.items()})
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def make(folder: Path, minutes: int = 60, per_minute: int = 500) -> None:
    """Impressions, and what follows them, until the recording ends."""
    rng = np.random.default_rng(1)
    end = minutes * MINUTE
    n = minutes * per_minute
    ids = np.arange(n)
    shown = np.sort(rng.integers(0, end, n))
    clicked = ids[rng.random(n) < 0.3]
    clicks = shown[clicked] + rng.integers(0, 10 * MINUTE, len(clicked))
    bought = rng.random(len(clicked)) < 0.2
    bought_at = clicks[bought] + rng.integers(0, 20 * MINUTE, bought.sum())
    # Phones hand in clicks late: most within seconds, some after minutes.
    late = np.where(rng.random(len(clicked)) < 0.1, rng.exponential(2 * MINUTE, len(clicked)), 500)
    write(folder / "impressions", shown, np.full(n, 200), end, id=ids)
    write(folder / "clicks", clicks, late.astype(int), end, impression_id=clicked)
    later = np.full(len(bought_at), 1000)
    write(folder / "conversions", bought_at, later, end, click_id=clicked[bought])


def read(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A stream that gets one file in each micro-batch."""
    stream = spark.readStream.schema(f"ts timestamp, {schema}")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(folder))


def collect(rows: DataFrame, work: Path) -> pa.Table:
    """Run a query until its input is used up."""
    work.mkdir()
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return pq.read_table(work / "out")


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
    with tempfile.TemporaryDirectory(prefix="recalljoin-ads-") as work:
        make(Path(work))
        run(spark, Path(work))
        spark.stop()


def run(spark: SparkSession, work: Path) -> None:
    """Run the joins and print what they found."""
    rj.prepare(spark)
    impressions = read(spark, work / "impressions", "id long")
    clicks = read(spark, work / "clicks", "impression_id long")
    conversions = read(spark, work / "conversions", "click_id long")

    shown = rj.join(
        rj.Stream("i", impressions, time="ts"),
        rj.Stream("c", clicks, time="ts"),
        # A click within ten minutes after the impression: the windows follow from the condition.
        on="i.id = c.impression_id AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES",
        select="i.id, i.ts AS shown, c.ts AS clicked",
        how="left",
        emit="eager",
        recall=0.95,
        null_precision=0.99,
        control_log=str(work / "log"),
        flush=True,
    )
    rows = collect(shown, work / "ours")
    report("recalljoin, 99 % of the nulls to be true", rows, work)
    waits = sorted(row["k"] for row in rj.open(str(work / "log")).progress().collect())
    median = waits[len(waits) // 2].total_seconds()
    print(f"   it kept nulls back for {median:.0f} s at the median batch; nobody chose that")

    for delay in ("10 seconds", "10 minutes"):
        joined = impressions.withWatermark("ts", delay).join(
            clicks.withColumnRenamed("ts", "clicked").withWatermark("clicked", delay),
            sf.expr("id = impression_id AND clicked BETWEEN ts AND ts + INTERVAL 10 MINUTES"),
            "left",
        )
        rows = collect(joined.select("id", "clicked"), work / f"spark {delay}")
        report(f"Spark's own left join, a delay of {delay}", rows, work)

    clicked = rj.join(
        rj.Stream("i", impressions, time="ts"),
        rj.Stream("c", clicks, time="ts"),
        on="i.id = c.impression_id AND c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES",
        select="i.id, c.ts AS clicked",
        recall=0.95,
        name="clicked",
        control_log=str(work / "log of clicked"),
        flush=True,
    )
    bought = rj.join(
        rj.Stream("c", clicked, time="clicked"),
        rj.Stream("b", conversions, time="ts"),
        on="c.id = b.click_id AND b.ts BETWEEN c.clicked AND c.clicked + INTERVAL 1 HOUR",
        select="c.id, b.ts AS bought",
        recall=0.95,
        name="bought",
        control_log=str(work / "log of bought"),
        flush=True,
    )
    rows = collect(bought, work / "bought")
    came = pq.read_table(work / "conversions").num_rows
    print(f"a join of the join: {len(rows)} of {came} conversions follow a click that was found")


def report(name: str, rows: pa.Table, work: Path) -> None:
    """What a left join has found, and how many of its nulls are wrong."""
    true = set(pq.read_table(work / "clicks")["impression_id"].to_pylist())
    pairs = zip(rows["id"].to_pylist(), rows["clicked"].to_pylist(), strict=True)
    alone = [impression for impression, clicked in pairs if clicked is None]
    wrong = sum(impression in true for impression in alone)
    found = len(rows) - len(alone)
    print(
        f"{name}: {found / len(true):.1%} of the clicks found, "
        f"{wrong} of {len(alone)} nulls wrong ({wrong / max(1, len(alone)):.2%})"
    )


if __name__ == "__main__":
    main()

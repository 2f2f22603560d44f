"""Market data: each trade with the quotes of the same symbol around it, at nearly the same price.

Trades and quotes come over several lines, and now and then a line stands still and hands in
everything later. The join asks for 99 % of the pairs over any ten seconds, and lets each pair out
as soon as it is there (`emit="eager"`): what the recall decides is how long tuples are kept.

    python examples/market.py 2>/dev/null

It takes one or two minutes; without `2>/dev/null` Spark's warnings and the join's own log lines are
shown as well. The last lines are the same join as Spark has it: it also lets pairs out at once, and
keeps tuples for a delay that somebody has guessed. Guessed short, pairs are missing, and nobody is
told how many.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import recalljoin as rj

SECOND = 1_000
BEGIN = 1_700_000_000_000
STANDSTILL = 5 * SECOND


def make(folder: Path, seconds: int = 60, rate: int = 300) -> None:
    """Trades and three times as many quotes, in a file for each two seconds of arrival."""
    rng = np.random.default_rng(2)
    for name, n in (("trades", rate * seconds), ("quotes", 3 * rate * seconds)):
        time = np.sort(rng.integers(0, seconds * SECOND, n))
        late = rng.exponential(20, n)
        # Each of ten lines stands still for five seconds in twenty, then hands in everything.
        line = rng.integers(0, 10, n)
        since = (time + rng.integers(0, 20 * SECOND, 10)[line]) % (20 * SECOND)
        held = since < STANDSTILL
        late[held] = STANDSTILL - since[held]
        symbol = rng.integers(0, 100, n)
        price = np.round(100 + symbol + np.sin(time / 7_000) + rng.normal(0, 0.03, n), 2)
        batch = ((time + late) // (2 * SECOND)).astype(int)
        (folder / name).mkdir()
        for number in range(batch.max() + 1):
            (rows,) = np.nonzero(batch == number)
            times = pa.array(BEGIN + time[rows]).cast(pa.timestamp("ms", "UTC"))
            table = pa.table({"ts": times, "symbol": symbol[rows], "price": price[rows]})
            path = folder / name / f"{number:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_000_000_000 + number,) * 2)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream that gets one file in each micro-batch."""
    stream = spark.readStream.schema("ts timestamp, symbol long, price double")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(folder))


def finish(rows: DataFrame, work: Path) -> tuple[int, int]:
    """Run a query until its input is used up; returns its rows, and the most tuples it kept."""
    work.mkdir()
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    states = (state for batch in query.recentProgress for state in batch["stateOperators"])
    kept = max(state["numRowsTotal"] for state in states)
    return int(pq.read_table(work / "out").num_rows), kept


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
    with tempfile.TemporaryDirectory(prefix="recalljoin-market-") as work:
        make(Path(work))
        run(spark, Path(work))
        spark.stop()


def run(spark: SparkSession, work: Path) -> None:
    """Run both joins and print what they found."""
    rj.prepare(spark)
    trades, quotes = read(spark, work / "trades"), read(spark, work / "quotes")
    true = true_pairs(spark, work)

    joined = rj.join(
        rj.Stream("t", trades, time="ts", window="500 ms"),
        rj.Stream("q", quotes, time="ts", window="500 ms"),
        on="t.symbol = q.symbol AND abs(t.price - q.price) < 0.02",
        select="t.symbol, t.price AS traded, q.price AS quoted",
        emit="eager",
        recall=0.99,
        period="10 seconds",
        control_log=str(work / "log"),
        flush=True,
    )
    n, _ = finish(joined, work / "recalljoin")
    told = rj.open(str(work / "log")).progress().orderBy("batch").collect()
    kept = max(batch["kept"] for batch in told)
    print(f"recalljoin, 99 % asked for: {n / true:.2%} of {true} pairs, at most {kept} tuples kept")
    later = told[len(told) // 3 :]
    print(f"   by its own account {found(told):.2%}: it keeps more tuples, to count what it loses,")
    print(f"   and {found(later):.2%} after the first third, in which it has learnt how to wait")

    for delay in ("100 milliseconds", "10 seconds"):
        q = quotes.withColumnsRenamed({"ts": "quoted_at", "symbol": "of", "price": "quoted"})
        own = trades.withWatermark("ts", delay).join(
            q.withWatermark("quoted_at", delay),
            sf.expr(
                "symbol = of AND abs(price - quoted) < 0.02 AND quoted_at BETWEEN "
                "ts - INTERVAL 500 MILLISECONDS AND ts + INTERVAL 500 MILLISECONDS"
            ),
        )
        n, kept = finish(own, work / f"spark {delay}")
        print(f"Spark's own join, a delay of {delay}: {n / true:.2%}, at most {kept} tuples kept")


def found(batches: list[Row]) -> float:
    """The share of the pairs that were produced, as the join has counted them."""
    produced = sum(batch["produced"] for batch in batches)
    lost = sum(batch["lost"] for batch in batches)
    return float(produced / max(1, produced + lost))


def true_pairs(spark: SparkSession, work: Path) -> int:
    """The pairs of the sorted data."""
    trades, quotes = (spark.read.parquet(str(work / name)) for name in ("trades", "quotes"))
    near = sf.expr(
        "t.symbol = q.symbol AND abs(t.price - q.price) < 0.02 AND q.ts BETWEEN "
        "t.ts - INTERVAL 500 MILLISECONDS AND t.ts + INTERVAL 500 MILLISECONDS"
    )
    return trades.alias("t").join(quotes.alias("q"), near).count()


if __name__ == "__main__":
    main()

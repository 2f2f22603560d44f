"""Market data: each trade with the quotes of the same symbol around it, at nearly the same price.

Trades and quotes come over different lines, and quotes now and then in bursts. The join asks for
99 % of the pairs over ten seconds, and lets each pair out as soon as it is there (`emit="eager"`):
what the recall decides is how long tuples are kept.

    python examples/market.py

The last lines show the same join as Spark has it: it also lets pairs out at once, and keeps tuples
for a delay that somebody has guessed.
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

SECOND = 1_000
BEGIN = 1_700_000_000_000
SECONDS = 60


def make(folder: Path, rate: int = 400) -> None:
    """A minute of trades and quotes, in a file for each two seconds of arrival."""
    rng = np.random.default_rng(2)
    for name, n in (("trades", rate * SECONDS), ("quotes", 3 * rate * SECONDS)):
        time = np.sort(rng.integers(0, SECONDS * SECOND, n))
        late = rng.exponential(20, n)
        for begin in rng.integers(0, SECONDS * SECOND, 4):
            # A line that stands still for two seconds hands in everything at once.
            held = (time > begin) & (time < begin + 2 * SECOND) & (rng.random(n) < 0.3)
            late[held] = np.maximum(late[held], begin + 2 * SECOND - time[held])
        symbol = rng.integers(0, 50, n)
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


def count(rows: DataFrame, work: Path) -> int:
    """Run a query until its input is used up, and count its rows."""
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return int(pq.read_table(work / "out").num_rows)


def main() -> None:
    """Run both joins and print what they found."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rj.prepare(spark)
    work = Path(tempfile.mkdtemp(prefix="recalljoin-market-"))
    make(work)
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
    n = count(joined, work / "ours")
    print(f"recalljoin, 99 % asked for: {n / true:.2%} of {true} pairs")
    last = rj.open(str(work / "log")).progress().orderBy("batch").collect()[-1]
    print(f"   by its own account {last['recall']:.2%} over the last ten seconds")

    for delay in ("100 milliseconds", "10 seconds"):
        q = quotes.withColumnsRenamed({"ts": "quoted_at", "symbol": "of", "price": "quoted"})
        own = trades.withWatermark("ts", delay).join(
            q.withWatermark("quoted_at", delay),
            sf.expr(
                "symbol = of AND abs(price - quoted) < 0.02 AND quoted_at BETWEEN "
                "ts - INTERVAL 500 MILLISECONDS AND ts + INTERVAL 500 MILLISECONDS"
            ),
        )
        folder = work / f"spark {delay}"
        folder.mkdir()
        n = count(own, folder)
        print(f"Spark's own join, watermark delay of {delay}: {n / true:.2%}")
    spark.stop()


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

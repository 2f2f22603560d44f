"""Wrong nulls and waits: ``python -m benchmarks.null_precision [--seeds 10] [--spark 3]``.

A left join of orders with their payments, in ticks of a second. A fifth of the orders is never
paid, payments come up to three minutes late, and now and then their source stalls for 15 seconds.
The wait is chosen for a precision, or guessed; ``--spark`` gives the guesses to Spark's own left
outer join as delays of its watermark, too, for so many seeds, in micro-batches of five seconds.
Rows of the first three periods do not count, but in one row.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Report
from benchmarks.spark_systems import session
from recalljoin.engine.arrivals import arrivals_of, ticks_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000
BATCH = 5_000
LATER = 1_600_000_000_000
QUERY = "SELECT count(*) FROM o [10 SEC] LEFT JOIN p [0 SEC] ON o.id = p.order_id"
ASKED = (0.9, 0.95, 0.99)
GUESSED = (5_000, 30_000, 180_000)


def orders_and_payments(seed: int, n: int = 12_000) -> dict[str, pa.Table]:
    """Ten minutes of orders, and their payments."""
    rng = np.random.default_rng(seed)
    ordered = np.cumsum(rng.exponential(50, n)).astype(np.int64)
    paid = np.flatnonzero(rng.random(n) < 0.8)
    at = ordered[paid] + rng.integers(0, 10_000, len(paid))
    long = np.minimum(rng.exponential(20_000, len(paid)), 3 * MINUTE)
    late = np.where(rng.random(len(paid)) < 0.05, long, rng.exponential(300, len(paid)))
    for begin in rng.integers(0, ordered[-1], 8):
        stalled = (at > begin) & (at < begin + 15_000)
        late[stalled] = np.maximum(late[stalled], begin + 15_000 - at[stalled])
    orders = pa.table({"ts": ordered, "arrival": ordered + 50, "id": np.arange(n)})
    payments = {"ts": at, "arrival": at + 50 + late.astype(np.int64), "order_id": paid}
    return {"o": orders, "p": pa.table(payments).sort_by("arrival")}


def run(
    seed: int, *, precision: float | None = None, k: int = 0, after: int = 3
) -> tuple[float, float]:
    """Share of wrong nulls, and the mean wait in milliseconds, after some minutes."""
    tables = orders_and_payments(seed)
    target = f" WITH RECALL 0.9 NULL PRECISION {precision or 0.9} OVER 1 MINUTE"
    stated = parse_query(QUERY + target, arrival="arrival")
    query = stated.bind({name: table.schema for name, table in tables.items()})
    arrivals, settings = arrivals_of(query, tables), PolicySettings.of(query)
    tick = ticks_of(arrivals, 1000)
    slack = np.full(int(tick[-1]) + 1, k)
    if precision is not None:
        policy = make_policy("slack", settings)
        options: dict[str, Any] = {"arrival": "tick", "tick": 1000}
        slack = run_adaptive(query, arrivals, policy, settings, **options).schedule.expanded()
    # Everything is remembered, so that every wrong null is known.
    engine = EngineSettings(arrival="tick", rows=False, retention=10 * MINUTE)
    pipeline = Pipeline(query, engine)
    steps = [pipeline.push_ticks(arrivals, tick, n_ticks=len(slack), k=slack), pipeline.flush()]
    told = [drain(step)[1].told for step in steps]
    begin = int(tables["o"]["ts"][0].as_py()) + after * MINUTE
    nulls, wrong = (
        sum(int((getattr(each, name) > begin).sum()) for each in told)
        for name in ("nulls", "false_nulls")
    )
    return wrong / nulls, float(slack[60 * after :].mean())


def sparks_own(spark: SparkSession, seed: int, delay: int, folder: Path) -> float:
    """Share of wrong nulls of Spark's own left outer join, after three minutes."""
    from pyspark.sql import functions as sf

    tables = orders_and_payments(seed)
    n_batches = 1 + max(int(t["arrival"].to_numpy().max()) for t in tables.values()) // BATCH
    work = Path(tempfile.mkdtemp(dir=folder))
    frames = {}
    for name, table in tables.items():
        (work / name).mkdir()
        batch = table["arrival"].to_numpy() // BATCH
        # Not from 1970 on: Spark's first watermark lies there, and what is not after it is late.
        times = pa.array(table["ts"].to_numpy() + LATER).cast(pa.timestamp("ms", "UTC"))
        timed = table.set_column(0, f"{name}_ts", times).drop_columns("arrival")
        for number in range(n_batches):
            path = work / name / f"{number:05d}.parquet"
            pq.write_table(timed.filter(pa.array(batch == number)), path)
            os.utime(path, (1_000_000_000 + number,) * 2)
        read = spark.readStream.schema(spark.read.parquet(str(work / name)).schema)
        frame = read.option("maxFilesPerTrigger", 1).parquet(str(work / name))
        frames[name] = frame.withWatermark(f"{name}_ts", f"{delay} milliseconds")
    joined = frames["o"].join(
        frames["p"],
        sf.expr("id = order_id AND p_ts BETWEEN o_ts AND o_ts + INTERVAL 10 SECONDS"),
        "left",
    )
    query = (
        joined.filter("p_ts IS NULL")
        .select("id", "o_ts")
        .writeStream.format("parquet")
        .option("path", str(work / "nulls"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = pq.read_table(work / "nulls").to_pydict()
    begin = int(tables["o"]["ts"][0].as_py()) + LATER + 3 * MINUTE
    paid = set(tables["p"]["order_id"].to_pylist())
    nulls = [
        order
        for order, at in zip(rows["id"], rows["o_ts"], strict=True)
        if at.timestamp() * 1000 > begin
    ]
    return sum(order in paid for order in nulls) / len(nulls)


@click.command()
@click.option("--seeds", default=10, show_default=True)
@click.option("--spark", "spark_seeds", default=0, show_default=True)
def main(seeds: int, spark_seeds: int) -> None:
    """Print the table."""
    report = Report(
        f"Orders without a payment: wrong ones and the wait ({seeds} seeds)",
        ("wait", "wrong, mean (%)", "wrong, worst seed (%)", "mean wait (s)"),
    )
    waits: list[tuple[str, dict[str, Any]]] = [
        *((f"for a precision of {p:g}", {"precision": p}) for p in ASKED),
        (f"{ASKED[-1]:g}, from the start", {"precision": ASKED[-1], "after": 0}),
        *((f"guessed, {k // 1000} s", {"k": k}) for k in GUESSED),
    ]
    for name, options in waits:
        wrong, wait = np.array([run(seed, **options) for seed in range(seeds)]).T
        report.add(
            name,
            f"{100 * wrong.mean():.2f}",
            f"{100 * wrong.max():.2f}",
            f"{wait.mean() / 1000:.0f}",
        )
    if not spark_seeds:
        return
    spark = session("spark-hdfs", 2)
    with tempfile.TemporaryDirectory() as folder:
        for k in GUESSED:
            shares = [sparks_own(spark, seed, k, Path(folder)) for seed in range(spark_seeds)]
            report.add(
                f"Spark's own join, {k // 1000} s ({spark_seeds} seeds)",
                f"{100 * np.mean(shares):.2f}",
                f"{100 * max(shares):.2f}",
                f"{k // 1000}",
            )
    spark.stop()


if __name__ == "__main__":
    main()

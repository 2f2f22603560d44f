"""A small join as it would run in production: streams that arrive as files, a recall to reach.

Orders and their payments come out of order. A streaming query joins them and can be watched
meanwhile; then other policies are run over the same arrivals, for comparison.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recalljoin.experiments.evaluation import open_recording
from recalljoin.experiments.setup import Setup
from recalljoin.query.model import Stream
from recalljoin.spark.api import join
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.progress import progress_table
from recalljoin.spark.session import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from recalljoin.quality.record import RunRecord

CONDITION = "o.id = p.order_id AND abs(o.amount - p.amount) < 1"
COLUMNS = "o.id, o.amount, p.amount AS paid, p.ts - o.ts AS took"
WINDOW = "5 seconds"
QUERY = f"SELECT {COLUMNS}\nFROM o [5 SEC], p [5 SEC]\nWHERE {CONDITION}"
PERIOD = "30 seconds"
BATCH_MS = 5_000
"""Length of a micro-batch, in milliseconds of arrival time."""
POLICIES = {
    "slack": "what periods so far have needed",
    "noneqsel": "the paper's model",
    "max": "the largest delay so far (Max-K-slack)",
    "none": "no wait (No-K-slack)",
}


def disordered_orders(minutes: float, seed: int) -> dict[str, pa.Table]:
    """Orders and their payments, 100 a second each, some up to 16 s late.

    A row that could not be sent is sent again after 1, 2, 4, 8 or 16 seconds. In the middle third
    of the time this happens to more of the orders.
    """
    rng = np.random.default_rng(seed)
    n = int(minutes * 6000)
    length = int(minutes * 60_000)
    ordered = np.sort(rng.integers(0, length, n))
    paid = ordered + rng.exponential(800, n).astype(np.int64)
    ids = np.array([f"order-{number:06d}" for number in range(n)])
    amount = rng.uniform(5, 50, n).round(2)
    trouble = (ordered > length / 3) & (ordered < 2 * length / 3)

    def table(
        ts: NDArray[np.int64], sent_at_once: NDArray[np.float64], columns: Mapping[str, object]
    ) -> pa.Table:
        again = np.minimum(rng.geometric(0.5, n) - 1, 4)
        delay = np.where(rng.random(n) < sent_at_once, 0, 1000 * 2**again)
        made = pa.table({"arrival": ts + delay + rng.integers(0, 20, n), "ts": ts, **columns})
        return made.sort_by("arrival")

    return {
        "o": table(ordered, np.where(trouble, 0.6, 0.8), {"id": ids, "amount": amount}),
        "p": table(paid, np.full(n, 0.8), {"order_id": ids, "amount": amount}),
    }


@dataclass(frozen=True)
class Look:
    """What a look at the running join shows."""

    batch: int
    k_ms: int
    recall: float | None
    produced: int
    lost: int
    late: int
    arrived: int


class LiveJoin:
    """The streams as files in a folder, and a streaming query over them.

    Parameters
    ----------
    spark
        The session that runs the query.
    tables
        The tuples of each stream, in order of arrival.
    folder
        For the files, the checkpoint and the control log; must be new.
    recall
        The share of true results to produce.
    """

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, pa.Table], folder: Path, *, recall: float
    ) -> None:
        self.spark = spark
        self.tables = tables
        self.folder = folder
        self.recall = recall
        self.control_log = folder / "control"
        self.n_batches = _write_arrivals(tables, folder / "arrivals")
        self._query: StreamingQuery | None = None

    def start(self) -> StreamingQuery:
        """Start the query; it ends when all files have been joined."""
        prepare(self.spark)
        joined = join(
            *(Stream(name, self._frame(name), time="ts", window=WINDOW) for name in self.tables),
            on=CONDITION,
            select=COLUMNS,
            recall=self.recall,
            period=PERIOD,
            control_log=str(self.control_log),
            flush=True,
        )
        self._query = (
            joined.writeStream.format("memory")
            .queryName("recalljoin_demo")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        return self._query

    def looks(self, *, every: float = 0.25) -> Iterator[list[Look]]:
        """All batches done so far, yielded again and again until the query has ended."""
        assert self._query is not None, "it has not been started"
        running = True
        while running:
            time.sleep(every)
            # The query's state is asked before the look, so that the last look is after its end.
            running = self._query.isActive
            yield self._look()
        # This raises the query's error if the query has failed.
        self._query.awaitTermination()

    def results(self, n: int) -> list[dict[str, object]]:
        """The first results, by their time."""
        first = self.spark.table("recalljoin_demo").orderBy("result_time").limit(n)
        return [row.asDict() for row in first.collect()]

    def compare(self) -> dict[str, RunRecord]:
        """The policies of :data:`POLICIES` over the same arrivals, tuple by tuple."""
        paths = {}
        for name, table in self.tables.items():
            paths[name] = self.folder / f"{name}.parquet"
            pq.write_table(table, paths[name])
        recording = open_recording(self.spark, QUERY, paths, keep=True)
        return {
            policy: recording.evaluate(Setup(policy=policy, recall=self.recall, period=PERIOD))
            for policy in POLICIES
        }

    def _frame(self, name: str) -> DataFrame:
        return (
            self.spark.readStream.schema(
                self.spark.createDataFrame(self.tables[name].slice(0, 1)).schema
            )
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / "arrivals" / name))
        )

    def _look(self) -> list[Look]:
        rows = progress_table(ControlLog(str(self.control_log))).to_pylist()
        return [
            Look(
                batch=row["batch"],
                k_ms=row["k"] / timedelta(milliseconds=1),
                recall=row["recall"],
                produced=row["total_produced"],
                lost=row["total_lost"],
                late=row["total_late"],
                arrived=row["total_arrived"],
            )
            for row in rows
        ]


def _write_arrivals(tables: Mapping[str, pa.Table], folder: Path) -> int:
    """Write a file for each stream and micro-batch; returns the number of micro-batches."""
    n_batches = 0
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        batch = table["arrival"].to_numpy() // BATCH_MS
        ends = np.searchsorted(batch, np.arange(int(batch[-1]) + 1), side="right")
        for number, end in enumerate(ends):
            begin = int(ends[number - 1]) if number else 0
            path = folder / name / f"{number:05d}.parquet"
            pq.write_table(table.slice(begin, int(end) - begin), path)
            # Spark takes files in the order of their times; the file system's clock may be too
            # coarse, so the times are set here.
            os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
        n_batches = max(n_batches, len(ends))
    return n_batches

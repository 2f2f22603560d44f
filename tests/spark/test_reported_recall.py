"""What a streaming query reports of its recall, where delays are longer than period and horizon."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "at": pa.int64()})
TICK = 5000


def stream(seed: int, length: int, *, late: float = 0.0, by: int = 0) -> pa.Table:
    """A tuple every 20 ms, a share of them late by some time; ``at`` is when they arrive."""
    random = np.random.default_rng(seed)
    ts = np.arange(0, length, 20)
    at = ts + np.where(random.random(len(ts)) < late, by, 0)
    return pa.table({"ts": ts, "a": random.integers(0, 4, len(ts)), "at": at}, schema=SCHEMA)


def frame(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    """A stream that hands out five seconds of arrivals a batch."""
    folder.mkdir(parents=True)
    at = table["at"].to_numpy()
    for tick in range(int(at.max()) // TICK + 1):
        path = folder / f"{tick:04d}.parquet"
        pq.write_table(table.filter(pa.array(at // TICK == tick)), path)
        os.utime(path, (1_000_000_000 + tick, 1_000_000_000 + tick))
    reader = spark.readStream.schema("ts bigint, a bigint, at bigint")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(spark: SparkSession, folder: Path, tables: list[pa.Table], **more: Any) -> StreamingQuery:
    import recalljoin as rj

    frames = [frame(spark, folder / f"s{s}", table) for s, table in enumerate(tables)]
    arrival = "at" if more.get("arrival") == "tuple" else None
    joined = rj.join(
        *(rj.Stream(f"s{s}", f, window="1 s", arrival=arrival) for s, f in enumerate(frames)),
        on="s0.a = s1.a",
        recall=0.95,
        period="10 seconds",
        policy="none",
        control_log=str(folder / "log"),
        **more,
    )
    query = (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def progress(folder: Path) -> list[Any]:
    import recalljoin as rj

    return rj.open(str(folder / "log")).progress().orderBy("batch").collect()


@pytest.mark.parametrize("arrival", ["tick", "tuple"])
def test_half_of_a_stream_that_is_later_than_the_period_halves_the_recall(
    spark: SparkSession, tmp_path: Path, arrival: str
) -> None:
    tables = [stream(1, 100_000, late=0.5, by=30_000), stream(2, 100_000)]
    cells = 1 if arrival == "tuple" else 2
    query = run(spark, tmp_path, tables, arrival=arrival, cells=cells)
    rows = progress(tmp_path)
    at_end = [row for row in rows if 80_000 < (row["watermark"] or 0) < 100_000]
    assert len(at_end) >= 3
    for row in at_end:
        assert row["recall"] == pytest.approx(0.5, abs=0.1)
        assert row["recall_at_least"] <= row["recall"] <= row["recall_at_most"]
        assert 37.5 <= row["horizon"].total_seconds() <= 45
        assert not row["horizon_limited"]
    # Of the first tuples that were too late, the partners had been forgotten.
    assert 0 < sum(row["beyond"] for row in rows) < 700
    # What is settled knows all of that.
    settled = [row["recall_settled"] for row in rows if 12_000 < (row["watermark"] or 0) < 55_000]
    assert len(settled) >= 7
    assert settled == pytest.approx([0.47] * len(settled), abs=0.06)
    assert rows[-1]["recall_settled"] is None
    observed = query.recentProgress[-1]["observedMetrics"]["recalljoin"]
    assert observed["recall"] == pytest.approx(0.5, abs=0.1)


def test_files_read_once_more_are_never_shown_as_complete(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = []
    for seed in (1, 2):
        once = stream(seed, 40_000)
        again = once.set_column(2, "at", pa.array(once["at"].to_numpy() + 40_000))
        tables.append(pa.concat_tables([once, again]))
    run(spark, tmp_path, tables, cells=2, flush=True, horizon_memory="1 kB")
    rows = progress(tmp_path)
    assert any(row["horizon_limited"] for row in rows)
    assert sum(row["beyond"] for row in rows) > 3000
    # Of each member there are two in the end, and of each result four.
    settled = [row["recall_settled"] for row in rows if row["recall_settled"] is not None]
    assert len(settled) >= 8
    assert settled == pytest.approx([0.25] * len(settled), abs=0.05)
    last = [row for row in rows if row["recall"] is not None][-1]
    assert last["recall"] == pytest.approx(0.25, abs=0.1)
    assert last["recall_at_least"] <= 0.25

"""A real query that finds its hot key, spreads it, and goes on with it after a restart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recalljoin.spark.control_log import ControlLog
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PER_TICK, WINDOW = 800, 3


def tick(s: int, number: int) -> pa.Table:
    """Tuples in order, three of four with one key."""
    random = np.random.default_rng([s, number])
    ts = number * 100 + np.sort(random.integers(0, 100, PER_TICK))
    keys = np.where(random.random(PER_TICK) < 0.75, 7, random.integers(100, 200, PER_TICK))
    return pa.table({"ts": ts, "key": keys, "n": np.arange(PER_TICK) + number * PER_TICK})


def write(folder: Path, ticks: range) -> None:
    for s in range(2):
        (folder / f"s{s}").mkdir(parents=True, exist_ok=True)
        for number in ticks:
            path = folder / f"s{s}" / f"{number:04d}.parquet"
            pq.write_table(tick(s, number), path)
            os.utime(path, (10**9 + number, 10**9 + number))


def joined(spark: SparkSession, folder: Path, inputs: Path, **more: Any) -> DataFrame:
    import recalljoin as rj

    frames = [
        spark.readStream.schema("ts bigint, key bigint, n bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(inputs / f"s{s}"))
        for s in range(2)
    ]
    return rj.join(
        rj.Stream("l", frames[0], window=WINDOW),
        rj.Stream("r", frames[1], window=WINDOW),
        on="l.key = r.key",
        select="l.n AS l, r.n AS r",
        k=0,
        cells=4,
        control_log=str(folder / "log"),
        **more,
    )


def pairs(folder: Path) -> list[tuple[int, int]]:
    table = pq.read_table(folder / "out", columns=["l", "r"])
    return sorted(zip(table["l"].to_pylist(), table["r"].to_pylist(), strict=True))


def true_pairs(n_ticks: int) -> list[tuple[int, int]]:
    left, right = (pa.concat_tables([tick(s, i) for i in range(n_ticks)]) for s in range(2))
    found = []
    ts, keys = (right[name].to_numpy() for name in ("ts", "key"))
    for t, key, n in zip(*(left[name].to_numpy() for name in ("ts", "key", "n")), strict=True):
        begin, end = np.searchsorted(ts, [t - WINDOW, t + WINDOW + 1])
        found += [(int(n), int(begin + i)) for i in np.flatnonzero(keys[begin:end] == key)]
    return sorted(found)


def test_a_hot_key_is_found_and_spread_and_still_so_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    write(tmp_path / "in", range(7))
    run(joined(spark, tmp_path, tmp_path / "in"), tmp_path)
    version = ControlLog(str(tmp_path / "log")).read_versions()[-1]
    assert len(version.hot.keys[0]) == 1
    write(tmp_path / "in", range(7, 9))
    run(joined(spark, tmp_path, tmp_path / "in", hot_keys="off", flush=True), tmp_path)
    assert pairs(tmp_path) == true_pairs(9)
    progress = {row["batch"]: row for row in rj.open(str(tmp_path / "log")).progress().collect()}
    spread = [row for n, row in progress.items() if row["arrived"] and n >= version.since]
    alone = [row for n, row in progress.items() if row["arrived"] and n < version.since]
    assert len(spread) > 2
    assert len(alone) > 1
    # With 4 cells, one that does everything does 4 times its share.
    assert min(row["busiest"] for row in alone) > 2.5
    assert max(row["busiest"] for row in spread) < 1.5
    assert max(row["replication"] for row in alone) == 1.0
    assert min(row["replication"] for row in spread) > 1.5

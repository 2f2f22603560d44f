"""A real query that is stopped, and finds many files at once when it starts again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.spark.live import MINUTE, SECOND, both
from tests.spark.test_streaming_query import run, slacks_used

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BATCH = 5 * SECOND
PERIOD = 20 * SECOND


def test_a_backlog_in_one_batch_does_not_end_the_wait(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    feeds = both(1, 5 * MINUTE, mean=4 * SECOND)

    def write(begin: int, end: int) -> None:
        for s, feed in enumerate(feeds):
            (tmp_path / f"s{s}").mkdir(exist_ok=True)
            for at in range(begin, end, BATCH):
                path = tmp_path / f"s{s}" / f"{at:08d}.parquet"
                pq.write_table(feed.between(at, at + BATCH), path)
                os.utime(path, (10**9 + at // BATCH, 10**9 + at // BATCH))

    def joined(files: int) -> DataFrame:
        reader = spark.readStream.schema("ts bigint, a bigint").option("maxFilesPerTrigger", files)
        streams = [
            rj.Stream(f"s{s}", reader.parquet(str(tmp_path / f"s{s}")), window="1 s")
            for s in range(2)
        ]
        return rj.join(
            *streams,
            on="s0.a = s1.a",
            select="s0.ts AS one",
            recall=0.95,
            period=PERIOD,
            cells=2,
            control_log=str(tmp_path / "log"),
        )

    write(0, 100 * SECOND)
    run(joined(1), tmp_path)
    before = slacks_used(tmp_path)[-1]
    assert before > SECOND
    # Three minutes come at once, and then one batch after another again.
    write(100 * SECOND, 280 * SECOND)
    run(joined(1000), tmp_path)
    write(280 * SECOND, 300 * SECOND)
    n_before = len(slacks_used(tmp_path))
    run(joined(1), tmp_path)
    after = slacks_used(tmp_path)[n_before:]
    assert len(after) >= 4
    assert min(after) >= before / 2

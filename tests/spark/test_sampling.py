"""Recording the first minutes of live streams."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import recalljoin as rj

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def files_of(spark: SparkSession, folder: Path, first: int) -> DataFrame:
    """A stream of files, one a batch, with some rows late."""
    for number in range(3):
        ts = [1000 * number + at for at in (0, 400, 800, 100)]
        frame = spark.createDataFrame([(first + t, t % 2) for t in ts], "ts bigint, x int")
        frame.coalesce(1).write.mode("append").parquet(str(folder))
    reader = spark.readStream.schema("ts bigint, x int").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def test_live_streams_can_be_sampled_and_advised_on(spark: SparkSession, tmp_path: Path) -> None:
    frames = {name: files_of(spark, tmp_path / name, first) for name, first in (("a", 0), ("b", 5))}
    tables = rj.sample(frames, duration="15 seconds")
    assert {name: table.num_rows for name, table in tables.items()} == {"a": 12, "b": 12}
    assert pa.types.is_timestamp(tables["a"].schema.field("arrival").type)
    advice = rj.advise(
        "SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x", tables, arrival="arrival"
    )
    assert advice.n_tuples == 24
    assert advice.n_results > 0


def test_what_does_not_stream_or_has_arrivals_already_is_refused(spark: SparkSession) -> None:
    with pytest.raises(rj.InvalidSetting, match=re.escape("`a` does not stream; call toArrow()")):
        rj.sample({"a": spark.range(3).toDF("ts")})
    rate = spark.readStream.format("rate").load().withColumnRenamed("value", "arrival")
    with pytest.raises(rj.InvalidSetting, match="`r` has a column `arrival` already"):
        rj.sample({"r": rate})

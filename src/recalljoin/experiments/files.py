"""Recorded streams from files, read by Spark: one file of each stream, or a folder of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from recalljoin.errors import DatasetError
from recalljoin.query.sources import CSV, JSON_LINES, existing, first_file, kind_of, separator_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

FILE, START = "__file", "__start"
"""Columns with the file of a row, and where in the file the piece begins that the row was read in.
"""

_NANOS_AS_INTEGERS = "spark.sql.legacy.parquet.nanosAsLong"


def read_frame(spark: SparkSession, path: str | Path) -> DataFrame:
    """The rows of a file or folder, with :data:`FILE` and :data:`START` beside their columns.

    Files whose names end in ``.csv`` or ``.tsv`` have a header line; those that end in ``.jsonl``,
    ``.ndjson`` or ``.json`` have an object on each line; the types of both are inferred, and both
    may end in ``.gz``. All others are Parquet.

    Raises
    ------
    DatasetError
        When there is no such file, or it is not what the end of its name says.
    """
    name = str(path)
    is_local = "://" not in name
    if is_local:
        name = existing(path)
    kind = kind_of(first_file(name) if is_local else name)
    try:
        if kind == JSON_LINES:
            frame = spark.read.option("inferTimestamp", "true").json(name)
            columns = [sf.col(_quoted(column)) for column in frame.columns]
        elif kind == CSV:
            separator = separator_of(first_file(name))
            frame = spark.read.csv(
                name, header=True, inferSchema=True, sep=separator, enforceSchema=False
            )
            columns = [sf.col(_quoted(column)) for column in frame.columns]
        else:
            frame, columns = _read_parquet(spark, name, is_local=is_local)
        return frame.select(
            *columns,
            sf.col("_metadata.file_path").alias(FILE),
            sf.col("_metadata.file_block_start").alias(START),
        )
    except (PySparkException, pa.ArrowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        message = f"{str(path)!r} cannot be read as {kind}: {reason}"
        raise DatasetError(message) from error


def _read_parquet(
    spark: SparkSession, name: str, *, is_local: bool
) -> tuple[DataFrame, list[Column]]:
    nanos: set[str] = set()
    if is_local:
        schema = pq.read_schema(first_file(name))
        nanos = {field.name for field in schema if field.type in (_NS, _NS_UTC)}
    if not nanos:
        frame = spark.read.parquet(name)
        return frame, [sf.col(_quoted(column)) for column in frame.columns]
    # Pandas writes times in nanoseconds. Spark has no such type, but can read them as integers.
    before = spark.conf.get(_NANOS_AS_INTEGERS)
    spark.conf.set(_NANOS_AS_INTEGERS, "true")
    try:
        frame = spark.read.parquet(name)
        frame.schema  # noqa: B018 - read now, under this setting
    finally:
        spark.conf.set(_NANOS_AS_INTEGERS, str(before))
    columns = []
    for column in frame.columns:
        value = sf.col(_quoted(column))
        # Arrow calls the times that Spark writes nanoseconds as well; Spark reads these as times.
        if column in nanos and isinstance(frame.schema[column].dataType, LongType):
            value = sf.timestamp_micros(sf.floor(value / 1000)).alias(column)
        columns.append(value)
    return frame, columns


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


_NS, _NS_UTC = pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")

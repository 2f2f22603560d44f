"""Partitions of Kafka's topics, followed although no query names them.

Kafka keeps the order of a partition, and of nothing else. While all is well a partition announces
nothing, and is not waited for. After a stop, partitions of a backlog are read at speeds of their
own and run apart by minutes: then the join waits for the slowest of them.

A query that names a source is left as it is, and so is a checkpoint that began without partitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType

from recalljoin.query.bound_query import PARTITION
from recalljoin.spark.source_parcels import follows_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from recalljoin.query.bound_query import BoundQuery


def follow_partitions(
    bound: BoundQuery, frames: Mapping[str, DataFrame]
) -> tuple[BoundQuery, dict[str, DataFrame]]:
    """The query with partitions as sources wherever messages tell them, and the DataFrames."""
    if follows_sources(bound):
        return bound, dict(frames)
    told = {name: _with_partition(frame) for name, frame in frames.items()}
    streams = tuple(
        replace(each, source=PARTITION) if PARTITION in told[each.name].schema.names else each
        for each in bound.streams
    )
    return replace(bound, streams=streams), told


def follows_partitions(bound: BoundQuery) -> bool:
    """Whether the sources of a query are partitions that it does not name."""
    return any(stream.source == PARTITION for stream in bound.streams)


def partition() -> Column:
    """Topic and partition of a message, as a text that people can read."""
    return sf.concat_ws("-", "topic", "partition")


def _with_partition(frame: DataFrame) -> DataFrame:
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    is_kafka = kinds.get("topic") == StringType() and kinds.get("partition") == IntegerType()
    return frame.withColumn(PARTITION, partition()) if is_kafka else frame

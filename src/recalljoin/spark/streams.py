"""A DataFrame as one stream of a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from recalljoin.query import DurationLike, Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class FrameStream:
    """A DataFrame and what the query says about it; made by :func:`stream`."""

    frame: DataFrame
    declared: Stream


def stream(
    frame: DataFrame,
    *,
    name: str,
    time: str = "ts",
    window: DurationLike = "5 seconds",
    arrival: str | None = None,
) -> FrameStream:
    """A DataFrame as one input of :func:`~recalljoin.spark.join`.

    Parameters
    ----------
    frame
        Streaming, or not if ``arrival`` is given.
    name
        What the condition calls it.
    time
        Column with the event time: a timestamp, or an integer.
    window
        Size of its sliding window: text such as ``"5 seconds"``, whole milliseconds, or a
        timedelta.
    arrival
        Of a DataFrame that is not streaming: column that says when each row arrived.
    """
    return FrameStream(frame, Stream(name, time=time, window=window, arrival=arrival))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema in which Spark hands over a DataFrame's rows."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    schema = to_arrow_schema(frame.schema, timezone=zone)
    return pa.schema([field.remove_metadata() for field in schema])

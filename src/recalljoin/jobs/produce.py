"""Replays recorded streams into the sources of a job, at the pace and in the order they arrived.

Rows are written through Spark, with the options that the job itself reads with: one small job for
all rows that are due. Spark's writer sends the rows of a stream in their order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import functions as sf

from recalljoin.engine.times import PER_SECOND, times_of
from recalljoin.errors import DatasetError
from recalljoin.jobs.decoding import encoded
from recalljoin.jobs.topics import Topics
from recalljoin.query.durations import MAX_TIME, finest
from recalljoin.query.role_columns import column_faults
from recalljoin.query.spelling import listed, way_out
from recalljoin.spark.columns import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.engine.arrays import Int64s
    from recalljoin.jobs.model import Job, JobStream
    from recalljoin.query.durations import TimeUnit

_STEP: Final = 0.25
"""Shortest time between two writes, in seconds."""
_ROWS_AT_ONCE: Final = 50_000
"""Rows of all streams that one write takes at most."""


@dataclass(frozen=True)
class Recorded:
    """The rows of one stream in the order of their arrival."""

    rows: pa.Table
    """With the columns of the stream alone."""
    arrival: Int64s
    """In milliseconds; never decreases."""


def recorded(
    name: str, stream: JobStream, table: pa.Table, *, arrival: str, time_unit: TimeUnit
) -> Recorded:
    """A recording as the rows of a stream.

    Parameters
    ----------
    name, stream
        The stream of the job.
    table
        The recording.
    arrival
        Column that says when a row arrived. If the recording has no such column, rows arrive in
        their order, as soon as the event time of a row before them has been reached.
    time_unit
        Unit of integer times and arrivals.

    Raises
    ------
    DatasetError
        When the recording lacks a column of the stream, or has it in another type.
    """
    needed = table.schema if stream.schema is None else stream.schema
    faults = [f"the recording of {fault}" for fault in column_faults(name, table.schema)]
    faults += [
        f"the recording of stream `{name}` has no column `{field.name}`; "
        + way_out(field.name, table.column_names, known_as="columns")
        for field in needed
        if field.name not in table.column_names
    ]
    if faults:
        raise DatasetError("; ".join(faults))
    clock = arrival if arrival in table.column_names else stream.time
    if clock not in table.column_names:
        message = f"the recording of stream `{name}` has neither `{arrival}` nor `{clock}`, which "
        raise DatasetError(message + "say when a row arrived")
    kind = table.schema.field(clock).type
    if not (pt.is_timestamp(kind) or pt.is_integer(kind)):
        message = (
            f"column `{clock}` of the recording of stream `{name}` says when a row arrived, and "
            f"must be an integer or a timestamp, got {kind}; name another one with --arrival"
        )
        raise DatasetError(message)
    # No finer than need be: 64 bits of nanoseconds do not reach the year 2263.
    unit = finest({"ms", kind.unit if pt.is_timestamp(kind) else time_unit})
    at, known = times_of(table.column(clock), unit, time_unit)
    known &= (at >= -MAX_TIME) & (at <= MAX_TIME)
    at = at // (PER_SECOND[unit] // PER_SECOND["ms"])
    at = np.maximum.accumulate(np.where(known, at, at[known].min() if known.any() else 0))
    try:
        rows = table.select(needed.names).cast(needed)
    except (pa.ArrowException, ValueError) as error:
        reason = str(error).partition("\n")[0]
        message = f"the recording of stream `{name}` does not fit its `schema`: {reason}"
        raise DatasetError(message) from error
    return Recorded(rows, at)


def prepare_topics(spark: SparkSession, job: Job, partitions: int) -> None:
    """Create the topics of a job's streams that are not there yet."""
    for stream in job.streams.values():
        if stream.kafka is not None:
            with Topics(spark, job.kafka_options(stream)) as topics:
                if not topics.exists(str(stream.topic)):
                    # A message has one time: that of its event, or that of its arrival.
                    by_event = stream.message_time is not None
                    topics.create(str(stream.topic), partitions, append_time=not by_event)


def replay(
    spark: SparkSession,
    job: Job,
    streams: Mapping[str, Recorded],
    *,
    speed: float | None = 1.0,
    key: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Write recorded rows into the sources of a job; yields the number of rows written so far.

    Parameters
    ----------
    spark
        The session that writes.
    job
        Says where each stream comes from.
    streams
        The recordings.
    speed
        How many times faster than they arrived; None for as fast as it goes.
    key
        For a stream the column whose value becomes the key of its messages: Kafka puts equal keys
        into one partition.
    """
    done = dict.fromkeys(streams, 0)
    total = sum(len(each.arrival) for each in streams.values())
    first = min((int(e.arrival[0]) for e in streams.values() if len(e.arrival)), default=0)
    begin = time.monotonic()
    while sum(done.values()) < total:
        due = np.iinfo(np.int64).max
        if speed is not None:
            due = first + int((time.monotonic() - begin) * 1000 * speed)
        slices = {}
        for name, each in streams.items():
            end = int(np.searchsorted(each.arrival, due, side="right"))
            end = min(end, done[name] + max(_ROWS_AT_ONCE // len(streams), 1))
            if end > done[name]:
                slices[name] = each.rows.slice(done[name], end - done[name])
                done[name] = end
        if slices:
            _write(spark, job, slices, key or {})
            yield sum(done.values())
        if speed is not None:
            time.sleep(_STEP)


def _write(
    spark: SparkSession, job: Job, slices: Mapping[str, pa.Table], key: Mapping[str, str]
) -> None:
    """Write some rows of each stream, all topics of a broker in one go."""
    by_broker: dict[tuple[tuple[str, str], ...], DataFrame] = {}
    for name, rows in slices.items():
        stream = job.streams[name]
        # One task for each stream, so that the rows stay in order.
        frame = spark.createDataFrame(rows).coalesce(1)
        if stream.kafka is None:
            assert stream.folder is not None
            writer = frame.write.format(str(stream.format)).mode("append")
            header = {"header": "true"} if stream.format == "csv" else {}
            writer.options(**header, **job.filled(stream.options)).save(stream.folder)
            continue
        said = sf.lit(None) if name not in key else sf.col(quoted(key[name]))
        messages = frame.select(
            sf.lit(stream.topic).alias("topic"),
            said.cast("string").alias("key"),
            encoded(frame.columns).alias("value"),
        )
        broker = tuple(sorted(job.kafka_options(stream).items()))
        others = by_broker.get(broker)
        by_broker[broker] = messages if others is None else others.unionAll(messages)
    for access, messages in by_broker.items():
        messages.write.format("kafka").options(**dict(access)).save()


def seconds_of(streams: Mapping[str, Recorded], speed: float | None) -> float:
    """How long a replay takes at least."""
    begun = [each.arrival for each in streams.values() if len(each.arrival)]
    ends = [int(at) for arrival in begun for at in arrival[[0, -1]]]
    return 0.0 if speed is None or not ends else (max(ends) - min(ends)) / 1000 / speed


def check_streams(job: Job, given: Mapping[str, pa.Table], key: Mapping[str, str]) -> None:
    """See that there is a recording for each stream of a job, and a place to write it to.

    Parameters
    ----------
    job
        The job.
    given
        The recordings.
    key
        For a stream the column whose value becomes the key of its messages.

    Raises
    ------
    DatasetError
        With everything that is missing, or too much.
    """
    faults = [
        f"there is no recording of stream `{name}`" for name in job.streams if name not in given
    ]
    faults += [
        f"`{name}` is no stream of the job; it has {listed(list(job.streams))}"
        for name in given
        if name not in job.streams
    ]
    faults += [
        f"stream `{name}` comes from {stream.format!r}, which nothing can be written to"
        for name, stream in job.streams.items()
        if stream.kafka is None and stream.folder is None
    ]
    for name, column in key.items():
        if name not in given:
            faults.append(f"a key is named for `{name}`, which has no recording")
        elif column not in given[name].column_names:
            hint = way_out(column, given[name].column_names, known_as="columns")
            faults.append(f"stream `{name}` has no column `{column}` for its key; {hint}")
    if faults:
        raise DatasetError("; ".join(faults))

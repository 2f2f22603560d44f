"""A job: a query, where its streams come from, and where its results go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recalljoin.jobs.secrets import Secrets

FILE_FORMATS: Final = ("parquet", "json", "csv")
"""Formats of a folder."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where rows come from or go to: a topic of Kafka, a folder, or any format of Spark.

    Texts may still name variables of the environment; :class:`~recalljoin.jobs.secrets.Secrets`
    has their values.
    """

    kafka: str | None = None
    """The broker's address, ``host:port``; several are separated by commas."""
    topic: str | None = None
    folder: str | None = None
    format: str | None = None
    """Of a folder, or of a source or sink that is neither folder nor topic."""
    options: Mapping[str, str]
    """Options for Spark."""


@dataclass(frozen=True, kw_only=True)
class JobStream(Endpoint):
    """A stream of the query, and where it comes from."""

    schema: pa.Schema | None = None
    """The columns; None where Spark finds them."""
    time: str = "ts"
    """Column with the event time."""
    message_time: str | None = None
    """Column that takes the time that Kafka has for a message; None for no such column."""
    message_partition: str | None = None
    """Column that takes the number of a message's partition; None for no such column."""

    @property
    def columns(self) -> pa.Schema | None:
        """The columns that the query sees; None where Spark finds them."""
        columns = self.schema
        if columns is not None and self.message_time is not None:
            columns = columns.append(pa.field(self.message_time, pa.timestamp("us", "UTC")))
        if columns is not None and self.message_partition is not None:
            columns = columns.append(pa.field(self.message_partition, pa.int32()))
        return columns


@dataclass(frozen=True, kw_only=True)
class Sink(Endpoint):
    """Where results go."""

    key: str | None = None
    """Column of the result that becomes the key of a message in Kafka."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that a job file says."""

    query: str
    streams: Mapping[str, JobStream]
    sink: Sink
    checkpoint: str
    control_log: str
    trigger: str | None = None
    """Time between two batches, as Spark writes it; None for no pause."""
    once: bool = False
    """Whether the job takes what is there, and ends."""
    join: Mapping[str, Any]
    """Further options of :func:`recalljoin.sql`."""
    spark: Mapping[str, str]
    """Settings of the Spark session."""
    secrets: Secrets

    @property
    def uses_kafka(self) -> bool:
        """Whether a stream or the sink is a topic of Kafka."""
        return any(each.kafka for each in (*self.streams.values(), self.sink))

    def filled(self, options: Mapping[str, str]) -> dict[str, str]:
        """Options with the values that come from the environment."""
        return {name: self.secrets.fill(value) for name, value in options.items()}

    def kafka_options(self, endpoint: Endpoint) -> dict[str, str]:
        """How Spark reaches the broker of a topic: its address, and what is said about access."""
        access = {n: v for n, v in endpoint.options.items() if n.startswith("kafka.")}
        return self.filled({"kafka.bootstrap.servers": endpoint.kafka or "", **access})

    def circles(self) -> Iterator[str]:
        """Why the job would read its own results, if it would."""
        for name, stream in self.streams.items():
            if self.sink.kafka is not None and (self.sink.kafka, self.sink.topic) == (
                stream.kafka, stream.topic,
            ):  # fmt: skip
                what = f"the topic `{stream.topic}`"
            elif self.sink.folder is not None and self.sink.folder == stream.folder:
                what = "the folder"
            else:
                continue
            yield f"sink: {what} is what stream `{name}` reads; write results elsewhere"

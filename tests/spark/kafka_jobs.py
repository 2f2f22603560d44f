"""Jobs between topics of Kafka over recorded tuples, and what they left in their sink."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from recalljoin.jobs.job_file import parse_job
from recalljoin.jobs.produce import Recorded, prepare_topics, recorded, replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.jobs.model import Job
    from tests.reference.model import StreamTuple
    from tests.spark.broker import Broker
    from tests.spark.recorded import Recording

WINDOWS = (100, 60)
PARTITIONS = 3
QUERY = "SELECT s1.place AS one, s2.place AS two FROM s1 [100 MS], s2 [60 MS] WHERE s1.a = s2.a"
JOB = """
query = "{query}"
checkpoint = "checkpoint"
control_log = "log"
{more}
[streams.s1]
kafka = "{address}"
topic = "{name}-s1"
schema = "ts LONG, a LONG, b STRING, place LONG"
options = {{ maxOffsetsPerTrigger = {rows} }}
[streams.s2]
kafka = "{address}"
topic = "{name}-s2"
schema = "ts LONG, a LONG, b STRING, place LONG"
options = {{ maxOffsetsPerTrigger = {rows} }}
[sink]
kafka = "{address}"
topic = "{name}-joined"
[join]
max_ahead = "off"
cells = 2
"""


@dataclass(frozen=True)
class KafkaJob:
    """A job over two topics with names of its own."""

    broker: Broker
    folder: Path
    name: str
    with_recall: str = "WITH RECALL 0.9 OVER 400 MS EVERY 50 MS"
    rows: int = 24

    def text(self, *, more: str = "", join: str = "") -> str:
        """The job file; ``more`` goes to its top, ``join`` to the options of the join."""
        said = {"address": self.broker.address, "name": self.name, "rows": self.rows}
        return JOB.format(query=f"{QUERY} {self.with_recall}", more=more, **said) + join

    def job(self, *, more: str = "", join: str = "") -> Job:
        """The job, read from its text."""
        return parse_job(self.text(more=more, join=join).encode(), self.folder, {})

    def write(self, *, more: str = "", end: str = "") -> Path:
        """The job as a file; ``more`` goes to its top, ``end`` to its end."""
        path = self.folder / "job.toml"
        path.write_text(self.text(more=more) + end)
        return path

    def streams(self, recording: Recording, *, tick_ms: int = 50) -> dict[str, Recorded]:
        """Recorded tuples that arrive tick by tick."""
        job = self.job()
        made = {}
        for s, name in enumerate(job.streams):
            ticks = [e.tick * tick_ms for e in recording.tuples if e.stream == s]
            table = recording.table(s).append_column("arrival", [ticks])
            stream = job.streams[name]
            made[name] = recorded(name, stream, table, arrival="arrival", time_unit="ms")
        return made

    def produce(
        self,
        spark: SparkSession,
        recording: Recording,
        *,
        speed: float | None = None,
        tick_ms: int = 50,
    ) -> Iterator[int]:
        """Write the recorded tuples into the topics."""
        prepare_topics(spark, self.job(), PARTITIONS)
        streams = self.streams(recording, tick_ms=tick_ms)
        # Messages without a key would go to one partition until a packet is full.
        keys = dict.fromkeys(streams, "place")
        yield from replay(spark, self.job(), streams, speed=speed, key=keys)

    def messages(self, spark: SparkSession, topic: str) -> list[dict[str, Any]]:
        """All messages of a topic, with their place."""
        frame = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.broker.address)
            .option("subscribe", f"{self.name}-{topic}")
            .load()
            .select("partition", "offset", sf.col("value").cast("string").alias("value"))
        )
        return [row.asDict() for row in frame.collect()]

    def results(self, spark: SparkSession) -> Counter[tuple[int, ...]]:
        """Results in the sink, by their members."""
        values = [json.loads(each["value"]) for each in self.messages(spark, "joined")]
        return Counter((value["one"], value["two"]) for value in values)

    def ends(self) -> list[dict[str, dict[str, int]]]:
        """For each batch the offsets at its end, by topic and partition, from Spark's own log."""
        logs = (self.folder / "checkpoint" / "offsets").glob("[0-9]*")
        ends: list[dict[str, dict[str, int]]] = []
        for log in sorted(logs, key=lambda path: int(path.name)):
            lines = [json.loads(line) for line in log.read_text().splitlines()[1:] if line != "-"]
            topics = {k: v for line in lines for k, v in line.items() if k.startswith(self.name)}
            ends.append(topics)
        return ends

    def batches(self, spark: SparkSession) -> list[list[dict[str, Any]]]:
        """For each batch the rows that Spark took."""
        ends = self.ends()
        batches: list[list[dict[str, Any]]] = [[] for _ in ends]
        for s, stream in enumerate(("s1", "s2")):
            for message in self.messages(spark, stream):
                place = str(message["partition"])
                topic = f"{self.name}-{stream}"
                batch = next(
                    n for n, e in enumerate(ends) if message["offset"] < e[topic].get(place, 0)
                )
                batches[batch].append({"stream": s, **message})
        return batches

    def delivered(self, spark: SparkSession, recording: Recording) -> list[StreamTuple]:
        """The recorded tuples in the batches in which they were in fact delivered."""
        by_place = {e.arrival: e for e in recording.tuples}
        return [
            replace(by_place[json.loads(row["value"])["place"]], tick=number)
            for number, rows in enumerate(self.batches(spark))
            for row in rows
        ]


def places(tuples: Sequence[StreamTuple]) -> Counter[int]:
    """Tuples by their place in the recording."""
    return Counter(e.arrival for e in tuples)

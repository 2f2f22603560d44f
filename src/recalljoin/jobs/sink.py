"""The sink of a job. A topic of Kafka has every result once, whatever was killed meanwhile.

Spark's own sink for Kafka writes a batch again when the query dies between writing and noting that
the batch is done. Here the driver notes, before a batch is written, how far the topic goes. If it
finds such a note, the batch has been begun before: then it reads what the topic has from there on,
and writes only the results that are missing. Since a batch that runs again has the same results,
nothing is written twice and nothing is left out.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from recalljoin.errors import InvalidJob
from recalljoin.jobs.decoding import encoded
from recalljoin.jobs.topics import Topics
from recalljoin.query.spelling import way_out
from recalljoin.spark.columns import quoted
from recalljoin.spark.log_folder import LogFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from recalljoin.jobs.model import Job

BATCH_HEADER: Final = "recalljoin.batch"
"""Header of a message: the sink that wrote it, and the batch."""
_NOTES_KEPT: Final = 3


def written(results: DataFrame, job: Job) -> DataStreamWriter:
    """A writer of results, ready to be started.

    Raises
    ------
    InvalidJob
        When the sink cannot take the results.
    """
    sink = job.sink
    writer = results.writeStream.option("checkpointLocation", job.checkpoint)
    if job.once:
        writer = writer.trigger(availableNow=True)
    elif job.trigger is not None:
        writer = writer.trigger(processingTime=job.trigger)
    if sink.kafka is None:
        writer = writer.format(str(sink.format)).options(**job.filled(sink.options))
        return writer if sink.folder is None else writer.option("path", sink.folder)
    if sink.key is not None and sink.key not in results.columns:
        told = way_out(sink.key, results.columns, known_as="columns")
        message = f"sink: `key` names `{sink.key}`, which is no column of the results; {told}"
        raise InvalidJob(message)
    topic = TopicSink(
        job.kafka_options(sink),
        job.filled(sink.options),
        str(sink.topic),
        sink.key,
        job.control_log,
    )
    topic.prepare(results.sparkSession)
    return writer.foreachBatch(topic.write)


@dataclass(frozen=True, repr=False)
class TopicSink:
    """Writes batches to a topic, each result once.

    Parameters
    ----------
    access
        How Spark reaches the broker.
    options
        Further options of Spark's writer to Kafka.
    topic
        The topic.
    key
        Column of the results that becomes the key of a message; None for messages without key.
    control_log
        Folder of the control log; the notes are in its subfolder ``sink``.
    """

    access: dict[str, str]
    options: dict[str, str]
    topic: str
    key: str | None
    control_log: str
    _notes: LogFolder = field(init=False)
    _id: str = field(init=False)

    def __post_init__(self) -> None:
        """Find the name by which this sink knows its own messages."""
        notes = LogFolder(f"{self.control_log}/sink")
        notes.write("id", uuid.uuid4().hex.encode(), new=True)
        object.__setattr__(self, "_notes", notes)
        object.__setattr__(self, "_id", (notes.read("id") or b"").decode())

    def prepare(self, spark: SparkSession) -> None:
        """See that the topic is there."""
        with Topics(spark, self.access) as topics:
            if not topics.exists(self.topic):
                topics.create(self.topic)

    def write(self, results: DataFrame, batch: int) -> None:
        """Write the results of a batch, or those of them that are not in the topic yet."""
        spark = results.sparkSession
        columns = [sf.lit(None).cast("string").alias("key")]
        if self.key is not None:
            columns = [sf.col(quoted(self.key)).cast("string").alias("key")]
        rows = results.select(*columns, encoded(results.columns).alias("value"))
        label = f"{self._id}:{batch}"
        name = f"{batch:012d}"
        note = self._notes.read(name)
        if note is None:
            with Topics(spark, self.access) as topics:
                begin = topics.ends(self.topic)
            self._notes.write(name, json.dumps(begin).encode())
        else:
            rows = rows.exceptAll(self._written_since(spark, note.decode(), label))
        header = sf.struct(
            sf.lit(BATCH_HEADER).alias("key"), sf.lit(label).cast("binary").alias("value")
        )
        rows = rows.select("key", "value", sf.array(header).alias("headers"))
        target = rows.write.format("kafka").options(**{**self.options, **self.access})
        target.option("topic", self.topic).option("includeHeaders", "true").save()
        self._forget(batch)

    def _written_since(self, spark: SparkSession, begin: str, label: str) -> DataFrame:
        """What the topic has of a batch already."""
        offsets = json.dumps({self.topic: json.loads(begin)})
        messages = (
            spark.read.format("kafka")
            .options(**self.access)
            .option("subscribe", self.topic)
            .option("startingOffsets", offsets)
            .option("includeHeaders", "true")
            .load()
        )
        header = sf.struct(
            sf.lit(BATCH_HEADER).alias("key"), sf.lit(label).cast("binary").alias("value")
        )
        mine = messages.where(sf.array_contains(sf.col("headers"), header))
        return mine.select(sf.col("key").cast("string"), sf.col("value").cast("string"))

    def _forget(self, batch: int) -> None:
        """Remove notes of batches that cannot run again."""
        system, root = self._notes.place
        for name in self._notes.names(""):
            if name.isdecimal() and int(name) <= batch - _NOTES_KEPT:
                with self._notes.named(name, "removed"):
                    system.delete_file(f"{root}/{name}")

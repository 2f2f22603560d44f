"""Topics of a job as recordings: what `recalljoin evaluate` reads, with Kafka's time as arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from recalljoin.errors import DatasetError
from recalljoin.experiments.generation import QUERY_FILE
from recalljoin.jobs.sources import from_messages
from recalljoin.jobs.topics import Topics
from recalljoin.spark.columns import quoted
from recalljoin.spark.packing import UNREADABLE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.jobs.model import Job

ARRIVAL: Final = "arrival"
"""Column with the time of arrival."""
_APPENDED: Final = 1
"""How Kafka marks messages whose time is that of the broker."""
_PLACE: Final = ("timestamp", "partition", "offset")


def record(spark: SparkSession, job: Job, folder: Path) -> dict[str, Path]:
    """Write the topics of a job as Parquet, in the order of arrival, with the query beside them.

    A message that cannot be read is in the recording without its time, and refused as such.

    Returns
    -------
    dict
        For each stream its folder.

    Raises
    ------
    DatasetError
        When a stream is no topic, its topic is not there or does not tell when messages arrived;
        or a folder exists already.
    """
    paths = {name: folder / f"{name}.parquet" for name in job.streams}
    _check(spark, job, paths)
    for name, path in paths.items():
        stream = job.streams[name]
        messages = (
            spark.read.format("kafka")
            .options(**job.kafka_options(stream))
            .option("subscribe", str(stream.topic))
            .load()
        )
        _refuse_made_times(messages, str(stream.topic))
        ordered = messages.repartition(1).sortWithinPartitions(*_PLACE)
        rows = from_messages(ordered, job, stream, ARRIVAL)
        time = sf.when(sf.col(UNREADABLE).isNull(), sf.col(quoted(stream.time)))
        rows.withColumn(stream.time, time).drop(UNREADABLE).write.parquet(str(path.absolute()))
    (folder / QUERY_FILE).write_text(job.query.strip() + "\n", encoding="utf-8")
    return paths


def _check(spark: SparkSession, job: Job, paths: dict[str, Path]) -> None:
    faults = []
    for name, path in paths.items():
        stream = job.streams[name]
        if stream.kafka is None:
            faults.append(f"stream `{name}` is no topic of Kafka, and tells no time of arrival")
            continue
        if stream.schema is not None and ARRIVAL in stream.schema.names:
            faults.append(f"stream `{name}` has a column `{ARRIVAL}` already")
        if path.exists():
            faults.append(f"{path} exists already; name another folder or remove it")
        with Topics(spark, job.kafka_options(stream)) as topics:
            if not topics.exists(str(stream.topic)):
                faults.append(f"stream `{name}`: there is no topic `{stream.topic}`")
    if faults:
        raise DatasetError("; ".join(faults))


def _refuse_made_times(messages: DataFrame, topic: str) -> None:
    if messages.where(sf.col("timestampType") != _APPENDED).limit(1).count():
        message = (
            f"messages of topic `{topic}` have the time at which they were made, and not at which "
            "they arrived; set message.timestamp.type=LogAppendTime for the topic, and record "
            "what is written from then on"
        )
        raise DatasetError(message)

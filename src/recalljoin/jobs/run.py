"""Runs a job: from the streams that its file names to its sink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from recalljoin.errors import InvalidSetting
from recalljoin.jobs.sink import written
from recalljoin.jobs.sources import read_streams
from recalljoin.spark.api import sql
from recalljoin.spark.options import METRICS
from recalljoin.spark.session import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from recalljoin.jobs.model import Job

_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_HIDDEN: Final = "(?i)secret|password|token|access[.]?key|credential|sasl|jaas|ssl[.]key"
"""Settings whose names have one of these in them are shown by Spark nowhere."""


def settings_of(job: Job, jars: str | None = None) -> dict[str, str]:
    """Settings of a Spark session that can run a job.

    Parameters
    ----------
    job
        The job.
    jars
        Spark's connector to Kafka and other jars: a folder of jars, or a list with commas. By
        default a job with Kafka has Spark fetch the connector of its own version.

    Raises
    ------
    InvalidSetting
        When the folder has no jars.
    """
    settings = {"spark.redaction.regex": _HIDDEN, "spark.sql.redaction.options.regex": _HIDDEN}
    settings |= job.filled(job.spark)
    if jars is not None:
        settings["spark.jars"] = _listed(jars)
    elif job.uses_kafka and not {"spark.jars", "spark.jars.packages"} & settings.keys():
        from pyspark import __version__  # noqa: PLC0415

        settings["spark.jars.packages"] = f"{_CONNECTOR}:{__version__}"
    return settings


def _listed(jars: str) -> str:
    if not Path(jars).is_dir():
        return jars
    found = sorted(str(path.absolute()) for path in Path(jars).glob("*.jar"))
    if not found:
        message = f"the folder of jars {jars!r} has no jar in it; name the one that has them"
        raise InvalidSetting(message)
    return ",".join(found)


def start(spark: SparkSession, job: Job) -> StreamingQuery:
    """Start a job.

    Raises
    ------
    InvalidJob
        When a source or the sink is not as the job says.
    InvalidQuery
        With every fault of the query.
    InvalidSetting
        When options contradict each other.
    """
    prepare(spark, groups=job.join.get("groups"))
    frames = read_streams(spark, job)
    times = {name: stream.time for name, stream in job.streams.items()}
    joined = sql(job.query, frames, time=times, control_log=job.control_log, **job.join)
    writer = written(joined, job)
    name = job.join.get("name", METRICS)
    # Spark's pages show the name; no two queries of a session may have the same.
    if all(query.name != name for query in spark.streams.active):
        writer = writer.queryName(name)
    return writer.start()


@dataclass(frozen=True)
class Look:
    """What one batch of a running job did."""

    batch: int
    k_ms: float
    recall: float | None
    arrived: int
    refused: int
    late: int
    results: int


def looks(
    query: StreamingQuery, job: Job, *, every: int = 1, is_over: Callable[[], bool] = lambda: False
) -> Iterator[Look]:
    """The newest batch, whenever there is a newer one, until the job ends or ``is_over`` says so.

    Raises
    ------
    pyspark.errors.StreamingQueryException
        When the job fails.
    """
    seen, running = -1, True
    while running:
        # This raises the query's error if the query has failed.
        running = not query.awaitTermination(every)
        if is_over():
            query.stop()
            return
        progress = query.lastProgress
        metrics = None if progress is None else progress["observedMetrics"].get(
            job.join.get("name", METRICS)
        )  # fmt: skip
        if progress is None or metrics is None or progress["batchId"] <= seen:
            continue
        seen = progress["batchId"]
        yield Look(
            batch=seen,
            k_ms=metrics["k_ms"],
            recall=metrics["recall"],
            arrived=metrics["arrived"],
            refused=metrics["refused"],
            late=metrics["late"],
            results=metrics["produced"] + metrics["nulls"],
        )

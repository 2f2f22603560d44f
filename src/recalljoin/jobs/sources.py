"""The streams of a job as streaming DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from recalljoin.errors import InvalidJob
from recalljoin.jobs.decoding import CORRUPT, decoded
from recalljoin.jobs.topics import Topics
from recalljoin.query.bound_query import PARTITION
from recalljoin.spark.columns import quoted
from recalljoin.spark.kafka_partitions import partition
from recalljoin.spark.packing import UNREADABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.jobs.model import Job, JobStream

_KAFKA_DEFAULTS: Final = {
    # By default Spark would begin with what comes after the start, and leave out what is there.
    "startingOffsets": "earliest",
    # A broker that is started again is back within a minute; Spark would ask three times.
    "fetchOffset.numRetries": "60",
    "fetchOffset.retryIntervalMs": "1000",
}
_READS_JSON: Final = "json."
"""Options that begin so are for the reader of JSON, the others for Kafka."""


def read_streams(spark: SparkSession, job: Job) -> dict[str, DataFrame]:
    """The streaming DataFrame of each stream.

    Raises
    ------
    InvalidJob
        With everything that is not where the job says.
    """
    frames: dict[str, DataFrame] = {}
    faults: list[str] = []
    for name, stream in job.streams.items():
        try:
            frames[name] = _read(spark, job, stream)
        except InvalidJob as error:
            faults += [f"stream `{name}`: {fault}" for fault in error.faults]
        except PySparkException as error:
            first = str(error).strip().partition("\n")[0]
            faults.append(job.secrets.hide(f"stream `{name}`: Spark cannot read it: {first}"))
    if faults:
        raise InvalidJob(faults)
    return frames


def _read(spark: SparkSession, job: Job, stream: JobStream) -> DataFrame:
    if stream.kafka is not None:
        with Topics(spark, job.kafka_options(stream)) as topics:
            if not topics.exists(str(stream.topic)):
                message = f"there is no topic `{stream.topic}`; create it, or write to it first"
                raise InvalidJob(message)
        own = {n: v for n, v in stream.options.items() if not n.startswith(_READS_JSON)}
        options = {**_KAFKA_DEFAULTS, **job.filled(own), **job.kafka_options(stream)}
        reader = spark.readStream.format("kafka").options(**options)
        messages = reader.option("subscribe", str(stream.topic)).load()
        follows = job.join.get("follow_partitions", True) is True
        return from_messages(messages, job, stream, partitions=follows)
    options = job.filled(stream.options)
    schema = None if stream.schema is None else from_arrow_schema(stream.schema)
    if stream.folder is None:
        plain = spark.readStream.format(str(stream.format)).options(**options)
        return (plain if schema is None else plain.schema(schema)).load()
    if "://" not in stream.folder:
        # Spark refuses a folder that is not there yet.
        Path(stream.folder).mkdir(parents=True, exist_ok=True)
    if stream.format == "parquet":
        if schema is None:
            schema = spark.read.options(**options).parquet(stream.folder).schema
        return spark.readStream.schema(schema).options(**options).parquet(stream.folder)
    assert schema is not None
    if stream.format == "csv":
        options = {"header": "true", **options}
    rows = (
        spark.readStream.format(str(stream.format))
        .schema(StructType([*_nullable(schema), *StructType().add(CORRUPT, StringType())]))
        .options(**options, mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)
        .load(stream.folder)
    )
    text = sf.col(CORRUPT)
    for each in schema:
        if not each.nullable:
            missing = sf.col(quoted(each.name)).isNull()
            text = sf.coalesce(text, sf.when(missing, f"`{each.name}` is null"))
    return rows.select(*(sf.col(quoted(n)) for n in schema.names), text.alias(UNREADABLE))


def from_messages(
    messages: DataFrame,
    job: Job,
    stream: JobStream,
    arrival: str | None = None,
    *,
    partitions: bool = False,
) -> DataFrame:
    """The rows of a stream, from messages of Kafka; ``arrival`` names a column for their time.

    With ``partitions``, rows tell where they come from, in a column that no query sees.
    """
    assert stream.schema is not None
    cut = len(_READS_JSON)
    options = {n[cut:]: v for n, v in stream.options.items() if n.startswith(_READS_JSON)}
    told = {stream.message_time: "timestamp", stream.message_partition: "partition"}
    told[arrival] = "timestamp"
    beside = {name: sf.col(column) for name, column in told.items() if name is not None}
    if partitions:
        beside[PARTITION] = partition()
    schema = from_arrow_schema(stream.schema)
    return decoded(messages, sf.col("value"), schema, beside=beside, options=job.filled(options))


def _nullable(schema: StructType) -> StructType:
    """The schema without NOT NULL, which Spark's readers of files do not check."""
    return StructType([type(f)(f.name, f.dataType) for f in schema])

"""What the join needs of a Spark session: set where it is left at Spark's default, or refused."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow.types as pt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from recalljoin.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = 200
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_DEFAULT_ARROW = {ARROW_BYTES: "67108864b", ARROW_ROWS: "10000"}
_LIGHT_ARROW = {ARROW_BYTES: str(2**31 - 1), ARROW_ROWS: "2000"}
"""No limit but that of rows: of pieces as in :mod:`recalljoin.spark.packing`, again 64 MB."""
_LIFTED: weakref.WeakSet[SparkSession] = weakref.WeakSet()
"""Sessions that have the latter because a join has set them so."""


def session_of(frame: Any) -> SparkSession:
    """The session a DataFrame belongs to.

    Raises
    ------
    InvalidSetting
        When it is no DataFrame.
    """
    if not isinstance(frame, DataFrame):
        message = f"a stream must be a Spark DataFrame, got {type(frame).__name__}"
        raise InvalidSetting(message)
    return frame.sparkSession


def is_connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, whose driver is a process of its own somewhere."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run on the driver's machine and see its folders."""
    return (spark.conf.get("spark.master") or "").startswith("local")


def default_cells(spark: SparkSession) -> int:
    """As many cells as there are cores."""
    if is_connected(spark):
        # What Spark divides a range into unless told otherwise; it answers to nothing else there.
        parts = spark.range(1 << 16).select(sf.spark_partition_id()).distinct()
        return max(1, parts.count())
    return max(1, spark.sparkContext.defaultParallelism)


def default_groups(spark: SparkSession) -> int:
    """One group for each executor there is, or is to be; locally the driver is the only one."""
    if is_local(spark):
        return 1
    asked_for = int(spark.conf.get("spark.executor.instances", "0") or 0)
    if is_connected(spark):
        return max(1, asked_for)
    context: Any = spark.sparkContext._jsc
    there_are = int(context.sc().getExecutorMemoryStatus().size()) - 1
    return max(1, asked_for, there_are)


def prepare(spark: SparkSession, n_groups: int, schemas: Iterable[pa.Schema]) -> None:
    """Make the session fit for a join of rows like these over ``n_groups`` groups of cells.

    What somebody has chosen is never changed.

    Raises
    ------
    InvalidSetting
        When the session is set to something the join cannot, or should not, run with.
    """
    _prepare_provider(spark)
    _prepare_partitions(spark, n_groups)
    prepare_arrow(spark, schemas)


def _prepare_provider(spark: SparkSession) -> None:
    provider = spark.conf.get(_PROVIDER) or ""
    if provider == ROCKSDB:
        return
    if not provider.endswith(".HDFSBackedStateStoreProvider") or _was_chosen(spark, _PROVIDER):
        message = (
            f"the join keeps its state with transformWithState, which needs RocksDB; `{_PROVIDER}` "
            f"is {provider!r}; set it to {ROCKSDB!r}"
        )
        raise InvalidSetting(message)
    spark.conf.set(_PROVIDER, ROCKSDB)
    spark.conf.set(_CHANGELOG, "true")
    _LOG.info("set %s to RocksDB, with changelog checkpointing", _PROVIDER)


def _prepare_partitions(spark: SparkSession, n_groups: int) -> None:
    partitions = int(spark.conf.get(_PARTITIONS) or _DEFAULT_PARTITIONS)
    if partitions <= n_groups:
        return
    if partitions == _DEFAULT_PARTITIONS and not _was_chosen(spark, _PARTITIONS):
        spark.conf.set(_PARTITIONS, str(n_groups))
        _LOG.warning("set %s to %d, the number of groups of cells", _PARTITIONS, n_groups)
        return
    message = (
        f"`{_PARTITIONS}` is {partitions}, but the join has {n_groups} group"
        f"{'s' if n_groups > 1 else ''} of cells; every partition without one still costs 0.1 s or "
        f"more in every batch. Set it to {n_groups}, or ask for more `groups`"
    )
    raise InvalidSetting(message)


def prepare_arrow(spark: SparkSession, schemas: Iterable[pa.Schema]) -> None:
    """Let Spark not weigh every row it hands to Python, where rows can be told to be light.

    With a limit of bytes, it adds up the size of what it has written after each row, and that takes
    longer than to write the row. So the limit becomes one of rows, which a later join with
    heavier ones takes back.
    """
    if not all(_is_light(field.type) for schema in schemas for field in schema):
        if spark in _LIFTED:
            _LIFTED.remove(spark)
            for name in _LIGHT_ARROW:
                spark.conf.unset(name)
        return
    for name, value in _DEFAULT_ARROW.items():
        if spark.conf.get(name) != value or _was_chosen(spark, name):
            return
    for name, value in _LIGHT_ARROW.items():
        spark.conf.set(name, value)
    _LIFTED.add(spark)
    _LOG.warning(
        "set %s to %s, and %s to no limit", ARROW_ROWS, _LIGHT_ARROW[ARROW_ROWS], ARROW_BYTES
    )


def _is_light(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return all(_is_light(field.type) for field in kind)
    return bool(pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_string(kind))


def _was_chosen(spark: SparkSession, name: str) -> bool:
    if is_connected(spark):
        # What has been set at all: it cannot be told by whom.
        return name in spark.conf.getAll
    # What is given when the session is built, or on the command line.
    return bool(spark.sparkContext.getConf().contains(name))


def same_session(frames: list[DataFrame]) -> SparkSession:
    """The one session of all frames."""
    sessions = [session_of(frame) for frame in frames]
    if any(session is not sessions[0] for session in sessions):
        message = "all streams of a join must belong to the same Spark session"
        raise InvalidSetting(message)
    return sessions[0]

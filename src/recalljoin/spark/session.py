"""Settings of a Spark session that the join needs: Spark's defaults are changed, others refused."""

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
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_DEFAULT_PROVIDER = ".HDFSBackedStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
PARTITIONS = "spark.sql.shuffle.partitions"
_DEFAULT_PARTITIONS = 200
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_DEFAULT_ARROW = {ARROW_BYTES: "67108864b", ARROW_ROWS: "10000"}
_LIGHT_ARROW = {ARROW_BYTES: str(2**31 - 1), ARROW_ROWS: "2000"}
"""Only rows are limited: 2,000 pieces as in :mod:`recalljoin.spark.packing` are 64 MB, too."""
_LIFTED: weakref.WeakSet[SparkSession] = weakref.WeakSet()
"""Sessions in which :func:`prepare` has limited rows only."""


def session_of(frame: Any) -> SparkSession:
    """The session that a DataFrame belongs to.

    Raises
    ------
    InvalidSetting
        When ``frame`` is no DataFrame.
    """
    if not isinstance(frame, DataFrame):
        message = f"a stream must be a Spark DataFrame, got {type(frame).__name__}"
        raise InvalidSetting(message)
    return frame.sparkSession


def is_connected(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, whose driver may run on another machine."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_local(spark: SparkSession) -> bool:
    """Whether tasks run on the driver's machine and see its folders."""
    return (spark.conf.get("spark.master") or "").startswith("local")


def has_workers_here(spark: SparkSession) -> bool:
    """Whether a driver of this process starts the workers, on this machine."""
    return not is_connected(spark) and is_local(spark)


def default_cells(spark: SparkSession) -> int:
    """As many cells as there are cores."""
    if is_connected(spark):
        # The number of partitions that Spark divides a range into by default; Spark Connect does
        # not tell the number of cores.
        parts = spark.range(1 << 16).select(sf.spark_partition_id()).distinct()
        return max(1, parts.count())
    return max(1, spark.sparkContext.defaultParallelism)


def default_groups(spark: SparkSession) -> int:
    """One group for each executor, present or expected; locally the driver is the only one."""
    if is_local(spark):
        return 1
    asked_for = int(spark.conf.get("spark.executor.instances", "0") or 0)
    if is_connected(spark):
        return max(1, asked_for)
    context: Any = spark.sparkContext._jsc
    there_are = int(context.sc().getExecutorMemoryStatus().size()) - 1
    return max(1, asked_for, there_are)


def prepare(spark: SparkSession, *, groups: int | None = None) -> None:
    """Set up a session for joins: settings that joins need, and settings that make joins fast.

    :func:`recalljoin.join` sets what it needs by itself, with a line in the log. If ``prepare`` is
    called before, there is no such line, and it also takes away the limit of bytes on what Spark
    hands to Python at once, because checking that limit takes more time than the rows themselves;
    2,000 rows are the limit then. These settings hold for every query that is started in the
    session afterwards. A setting that somebody has chosen is never changed.

    Parameters
    ----------
    spark
        The session of the DataFrames to be joined.
    groups
        Tasks over which the cells of a join are divided; by default one for each executor.

    Raises
    ------
    InvalidSetting
        When the session has a setting that a join cannot, or should not, run with.

    Examples
    --------
    ::

        spark = SparkSession.builder.getOrCreate()
        rj.prepare(spark)
    """
    for name, value in _needed(spark, groups or default_groups(spark)).items():
        spark.conf.set(name, value)
    if all(_is_default(spark, name, value) for name, value in _DEFAULT_ARROW.items()):
        for name, value in _LIGHT_ARROW.items():
            spark.conf.set(name, value)
        _LIFTED.add(spark)


def require(spark: SparkSession, n_groups: int, schemas: Iterable[pa.Schema]) -> None:
    """See that a join of rows with these schemas over ``n_groups`` groups of cells can run.

    A setting that the join needs is changed if it has Spark's default; one line in the log says so.

    Raises
    ------
    InvalidSetting
        When the session has a setting that the join cannot, or should not, run with.
    """
    needed = _needed(spark, n_groups)
    for name, value in needed.items():
        spark.conf.set(name, value)
    if needed:
        _LOG.warning(
            "set in this Spark session, for every query that is started in it from now on: %s. The "
            "join keeps its state in RocksDB, and each shuffle partition costs it 0.1 s a batch; "
            "call rj.prepare(spark) first to have it done without this line",
            ", ".join(f"{name}={value}" for name, value in needed.items()),
        )
    if spark in _LIFTED and not all(_is_light(f.type) for schema in schemas for f in schema):
        _LIFTED.remove(spark)
        for name in _LIGHT_ARROW:
            spark.conf.unset(name)
        _LOG.warning(
            "set %s and %s back to Spark's defaults, as rows of this join may be large",
            ARROW_ROWS,
            ARROW_BYTES,
        )


def _needed(spark: SparkSession, n_groups: int) -> dict[str, str]:
    """Settings that a join needs and that still have Spark's default, with the values needed."""
    needed = {}
    if _checkpoints_here(spark) and spark.conf.get(FILE_MANAGER, None) is None:
        # On a disk of this machine Spark's default looks for links by starting `readlink`, forty
        # times a batch. Both write a file whole and then rename it, which the disk does at once.
        needed[FILE_MANAGER] = FILE_SYSTEM
    provider = spark.conf.get(PROVIDER) or ""
    if provider != ROCKSDB:
        if not provider.endswith(_DEFAULT_PROVIDER) or _was_chosen(spark, PROVIDER):
            message = (
                "the join keeps its state with transformWithState, which needs RocksDB; "
                f"`{PROVIDER}` is {provider!r}; set it to {ROCKSDB!r}"
            )
            raise InvalidSetting(message)
        # RocksDB writes changes instead of whole files; the setting concerns RocksDB alone.
        needed |= {PROVIDER: ROCKSDB, CHANGELOG: "true"}
    partitions = int(spark.conf.get(PARTITIONS) or _DEFAULT_PARTITIONS)
    if partitions > n_groups:
        if not _is_default(spark, PARTITIONS, str(_DEFAULT_PARTITIONS)):
            message = (
                f"`{PARTITIONS}` is {partitions}, but the join has {n_groups} group"
                f"{'s' if n_groups > 1 else ''} of cells; every partition without one still costs "
                f"0.1 s or more in every batch. Set it to {n_groups}, or ask for more `groups`"
            )
            raise InvalidSetting(message)
        needed[PARTITIONS] = str(n_groups)
    return needed


def _checkpoints_here(spark: SparkSession) -> bool:
    """Whether folders of this machine are where checkpoints go if no other place is named."""
    if not has_workers_here(spark):
        return False
    context: Any = spark.sparkContext._jsc
    return str(context.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")


def _is_light(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return all(_is_light(field.type) for field in kind)
    return bool(pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_string(kind))


def _is_default(spark: SparkSession, name: str, default: str) -> bool:
    return spark.conf.get(name) == default and not _was_chosen(spark, name)


def _was_chosen(spark: SparkSession, name: str) -> bool:
    if is_connected(spark):
        # Every setting that was set counts as chosen: who has set it cannot be told.
        return name in spark.conf.getAll
    # Chosen settings are those given when the session is built, or on the command line.
    return bool(spark.sparkContext.getConf().contains(name))


def same_session(frames: list[DataFrame]) -> SparkSession:
    """The one session of all frames."""
    sessions = [session_of(frame) for frame in frames]
    if any(session is not sessions[0] for session in sessions):
        message = "all streams of a join must belong to the same Spark session"
        raise InvalidSetting(message)
    return sessions[0]

"""The number of partitions of Spark's state, which a checkpoint keeps and which limits its groups.

Spark notes the number of partitions in the offsets, and takes no other when a query starts again:
more groups than partitions are correct, but some of them share a task. Spark can divide the state
of a stopped query anew, as a batch of its own without any input, which the sink never sees.

Spark's sink for files keeps a log of its own, with an entry for each batch, and fails where a
number is missing. So an empty entry is added for the batch of the division: after the division is
done, as a query takes a batch with an entry for written, and would pass over its results.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from recalljoin.errors import InvalidSetting
from recalljoin.spark.session import PARTITIONS, is_connected, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALREADY = "SHUFFLE_PARTITIONS_ALREADY_MATCH"
_WHOLE = ".compact"
_NEW = (
    "has no batch that has ended, or is no checkpoint; a new query begins with the groups it is "
    "asked for"
)
_REFUSED = {
    "NO_BATCH_FOUND": _NEW,
    "NO_COMMITTED_BATCH": _NEW,
    "LAST_BATCH_FAILED": "has a batch that has not ended. Stop the query if it runs; if it was "
    "killed, start it once more with trigger(availableNow=True) and without `flush`, which ends "
    "with a whole batch",
    "UNSUPPORTED_": "has other state than that of joins, which Spark cannot divide anew; start "
    "with a new checkpoint",
}


def grow(spark: SparkSession, checkpoint: str, *, groups: int, output: str | None) -> bool:
    """Let the state of a stopped join be divided over more, or fewer, groups.

    Only the number of ``groups`` over which cells run needs this step; the number of cells may
    change without it. A query that is killed in the middle of this step is left as it was: call
    it again with the same number.

    Parameters
    ----------
    spark
        A session that can read and write the checkpoint. The query must not run.
    checkpoint
        The `checkpointLocation` of the query.
    groups
        The number of groups that :func:`recalljoin.join` is going to be asked for.
    output
        The folder that the query writes files to (Parquet, CSV, JSON, ORC or text); None if its
        sink is another.

    Returns
    -------
    bool
        Whether anything was to be done.

    Raises
    ------
    InvalidSetting
        When the checkpoint cannot be changed; the message says why and what to do.
    """
    if groups < 1:
        message = f"`groups` must be 1 or more, got {groups!r}"
        raise InvalidSetting(message)
    if is_connected(spark):
        message = (
            "Spark divides a state anew in classic sessions only; call this, or `recalljoin grow`, "
            "where the driver runs"
        )
        raise InvalidSetting(message)
    prepare(spark, groups=groups)
    try:
        spark._streamingCheckpointManager.repartition(checkpoint, groups)
    except Exception as error:
        text = str(error)
        if _ALREADY not in text:
            reason = _reason(text)
            if reason is None:
                raise
            message = f"the checkpoint {checkpoint!r} {reason}"
            raise InvalidSetting(message) from error
        has_changed = False
    else:
        has_changed = True
    if output is not None:
        _tell_sink(spark, checkpoint, output)
    return has_changed


def _tell_sink(spark: SparkSession, checkpoint: str, output: str) -> None:
    """Add an empty entry to the log of a sink for each batch in which the state was divided."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    path = f"{output}/_spark_metadata"
    names = _names(spark, path)
    # Entries before the last that holds all entries may be gone.
    whole = [int(name.removesuffix(_WHOLE)) for name in names if name.endswith(_WHOLE)]
    there = {int(name) for name in names if name.isdecimal()}
    done = max(int(name) for name in _names(spark, f"{checkpoint}/commits") if name.isdecimal())
    missing = [n for n in range(max(whole, default=-1) + 1, done + 1) if n not in there]
    for number in missing:
        if not names or not _is_division(spark, checkpoint, number):
            message = (
                f"`output` {output!r} is not the folder that this query writes files to: its log "
                f"has no entry for batch {number}; name the right folder, or None if the sink is "
                "another"
            )
            raise InvalidSetting(message)
    sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
    log = sinks.FileStreamSinkLog(1, spark._jsparkSession, path, jvm.scala.Option.empty())
    for number in missing:
        log.add(number, gateway.new_array(sinks.SinkFileStatus, 0))


def _names(spark: SparkSession, folder: str) -> list[str]:
    """Names of the files in a folder, wherever it is; none if there is no folder."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not system.exists(path):
        return []
    return [status.getPath().getName() for status in system.listStatus(path)]


def _is_division(spark: SparkSession, checkpoint: str, number: int) -> bool:
    """Whether a batch has read nothing, and has other partitions than the batch before."""
    if number == 0:
        return False
    before, now = (
        spark.read.text(f"{checkpoint}/offsets/{n}", wholetext=True).collect()[0][0].splitlines()
        for n in (number - 1, number)
    )
    parts = [json.loads(lines[1])["conf"][PARTITIONS] for lines in (before, now)]
    return bool(before[2:] == now[2:] and parts[0] != parts[1])


def _reason(text: str) -> str | None:
    """Why Spark refuses a checkpoint, in a sentence; None for any other failure."""
    begun = re.search(r"is a repartition batch with (\d+) shuffle partitions", text)
    if begun is not None:
        return (
            f"is in the middle of a change to {begun[1]} groups; call this with {begun[1]} groups "
            "first"
        )
    return next((reason for name, reason in _REFUSED.items() if f".{name}" in text), None)

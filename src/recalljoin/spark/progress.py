"""What a join did, batch by batch, and the tuples it left out: read from its control log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.measured import MeasuredRecall, settled_recalls
from recalljoin.spark.packing import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.spark.report import Report

_COUNTS = ("arrived", "refused", "late", "produced", "lost")
SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("planned", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("ks", pa.list_(pa.int64())),
        ("watermark", pa.int64()),
        ("base_time", pa.int64()),
        ("recall", pa.float64()),
        ("recall_at_least", pa.float64()),
        ("recall_settled", pa.float64()),
        *((name, pa.int64()) for name in _COUNTS),
        *((f"total_{name}", pa.int64()) for name in _COUNTS),
        ("beyond", pa.int64()),
        ("buffered", pa.int64()),
        ("kept", pa.int64()),
        ("replication", pa.float64()),
        ("busiest", pa.float64()),
        ("restored", pa.int64()),
        ("refused_by", pa.map_(pa.string(), pa.int64())),
        ("seconds", pa.map_(pa.string(), pa.float64())),
        ("recall_at_most", pa.float64()),
        ("recall_settled_at_least", pa.float64()),
        ("recall_settled_at_most", pa.float64()),
        ("horizon", pa.int64()),
        ("horizon_limited", pa.bool_()),
        ("kept_bytes", pa.int64()),
        ("phase", pa.string()),
    ]
)
"""Columns of :func:`progress_table`."""


def progress(spark: SparkSession, control_log: str) -> DataFrame:
    """What the join of a control log has done, one row a batch.

    Parameters
    ----------
    spark
        The session of the DataFrame.
    control_log
        As given to :func:`~recalljoin.spark.join`.

    Returns
    -------
    DataFrame
        Slack (and where it changes inside a batch, all it was in turn) and watermark. ``recall``
        over the last period, as it was estimated after the batch: what it was going to be when
        all late tuples have come; ``recall_at_least`` and ``recall_at_most``, between which it
        was with the tuples that had arrived. ``recall_settled``: the lowest recall of any period
        that ended within the batch, with all that is known by now, and null until the horizon has
        passed; with the same two bounds. Recall is null where there was no result. Tuples arrived,
        late and refused (by reason), results produced and lost, each in the batch and in total;
        tuples ``beyond`` the horizon, buffered and kept (and their ``kept_bytes``); the
        ``horizon`` for which tuples are remembered behind their windows, and whether it is
        ``horizon_limited`` by ``horizon_memory``;
        ``replication``, copies made of a tuple; ``busiest``, how many times the work of a mean cell
        the busiest one had, in tuples and results; cells ``restored`` from state; time by stage in
        seconds, over all cells. A time that has not begun or has ended is null.

    Raises
    ------
    InvalidSetting
        When there is no such control log.
    """
    return spark.createDataFrame(progress_table(control_log))


def progress_table(control_log: str) -> pa.Table:
    """The same as :func:`progress`, without Spark."""
    reports = list(_existing(control_log).reports_after(-1))
    settled = settled_recalls(reports)
    rows = [row | each for row, each in zip(_rows(reports), settled, strict=True)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(reports: Iterable[Report]) -> Iterator[dict[str, Any]]:
    measured = MeasuredRecall()
    totals = dict.fromkeys(_COUNTS, 0)
    for report in reports:
        profile = report.profile
        meter = measured.observe(report)
        newest = meter.measure()
        counts = {
            "arrived": sum(report.n_arrived),
            "refused": report.n_refused,
            "late": profile.n_late,
            "produced": profile.n_produced,
            "lost": profile.n_lost,
        }
        totals = {name: totals[name] + counts[name] for name in _COUNTS}
        yield {
            "batch": report.batch,
            "planned": report.clock * 1000 if report.clock else None,
            "k": report.k,
            "ks": [k for _, k in report.adaptations],
            "watermark": _known(report.watermark),
            "base_time": _known(report.base_time),
            "recall": newest.recall,
            "recall_at_least": newest.at_least,
            "recall_at_most": newest.at_most,
            **counts,
            **{f"total_{name}": total for name, total in totals.items()},
            "beyond": profile.n_beyond,
            "buffered": report.n_buffered,
            "kept": report.n_kept,
            "kept_bytes": report.kept_bytes,
            "horizon": report.retention,
            "horizon_limited": report.limited,
            "phase": report.phase,
            "replication": report.n_delivered / counts["arrived"] if counts["arrived"] else None,
            "busiest": _busiest(report),
            "restored": report.n_restored,
            "refused_by": list(_refused_by(report)),
            "seconds": list(report.seconds.items()),
        }


def forecast(spark: SparkSession, control_log: str) -> DataFrame:
    """What another target would cost: the recall each slack would have had over the last period.

    Parameters
    ----------
    spark
        The session of the DataFrame.
    control_log
        As given to :func:`~recalljoin.spark.join`.

    Returns
    -------
    DataFrame
        ``k``, in the query's unit of time, and ``recall``, both growing.

    Raises
    ------
    InvalidSetting
        When there is no such control log, or no result of the last period in it; or when the
        join's policy does not ask for the slack of results.
    """
    return spark.createDataFrame(forecast_table(control_log))


def forecast_table(control_log: str) -> pa.Table:
    """The same as :func:`forecast`, without Spark."""
    slack: SlackByTime | None = None
    for report in _existing(control_log).reports_after(-1):
        width = slot_width(report.period)
        if slack is None or slack.width != width:
            slack = SlackByTime(
                width=width, n_slots=2 * SLOTS_PER_PERIOD, n_open=2 * SLOTS_PER_PERIOD
            )
        slack.observe(report.profile)
    found = None if slack is None else slack.forecast()
    if found is None:
        message = (
            f"`control_log` {control_log!r} holds no slack of results; the policy `slack` asks "
            "for it"
        )
        raise InvalidSetting(message)
    return pa.table({"k": pa.array(found.k), "recall": pa.array(found.recall)})


def late(spark: SparkSession, control_log: str, stream: str) -> DataFrame:
    """The late tuples of a stream, where the join was made with ``late_rows=True``.

    Returns
    -------
    DataFrame
        The tuple as a struct of the columns the query reads, ``delay`` behind its stream, the
        number of results ``lost`` with it, whether it came ``beyond`` the horizon in which losses
        are known, and its ``batch``.

    Raises
    ------
    InvalidSetting
        When there is no such control log, or no late tuple in it.
    """
    rows = spark.read.parquet(_rows_folder(control_log, "late", stream))
    names = [name for name in rows.columns if not name.startswith("__")]
    copies = Window.partitionBy("__batch", PLACE)
    # A tuple with copies has lost results in several cells; one of them owns it.
    lost = sf.when(sf.col(PLACE).isNull(), sf.col("__lost")).otherwise(
        sf.sum("__lost").over(copies)
    )
    return (
        rows.withColumn("__all_lost", lost)
        .where("__owned")
        .select(
            sf.struct(*(f"`{name}`" for name in names)).alias(stream),
            sf.col("__delay").alias("delay"),
            sf.col("__all_lost").alias("lost"),
            sf.col("__beyond").alias("beyond"),
            sf.col("__batch").alias("batch"),
        )
    )


def refused(spark: SparkSession, control_log: str, stream: str) -> DataFrame:
    """The rows of a stream that could not take part, as a struct, with the ``reason``.

    Raises
    ------
    InvalidSetting
        When there is no such control log, or no refused row in it.
    """
    rows = spark.read.parquet(_rows_folder(control_log, "refused", stream))
    names = [name for name in rows.columns if name != "__reason"]
    return rows.select(
        sf.struct(*(f"`{name}`" for name in names)).alias(stream),
        sf.col("__reason").alias("reason"),
    )


def _existing(control_log: str) -> ControlLog:
    log = ControlLog(control_log)
    if not log.exists():
        message = f"`control_log` {control_log!r} holds no batch of a join"
        raise InvalidSetting(message)
    return log


def _rows_folder(control_log: str, kind: str, stream: str) -> str:
    folder = _existing(control_log).rows_folder(kind, stream)
    if folder is None:
        message = f"`control_log` {control_log!r} holds no {kind} rows of stream {stream!r}"
        if kind == "late":
            message += "; they are kept where the join is made with late_rows=True"
        raise InvalidSetting(message)
    return folder


def _refused_by(report: Report) -> Iterator[tuple[str, int]]:
    for s, counts in enumerate(report.refused):
        for reason, n in counts.items():
            yield f"{report.streams[s]}: {reason}", n


def _busiest(report: Report) -> float | None:
    work = report.n_delivered + report.profile.n_produced + report.profile.n_lost
    return report.n_busiest * report.n_cells / work if work else None


def _known(time: int) -> int | None:
    return None if time in (NEVER, FOREVER) else time

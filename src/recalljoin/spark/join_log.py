"""A join that runs or has run, opened to be read: what it did, and the tuples it left out."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import NANOSECONDS_PER, rounded
from recalljoin.query.html_table import html_table
from recalljoin.query.one_stream import computed_text
from recalljoin.query.shown_text import ShownText
from recalljoin.query.spelling import way_out
from recalljoin.spark.batch_planner import CONTROL_LOG
from recalljoin.spark.clocks import Clock
from recalljoin.spark.columns import quoted
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.packing import PLACE, REASON, UNREADABLE
from recalljoin.spark.progress import forecast_table, progress_table
from recalljoin.spark.source_figures import sources_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class JoinLog:
    """What a join did, read from its control log: while it runs, or afterwards.

    Made by :func:`recalljoin.open`. Every method reads what is in the log when it is called.
    """

    def __init__(self, log: ControlLog, spark: SparkSession | None) -> None:
        self._log = log
        self._given = spark

    @property
    def control_log(self) -> str:
        """The folder of the control log."""
        return self._log.folder

    def progress(self) -> DataFrame:
        """What the join has done, one row a batch; of old batches one row a minute, hour or day.

        Returns
        -------
        DataFrame
            When the batch was ``planned``, and how long it ``took`` until all cells had reported.
            K (and where K changes inside a batch, all its values in turn), an interval; watermark
            and base time, timestamps or integers as ``result_time`` is. The ``target``, and
            ``below_target``: whether ``recall`` is below it. ``stalled``: the stream for which
            everything waits although nothing comes of it. ``streams``: for each stream its
            ``time``, how far it is ``behind`` the stream that is furthest, its ``lag`` behind the
            driver's clock (null where times are no dates), tuples that ``arrived`` and were
            ``late``, the ``rate`` of tuples a second, and ``idle``, whether others do not wait for
            it any more. ``latency``: how long results of the batch waited on average, which is K
            less the slack they required.
            ``recall`` over the last period, as estimated after the batch: what recall was going to
            be when all late tuples have come. ``recall_at_least``, which recall falls below in one
            of twenty batches at most, going by earlier estimates; 0 where nothing is known of
            these. ``recall_at_most``, which recall never exceeds. ``recall_settled``: the lowest
            recall of any period that ended within the batch, by all that is known now, and null
            until the horizon has passed; with two bounds, between which tuples beyond the horizon
            leave it. Recall is null where there was no result.
            Tuples arrived, late and refused (by reason), results produced and lost, and how often a
            condition was ``uncomputable`` (an overflow or a division by zero), each in the batch
            and in total. Likewise ``nulls``, tuples that left without a partner, and
            ``false_nulls``, those of which a partner was found to have come; produced results do
            not count the latter. ``null_precision``: the share of true ones among the nulls of the
            last period, as known after the batch, and ``null_precision_settled``, by all that is
            known now, null until the horizon has passed; both null where there were none. Tuples
            ``beyond`` the horizon, tuples buffered, and tuples kept (and their ``kept_bytes``); the
            ``horizon``, for which tuples are remembered behind their windows, and whether
            ``horizon_memory`` makes it shorter (``horizon_limited``); ``replication``, copies made
            of a tuple; ``busiest``, the work of the busiest cell, in tuples and results, as a
            multiple of the mean cell's; cells ``restored`` from state; time by stage in seconds,
            over all cells. ``wait``, how far the watermark is behind the slowest stream. Where
            streams have sources: how many ``sources`` have a clock, the ``lead`` that the join may
            have over the slowest one before it stops (null: it stops for none), and while it
            stops, which source it is ``held_by``, and how far that source is behind the slowest
            stream (``held_for``). ``furthest_behind``: the five sources furthest behind the slowest
            stream, each as ``source`` and how far it is ``behind``, whether the join waits for it
            or passes it over because it weighs little. ``sources_behind``: how far 50, 90 and 99 %
            of all sources are behind at most, as ``p50``, ``p90`` and ``p99`` (:meth:`sources` has
            single ones). A watermark that has not begun or has ended
            is null. There are no rows before the first batch has ended.

            Where old batches are rolled up, ``rolled_up`` is ``minute``, ``hour``, ``day`` or
            ``older``; it is null for a single batch. The row is about ``batches`` batches, from
            ``first_batch`` to ``batch``. Counts and seconds are sums; all else is as of the last
            batch, but ``recall_settled`` with its bounds is the lowest that was known when the row
            was put together, and K was between ``k_lowest`` and ``k_highest``.
        """
        return self._spark.createDataFrame(progress_table(self._log))

    def forecast(self) -> DataFrame:
        """What another target would cost: the recall that each wait would have given.

        Returns
        -------
        DataFrame
            The wait ``k``, an interval, and the ``recall`` that it would have given over the last
            period, in ascending order of both; for a join that shows tuples without
            a partner, also the ``null_precision`` that it would have given.

        Raises
        ------
        InvalidSetting
            When the log holds no result of the last period, or when the join's policy does not ask
            for the slack of results.
        """
        return self._spark.createDataFrame(forecast_table(self._log))

    def sources(self) -> DataFrame:
        """How far each source has come, as of the newest batch, the furthest behind first.

        Returns
        -------
        DataFrame
            The ``source``, its ``stream``, the largest ``time`` that has come from it, how far it
            is ``behind`` the slowest stream, its ``lag`` behind the driver's clock (null where
            times are no dates), and the ``batch``. The 400 sources that are furthest behind are
            listed, or fewer if their names are long; ``sources`` and ``sources_behind`` of
            :meth:`progress` tell of all. A source that has sent nothing for two periods is no
            longer followed. No rows where streams have no sources.
        """
        return self._spark.createDataFrame(sources_table(self._log.last_report()))

    def late(self, stream: str) -> DataFrame:
        """The late tuples of a stream, where the join was made with ``late_rows=True``.

        Returns
        -------
        DataFrame
            Each tuple as a struct of the columns that the query reads, its ``delay`` behind its
            stream (an interval), the number of results ``lost`` with the tuple, whether it came
            ``beyond`` the horizon within which losses are known, and its ``batch``.

        Raises
        ------
        InvalidSetting
            When the join has no such stream, or no late tuple of the stream is kept.
        """
        rows = self._spark.read.parquet(*self._row_paths("late", stream))
        names = [name for name in _own(rows.columns) if not name.startswith("__")]
        copies = Window.partitionBy("__batch", PLACE)
        # A tuple with copies has lost results in several cells; one of these cells owns it.
        lost = sf.when(sf.col(PLACE).isNull(), sf.col("__lost")).otherwise(
            sf.sum("__lost").over(copies)
        )
        return (
            rows.withColumn("__all_lost", lost)
            .where("__owned")
            .select(
                sf.struct(*map(quoted, names)).alias(stream),
                self._interval(sf.col("__delay")).alias("delay"),
                sf.col("__all_lost").alias("lost"),
                sf.col("__beyond").alias("beyond"),
                sf.col("__batch").alias("batch"),
            )
        )

    def false_nulls(self, stream: str) -> DataFrame:
        """The tuples of a stream that left without a partner in error.

        They are kept where the join was made with ``late_rows=True``.

        Returns
        -------
        DataFrame
            Each tuple as a struct of the columns that the query reads, and the ``batch`` in which
            its first partner came.

        Raises
        ------
        InvalidSetting
            When the join has no such stream, or no such tuple is kept.
        """
        rows = self._spark.read.parquet(*self._row_paths("false_nulls", stream))
        names = [name for name in _own(rows.columns) if not name.startswith("__")]
        return rows.select(
            sf.struct(*map(quoted, names)).alias(stream), sf.col("__batch").alias("batch")
        )

    def refused(self, stream: str) -> DataFrame:
        """The rows of a stream that could not take part, as a struct, with the ``reason``.

        Where a source decodes text, such as JSON from Kafka, ``text`` has the text of the rows
        that could not be decoded.

        Raises
        ------
        InvalidSetting
            When the join has no such stream, or no row of the stream was refused.
        """
        paths = self._row_paths("refused", stream)
        # Only files with a row that could not be decoded have a column for its text.
        rows = self._spark.read.option("mergeSchema", "true").parquet(*paths)
        names = [name for name in _own(rows.columns) if name not in (REASON, UNREADABLE)]
        text = [sf.col(UNREADABLE).alias("text")] if UNREADABLE in rows.columns else []
        return rows.select(
            sf.struct(*map(quoted, names)).alias(stream), sf.col(REASON).alias("reason"), *text
        )

    def explain(self) -> str:
        """What the join does and how, in words; empty if its release did not write that down."""
        runs = self._log.runs()
        return ShownText(runs[-1].text if runs else "")

    def __repr__(self) -> str:
        told = "; ".join(f"{name} {text}" for name, text in self._told())
        return f"<JoinLog {self._log.shown!r}: {told or 'no batch yet'}>"

    def _repr_html_(self) -> str:
        told = self._told() or [("batch", "none yet")]
        return html_table(f"join {self._log.shown}", told)

    def _told(self) -> list[tuple[str, str]]:
        last = self._log.last_report()
        if last is None:
            return []
        recall = "-" if last.recall_before is None else f"{last.recall_before:.4f}"
        target = "" if last.target is None else f" (target {last.target:g})"
        return [
            ("streams", ", ".join(last.streams)),
            ("batch", f"{last.batch}"),
            ("K", rounded(Clock.of(last).ms(last.k))),
            ("recall", recall + target),
        ]

    @property
    def _spark(self) -> SparkSession:
        if self._given is not None:
            return self._given
        try:
            return SparkSession.active()
        except PySparkException as error:
            message = "there is no Spark session; give one, as in rj.open(control_log, spark=spark)"
            raise InvalidSetting(message) from error

    def _interval(self, units: Column) -> Column:
        """A number in the query's unit as an interval."""
        last = self._log.last_report()
        unit = NANOSECONDS_PER["ms" if last is None else last.unit]
        seconds = units.cast("decimal(20,0)") * sf.lit(Decimal(unit).scaleb(-9))
        return sf.make_dt_interval(secs=seconds.cast("decimal(18,6)"))

    def _row_paths(self, kind: str, stream: str) -> list[str]:
        paths = self._log.row_paths(kind, stream)
        if paths:
            return paths
        named = kind.replace("_", " ")
        message = f"`control_log` {self._log.shown!r} holds no {named} rows of stream {stream!r}"
        last = self._log.last_report()
        if last is not None and stream not in last.streams:
            message += "; " + way_out(stream, last.streams, known_as="streams")
        elif kind in ("late", "false_nulls"):
            message += "; none has come yet, or the join was not made with late_rows=True"
        raise InvalidSetting(message)


def open(
    source: str | os.PathLike[str] | StreamingQuery, *, spark: SparkSession | None = None
) -> JoinLog:
    """Open a join that runs or has run, to read what it did.

    Parameters
    ----------
    source
        The ``control_log`` given to :func:`recalljoin.join`; or the StreamingQuery itself, which
        says where its control log is as soon as its first batch has ended.
    spark
        The session of the DataFrames that are returned; by default the active session.

    Returns
    -------
    JoinLog
        With ``progress()``, ``forecast()``, ``sources()``, ``late(stream)`` and
        ``refused(stream)``.

    Raises
    ------
    InvalidSetting
        When no join has written to the folder; or the query has no join of recalljoin in it, or
        more than one, or has not ended a batch yet.
    """
    folder = os.fspath(source) if isinstance(source, str | os.PathLike) else _folder_of(source)
    log = ControlLog(folder)
    if not log.is_of_a_join():
        message = (
            f"`control_log` {log.shown!r} holds nothing that a join has written; give the folder "
            "that the join was given as `control_log`"
        )
        raise InvalidSetting(message)
    return JoinLog(log, spark)


def _folder_of(query: StreamingQuery) -> str:
    """Where the control log of a query is, by the offsets in its newest progress."""
    if not hasattr(query, "recentProgress"):
        message = (
            "`open` takes the folder of a control log or a StreamingQuery, got "
            f"{type(query).__name__}"
        )
        raise InvalidSetting(message)
    progress = query.recentProgress
    if not progress:
        message = (
            f"query {query.name or query.id} has not ended its first batch, and does not say "
            "where its control log is before; try again later, or give the `control_log` itself"
        )
        raise InvalidSetting(message)
    folders = list(_folders_in(progress[-1]))
    if len(folders) == 1 and folders[0] is not None:
        return folders[0]
    message = f"query {query.name or query.id} "
    if not folders:
        message += "has no join of recalljoin in it"
    elif len(folders) == 1:
        message += (
            "does not say where its control log is, as the address holds a password; give the "
            "`control_log` itself"
        )
    else:
        told = ", ".join(folder for folder in folders if folder is not None)
        message += f"has {len(folders)} joins in it; give the `control_log` of one: {told}"
    raise InvalidSetting(message)


def _folders_in(progress: Any) -> Iterator[str | None]:
    """The control log of each join in a query; None where its address must not be shown."""
    for source in progress["sources"]:
        try:
            offset = json.loads(source["endOffset"] or "null")
        except (TypeError, ValueError):
            continue
        if isinstance(offset, dict) and CONTROL_LOG in offset:
            yield offset[CONTROL_LOG]


def _own(names: list[str]) -> list[str]:
    """Without the columns that Spark computed for the condition."""
    return [name for name in names if computed_text(name) is None]

"""The counts of a batch that the query's own progress shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import functions as sf

from recalljoin.engine.output import time_type
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from pyspark.sql import Column

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.report import Report

COUNTS = "__counts"
"""Name of the column with the counts."""
COUNTS_TYPE = pa.list_(pa.int64())
CLOCKS = ("k", "watermark", "recall")
"""Counts that are the same in all cells. Recall is the last period's when the batch was planned."""
SUMS = (
    "arrived",
    "refused",
    "late",
    "buffered",
    "delivered",
    "produced",
    "lost",
    "nulls",
    "false_nulls",
)
"""Counts that are added up over the cells."""
_ONE = 10**12
"""The number that stands for a recall of 1, as counts are whole numbers."""


def counts_of(report: Report) -> list[int | None]:
    """The counts of a cell: first those of :data:`CLOCKS`, then those of :data:`SUMS`."""
    # Every cell knows of all arrivals; only the first cell counts them, so that sums are right.
    is_first = report.cell == 0
    return [
        report.k,
        report.watermark,
        None if report.recall_before is None else round(report.recall_before * _ONE),
        sum(report.n_arrived) if is_first else 0,
        report.n_refused if is_first else 0,
        report.profile.n_late,
        report.n_buffered,
        report.n_delivered,
        report.profile.n_produced,
        report.profile.n_lost,
        report.profile.nulls.total,
        report.profile.false_nulls.total,
    ]


def totals(counts: Column, query: BoundQuery) -> list[Column]:
    """The counts over all cells, as columns to be observed.

    K is a number of milliseconds, ``k_ms``. The watermark has the type of ``result_time``, and is
    null before it has begun and after the end of input.
    """
    at = {name: sf.get(counts, sf.lit(i)) for i, name in enumerate((*CLOCKS, *SUMS))}
    columns = {name: sf.max(at[name]) for name in CLOCKS}
    columns["recall"] /= sf.lit(float(_ONE))
    columns["k_ms"] = columns.pop("k") * sf.lit(NANOSECONDS_PER[query.unit] / NANOSECONDS_PER["ms"])
    columns["watermark"] = _as_time(columns["watermark"], query)
    target = None if query.quality is None else query.quality.recall
    columns["target"] = sf.max(sf.lit(target).cast("double"))
    columns |= {name: sf.coalesce(sf.sum(at[name]), sf.lit(0)) for name in SUMS}
    return [column.alias(name) for name, column in columns.items()]


def _as_time(time: Column, query: BoundQuery) -> Column:
    known = sf.when(~time.isin(int(NEVER), int(FOREVER)), time)
    kind = time_type(query)
    if not pt.is_timestamp(kind):
        return known
    per_us = NANOSECONDS_PER["us"] // NANOSECONDS_PER[query.unit]
    us = known * sf.lit(NANOSECONDS_PER[query.unit] // NANOSECONDS_PER["us"])
    if per_us:
        us = sf.floor(known / sf.lit(per_us)) if per_us > 1 else known
    stamp = sf.timestamp_micros(us.cast("bigint"))
    return stamp if kind.tz is not None else stamp.cast("timestamp_ntz")

"""What a query's own progress shows of the join: counts that leave the cells among the results.

Every cell leaves one more row, in which all is null but the counts. Results have no counts, and are
still folded where counts are observed: single ones do not pass there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column

    from recalljoin.spark.report import Report

COUNTS = "__counts"
"""Name of their column."""
COUNTS_TYPE = pa.list_(pa.int64())
CLOCKS = ("k", "watermark", "recall")
"""The same in all cells. Recall is that of the last period when the batch was planned."""
SUMS = ("arrived", "refused", "late", "buffered", "delivered", "produced", "lost")
"""What cells count each for themselves."""
_ONE = 10**12
"""A recall of 1 among the counts, which are whole numbers."""


def counts_of(report: Report) -> list[int | None]:
    """Clocks and sums of a cell."""
    # What every cell hears of is told by the first alone, so that sums are right.
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
    ]


def totals(counts: Column) -> list[Column]:
    """Clocks and sums over all cells, to be observed."""
    at = {name: sf.get(counts, sf.lit(i)) for i, name in enumerate((*CLOCKS, *SUMS))}
    columns = {name: sf.max(at[name]) for name in CLOCKS}
    columns["recall"] /= sf.lit(float(_ONE))
    columns |= {name: sf.coalesce(sf.sum(at[name]), sf.lit(0)) for name in SUMS}
    return [column.alias(name) for name, column in columns.items()]

"""What a join did, batch by batch, and what other waits would have given, as Arrow tables."""

from __future__ import annotations

from collections import deque
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrays import added
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.null_needs import precision_by_k
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.spark.report import MeasuredRecall, null_precisions, settled_recalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recalljoin.engine.arrays import Int64s
    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.report import Report

_COUNTS = (
    "arrived",
    "refused",
    "late",
    "produced",
    "lost",
    "uncomputable",
    "released_early",
    "nulls",
    "false_nulls",
)
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
        ("buffered_bytes", pa.int64()),
        ("null_precision", pa.float64()),
        ("null_precision_settled", pa.float64()),
        ("wait", pa.int64()),
        ("lead", pa.int64()),
        ("held_by", pa.string()),
        ("held_for", pa.int64()),
        ("sources", pa.int64()),
    ]
)
"""Columns of :func:`progress_table`."""


def progress_table(log: ControlLog) -> pa.Table:
    """What the join of a control log has done, one row a batch.

    :meth:`~recalljoin.spark.join_log.JoinLog.progress` says what the columns mean.
    """
    reports = list(log.reports_after(-1))
    columns = zip(_rows(reports), settled_recalls(reports), null_precisions(reports), strict=True)
    rows = [row | settled | precision for row, settled, precision in columns]
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
            "uncomputable": profile.n_uncomputable,
            "released_early": report.n_early,
            "nulls": profile.nulls.total,
            "false_nulls": profile.false_nulls.total,
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
            "buffered_bytes": report.buffered_bytes,
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
            "wait": _between(report.watermark, report.front),
            "lead": report.lead,
            "sources": report.n_sources,
            **_holding(report),
        }


def _holding(report: Report) -> dict[str, Any]:
    """Which source holds the join up, and how far it is behind; nothing if none does."""
    behind = _between(report.slowest, report.front)
    if behind is None or report.lead is None or behind <= report.lead:
        return {}
    return {"held_by": report.held_by, "held_for": behind}


def _between(begin: int, end: int) -> int | None:
    return None if {begin, end} & {NEVER, FOREVER} else end - begin


def forecast_table(log: ControlLog) -> pa.Table:
    """The recall that each K would have given over the last period.

    Raises
    ------
    InvalidSetting
        When the log does not hold the required slack of results.
    """
    slack: SlackByTime | None = None
    needs: deque[tuple[int, Int64s]] = deque()
    for report in log.reports_after(-1):
        needs.append((report.watermark, report.profile.null_needs))
        while report.watermark != FOREVER and needs[0][0] < report.watermark - report.period:
            needs.popleft()
        width = slot_width(report.period)
        if slack is None or slack.width != width:
            slack = SlackByTime(
                width=width, n_slots=2 * SLOTS_PER_PERIOD, n_open=2 * SLOTS_PER_PERIOD
            )
        slack.observe(report.profile)
    found = None if slack is None else slack.forecast()
    if found is None:
        message = (
            f"`control_log` {log.shown!r} holds no slack of results; the policy `slack` asks for it"
        )
        raise InvalidSetting(message)
    columns = {"k": pa.array(found.k), "recall": pa.array(found.recall)}
    precision = _precision_at(found.k, [each for _, each in needs])
    return pa.table(columns if precision is None else columns | {"null_precision": precision})


def _precision_at(k: Int64s, needs: list[Int64s]) -> pa.Array | None:
    """The precision of nulls that each K would have given; None if there were no nulls."""
    total = reduce(added, needs, np.zeros((3, len(k)), dtype=np.int64))
    if not total.any():
        return None
    return pa.array(precision_by_k(total)[: len(k)])


def _refused_by(report: Report) -> Iterator[tuple[str, int]]:
    for s, counts in enumerate(report.refused):
        for reason, n in counts.items():
            yield f"{report.streams[s]}: {reason}", n


def _busiest(report: Report) -> float | None:
    work = report.n_delivered + report.profile.n_produced + report.profile.n_lost
    return report.n_busiest * report.n_cells / work if work else None


def _known(time: int) -> int | None:
    return None if time in (NEVER, FOREVER) else time

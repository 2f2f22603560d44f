"""What a join did, batch by batch, and what other waits would have given, as Arrow tables."""

from __future__ import annotations

from collections import deque
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrays import added
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.null_needs import precision_by_k
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.spark.figures import MeasuredRecall, settled_figures
from recalljoin.spark.stretch import Stretch

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
        ("first_batch", pa.int64()),
        ("batches", pa.int64()),
        ("rolled_up", pa.string()),
        ("k_lowest", pa.int64()),
        ("k_highest", pa.int64()),
    ]
)
"""Columns of :func:`progress_table`."""


def progress_table(log: ControlLog) -> pa.Table:
    """What the join of a control log has done, one row a batch, or a stretch of old batches.

    :meth:`~recalljoin.spark.join_log.JoinLog.progress` says what the columns mean.
    """
    return pa.Table.from_pylist(list(_rows(_stretches(log))), schema=SCHEMA)


def _stretches(log: ControlLog) -> Iterator[tuple[Stretch, bool]]:
    """All batches in order, with their figures; says which are rolled up."""
    rolled = log.rolled()
    reports = list(log.reports_after(rolled.until))
    minutes = rolled.with_times
    for stretch in rolled.stretches:
        if not stretch.has_times:
            yield stretch, True
    settled = settled_figures([*(each.report for each in minutes), *reports], rolled.since)
    measured = MeasuredRecall(rolled.since)
    for stretch in minutes:
        measured.observe(stretch.report)
        # Losses found later have changed what was known when the stretch was put together.
        yield stretch.with_figures(next(settled)), True
    for report, known in zip(reports, settled, strict=True):
        measured.observe(report)
        then = measured.figures() if report.figures is None else report.figures
        yield Stretch.of(report, then | known), False


def _rows(stretches: Iterable[tuple[Stretch, bool]]) -> Iterator[dict[str, Any]]:
    totals = dict.fromkeys(_COUNTS, 0)
    for stretch, is_rolled in stretches:
        report = stretch.report
        profile = report.profile
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
            **stretch.figures,
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
            "first_batch": stretch.first,
            "batches": stretch.n_batches,
            "rolled_up": stretch.level if is_rolled else None,
            "k_lowest": stretch.k_lowest,
            "k_highest": stretch.k_highest,
        }


def forecast_table(log: ControlLog) -> pa.Table:
    """The recall that each K would have given over the last period.

    Raises
    ------
    InvalidSetting
        When the log does not hold the required slack of results.
    """
    slack: SlackByTime | None = None
    needs: deque[tuple[int, Int64s]] = deque()
    rolled = log.rolled()
    minutes = [stretch.report for stretch in rolled.with_times]
    for report in chain(minutes, log.reports_after(rolled.until)):
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

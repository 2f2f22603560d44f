"""What a join did, batch by batch, and what other waits would have given, as Arrow tables."""

from __future__ import annotations

from collections import deque
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrays import added
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import FOREVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.null_needs import precision_by_k
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.spark.clocks import INTERVAL, Clock
from recalljoin.spark.figures import MeasuredRecall, settled_figures
from recalljoin.spark.health import HealthMeter
from recalljoin.spark.report import BATCH, FEW_SOURCES
from recalljoin.spark.source_figures import WITHIN, between, held_for, lags_within, source_lags
from recalljoin.spark.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from recalljoin.engine.arrays import Int64s
    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.health import StreamHealth
    from recalljoin.spark.report import Report

COUNTS = (
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
"""What is counted in each batch and in total."""


def schema(clock: Clock) -> pa.Schema:
    """Columns of :func:`progress_table`."""
    stream = pa.struct(
        [
            ("time", clock.type),
            ("behind", INTERVAL),
            ("lag", INTERVAL),
            ("arrived", pa.int64()),
            ("late", pa.int64()),
            ("rate", pa.float64()),
            ("idle", pa.bool_()),
        ]
    )
    behind = pa.struct([("source", pa.string()), ("behind", INTERVAL)])
    return pa.schema(
        [
            ("batch", pa.int64()),
            ("planned", pa.timestamp("us", "UTC")),
            ("took", INTERVAL),
            ("k", INTERVAL),
            ("ks", pa.list_(INTERVAL)),
            ("watermark", clock.type),
            ("base_time", clock.type),
            ("target", pa.float64()),
            ("recall", pa.float64()),
            ("below_target", pa.bool_()),
            ("recall_at_least", pa.float64()),
            ("recall_at_most", pa.float64()),
            ("recall_settled", pa.float64()),
            ("recall_settled_at_least", pa.float64()),
            ("recall_settled_at_most", pa.float64()),
            ("null_precision", pa.float64()),
            ("null_precision_settled", pa.float64()),
            ("phase", pa.string()),
            ("stalled", pa.string()),
            ("streams", pa.map_(pa.string(), stream)),
            ("latency", INTERVAL),
            *((name, pa.int64()) for name in COUNTS),
            *((f"total_{name}", pa.int64()) for name in COUNTS),
            ("refused_by", pa.map_(pa.string(), pa.int64())),
            ("beyond", pa.int64()),
            ("buffered", pa.int64()),
            ("buffered_bytes", pa.int64()),
            ("kept", pa.int64()),
            ("kept_bytes", pa.int64()),
            ("horizon", INTERVAL),
            ("horizon_limited", pa.bool_()),
            ("replication", pa.float64()),
            ("busiest", pa.float64()),
            ("restored", pa.int64()),
            ("seconds", pa.map_(pa.string(), pa.float64())),
            ("first_batch", pa.int64()),
            ("batches", pa.int64()),
            ("rolled_up", pa.string()),
            ("k_lowest", INTERVAL),
            ("k_highest", INTERVAL),
            ("wait", INTERVAL),
            ("lead", INTERVAL),
            ("held_by", pa.string()),
            ("held_for", INTERVAL),
            ("sources", pa.int64()),
            ("furthest_behind", pa.list_(behind)),
            ("sources_behind", pa.struct([(name, INTERVAL) for name in WITHIN])),
        ]
    )


def progress_table(log: ControlLog) -> pa.Table:
    """What the join of a control log has done, one row a batch, or a stretch of old batches.

    :meth:`~recalljoin.spark.join_log.JoinLog.progress` says what the columns mean.
    """
    stretches = list(_stretches(log))
    clock = Clock.of(stretches[-1][0].report) if stretches else Clock()
    return pa.Table.from_pylist(list(_rows(stretches, clock)), schema=schema(clock))


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


def _rows(stretches: Iterable[tuple[Stretch, bool]], clock: Clock) -> Iterator[dict[str, Any]]:
    health = HealthMeter()
    totals = dict.fromkeys(COUNTS, 0)
    for stretch, is_rolled in stretches:
        report = stretch.report
        profile = report.profile
        found = health.observe(report, stretch.figures.get("recall"))
        counts = batch_counts(report)
        totals = {name: totals[name] + counts[name] for name in COUNTS}
        took = report.seconds.get(BATCH)
        yield {
            "batch": report.batch,
            "planned": report.clock * 1000 if report.clock else None,
            "took": None if took is None else round(took * 1e6),
            "k": clock.interval(report.k),
            "ks": [clock.interval(k) for _, k in report.adaptations],
            "watermark": clock.time(report.watermark),
            "base_time": clock.time(report.base_time),
            "target": report.target,
            "below_target": found.below_target,
            "stalled": found.stalled,
            "streams": [(each.name, _stream(each, clock)) for each in found.streams],
            "latency": clock.interval(mean_wait(report)),
            **stretch.figures,
            **counts,
            **{f"total_{name}": total for name, total in totals.items()},
            "beyond": profile.n_beyond,
            "buffered": report.n_buffered,
            "buffered_bytes": report.buffered_bytes,
            "kept": report.n_kept,
            "kept_bytes": report.kept_bytes,
            "horizon": clock.interval(report.retention),
            "horizon_limited": report.limited,
            "phase": report.phase,
            "replication": report.n_delivered / counts["arrived"] if counts["arrived"] else None,
            "busiest": busiest(report),
            "restored": report.n_restored,
            "refused_by": list(_refused_by(report)),
            "seconds": [each for each in report.seconds.items() if each[0] != BATCH],
            "first_batch": stretch.first,
            "batches": stretch.n_batches,
            "rolled_up": stretch.level if is_rolled else None,
            "k_lowest": clock.interval(stretch.k_lowest),
            "k_highest": clock.interval(stretch.k_highest),
            "wait": clock.interval(between(report.watermark, report.front)),
            "lead": clock.interval(report.lead),
            **_of_sources(report, clock),
        }


def batch_counts(report: Report) -> dict[str, int]:
    """The counts of a batch, by the names they have in the progress."""
    profile = report.profile
    return {
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


def mean_wait(report: Report) -> int | None:
    """How long the results of a batch waited on average, in the query's unit; None of none.

    A result waits from the arrival of its last member until the wait is over: K less the slack
    that it required. Results that leave at once do not wait.
    """
    produced = report.profile.slack[0].astype(np.float64)
    n = produced.sum()
    if not n:
        return None
    if report.emit == "eager":
        return 0
    # A bin holds the slacks from the K of the bin before it to before its own K.
    slack = np.concatenate((np.zeros(1), ENOUGH[: len(produced) - 1].astype(np.float64)))
    return round(float(np.maximum(0.0, report.k - slack) @ produced / n))


def _of_sources(report: Report, clock: Clock) -> dict[str, Any]:
    """How far sources are behind, and which one holds the join up, if one does."""
    within = {name: clock.interval(length) for name, length in lags_within(report).items()}
    found: dict[str, Any] = {
        "sources": report.n_sources,
        "furthest_behind": [
            {"source": each.name, "behind": clock.interval(each.behind)}
            for each in source_lags(report)[:FEW_SOURCES]
            if each.behind > 0
        ],
        "sources_behind": within or None,
    }
    behind = held_for(report)
    if behind is not None:
        found |= {"held_by": report.held_by, "held_for": clock.interval(behind)}
    return found


def forecast_table(log: ControlLog) -> pa.Table:
    """The recall that each K would have given over the last period.

    Raises
    ------
    InvalidSetting
        When the log does not hold the required slack of results.
    """
    slack: SlackByTime | None = None
    needs: deque[tuple[int, Int64s]] = deque()
    last: Report | None = None
    rolled = log.rolled()
    minutes = [stretch.report for stretch in rolled.with_times]
    for report in chain(minutes, log.reports_after(rolled.until)):
        last = report
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
    if found is None or last is None:
        message = (
            f"`control_log` {log.shown!r} holds no slack of results; the policy `slack` asks for it"
        )
        raise InvalidSetting(message)
    clock = Clock.of(last)
    waits = pa.array([clock.interval(k) for k in found.k.tolist()], INTERVAL)
    columns = {"k": waits, "recall": pa.array(found.recall)}
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


def busiest(report: Report) -> float | None:
    """The work of the busiest cell as a multiple of the mean cell's; None if there was no work."""
    work = report.n_delivered + report.profile.n_produced + report.profile.n_lost
    return max(report.loads) * report.n_cells / work if work else None


def _stream(health: StreamHealth, clock: Clock) -> dict[str, Any]:
    return {
        "time": None if health.time is None else clock.time(health.time),
        "behind": clock.interval(health.behind),
        "lag": None if health.lag_ms is None else health.lag_ms * 1000,
        "arrived": health.arrived,
        "late": health.late,
        "rate": health.rate,
        "idle": health.idle,
    }

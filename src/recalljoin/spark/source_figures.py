"""How far sources are behind, as reports tell it: each one by name, and all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.told_sources import PERCENT
from recalljoin.spark.clocks import INTERVAL, Clock
from recalljoin.spark.health import lag_ms

if TYPE_CHECKING:
    from recalljoin.spark.report import Report

WITHIN = tuple(f"p{percent}" for percent in PERCENT)
"""Names of the shares of all sources of which it is told how far they are behind at most."""


class SourceLag(NamedTuple):
    """How far a source has come, in the query's unit where nothing else is said."""

    name: str | None
    stream: str | None
    """None where an earlier release did not note it."""
    clock: int
    behind: int
    """How far behind the slowest stream; 0 where it is ahead of that stream."""
    lag_ms: int | None
    """Milliseconds behind the driver's clock; None where times are no dates."""


def source_lag(report: Report) -> int | None:
    """How far the slowest source is behind the slowest stream; None where nothing is known."""
    return between(report.slowest, report.front)


def held_for(report: Report) -> int | None:
    """How far the source is behind that holds the join up; None if none does."""
    behind = source_lag(report)
    return None if behind is None or report.lead is None or behind <= report.lead else behind


def source_lags(report: Report) -> list[SourceLag]:
    """The sources that are told by name, the furthest behind first."""
    found = []
    for name, clock, s in report.furthest:
        behind = between(clock, report.front)
        if behind is not None:
            stream = None if s is None else report.streams[s]
            lag = lag_ms(report, clock)
            found.append(SourceLag(name, stream, clock, max(0, behind), lag))
    return found


def lags_within(report: Report) -> dict[str, int]:
    """How far 50, 90 and 99 % of all sources are behind at most; empty where it is not known."""
    behind = [between(clock, report.front) for clock in report.source_clocks]
    known = zip(WITHIN, behind, strict=False)
    return {name: max(0, length) for name, length in known if length is not None}


def sources_table(report: Report | None) -> pa.Table:
    """The sources of the newest batch that are told by name, a row for each.

    :meth:`~recalljoin.spark.join_log.JoinLog.sources` says what the columns mean.
    """
    clock = Clock() if report is None else Clock.of(report)
    schema = pa.schema(
        [
            ("source", pa.string()),
            ("stream", pa.string()),
            ("time", clock.type),
            ("behind", INTERVAL),
            ("lag", INTERVAL),
            ("batch", pa.int64()),
        ]
    )
    rows: list[dict[str, Any]] = []
    if report is not None:
        for each in source_lags(report):
            lag = None if each.lag_ms is None else each.lag_ms * 1000
            row = (each.name, each.stream, clock.time(each.clock), clock.interval(each.behind), lag)
            rows.append(dict(zip(schema.names, (*row, report.batch), strict=True)))
    return pa.Table.from_pylist(rows, schema=schema)


def between(begin: int, end: int) -> int | None:
    """How long it is from one time to another; None where one of them is not known."""
    return None if {begin, end} & {NEVER, FOREVER} else end - begin

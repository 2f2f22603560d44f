"""How a join is after each batch: how far its streams are, who is waited for, and its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from recalljoin.spark.report import Report

_SILENT_BATCHES: Final = 3
"""A stream has stalled only if this many batches in a row had no tuple of it."""
_THIS_CENTURY: Final = 946_684_800_000
"""Start of the year 2000 in milliseconds: smaller integers need not count from 1970."""


class StreamHealth(NamedTuple):
    """One stream after a batch. Times and lengths are in the query's unit."""

    name: str
    time: int | None
    """Largest timestamp so far; None before the first tuple."""
    behind: int | None
    """How far the stream is behind the stream that is furthest ahead."""
    lag_ms: int | None
    """How far the stream is behind the driver's clock; None where times are no dates."""
    arrived: int
    """Tuples of the batch."""
    late: int
    """Tuples that reached the join out of order in the batch."""
    rate: float | None
    """Tuples a second since the batch before was planned."""
    idle: bool
    """Whether other streams do not wait for this one, as nothing has come of it for too long."""


class Health(NamedTuple):
    """A join after a batch."""

    below_target: bool | None
    """Whether recall is below the target; None where one of the two is not known."""
    at_max_wait: bool
    """Whether K has reached ``max_wait``."""
    stalled: str | None
    """The stream for which everything waits although nothing comes of it; None if there is none."""
    streams: tuple[StreamHealth, ...]


class HealthMeter:
    """Follows a join from report to report."""

    def __init__(self) -> None:
        self._clock = 0
        self._n_silent: list[int] = []
        self._seen_at: list[int] = []

    def observe(self, report: Report, recall: float | None) -> Health:
        """Take in a batch.

        Parameters
        ----------
        report
            The batch, over all cells.
        recall
            Recall over the last period.
        """
        furthest = max(report.local_times)
        if not self._n_silent:
            self._n_silent = [0] * len(report.streams)
            self._seen_at = [furthest] * len(report.streams)
        for s, n in enumerate(report.n_arrived):
            self._n_silent[s] = 0 if n else self._n_silent[s] + 1
            if n or self._seen_at[s] == NEVER:
                self._seen_at[s] = furthest
        # A batch that nobody has planned has the clock of the batch before.
        seconds = (report.clock - self._clock) / 1000 if self._clock else 0.0
        self._clock = report.clock
        streams = tuple(
            self._stream(report, s, furthest, seconds) for s in range(len(report.streams))
        )
        below = None
        if report.target is not None and recall is not None:
            below = recall < report.target
        return Health(
            below_target=below,
            at_max_wait=report.max_wait is not None and report.k >= report.max_wait,
            stalled=self._stalled(report, furthest, streams),
            streams=streams,
        )

    def _stream(self, report: Report, s: int, furthest: int, seconds: float) -> StreamHealth:
        time, n = report.local_times[s], report.n_arrived[s]
        idle = bool(report.idle and report.idle[s])
        # The watermark passes a stream only where others no longer wait for it.
        idle |= not n and time < report.watermark < FOREVER
        return StreamHealth(
            name=report.streams[s],
            time=None if time == NEVER else time,
            behind=None if time == NEVER else furthest - time,
            lag_ms=lag_ms(report, time),
            arrived=n,
            late=int(report.profile.late[s].sum()),
            rate=n / seconds if seconds > 0 else None,
            idle=idle,
        )

    def _stalled(
        self, report: Report, furthest: int, streams: tuple[StreamHealth, ...]
    ) -> str | None:
        slowest = min(range(len(streams)), key=lambda s: report.local_times[s])
        is_silent = self._n_silent[slowest] >= _SILENT_BATCHES
        if not is_silent or streams[slowest].idle or not report.n_buffered:
            return None
        if report.watermark == FOREVER or furthest - self._seen_at[slowest] <= report.period:
            return None
        return report.streams[slowest]


def lag_ms(report: Report, time: int) -> int | None:
    """How far a time is behind the driver's clock; None where times are no dates."""
    # A clock on a wall may be hours away from the driver's.
    if time in (NEVER, FOREVER) or report.clock < _THIS_CENTURY or _is_of_a_wall(report):
        return None
    ms = time * NANOSECONDS_PER[report.unit] // NANOSECONDS_PER["ms"]
    return report.clock - ms if ms >= _THIS_CENTURY else None


def _is_of_a_wall(report: Report) -> bool:
    return report.time_type.startswith("timestamp") and "tz=" not in report.time_type

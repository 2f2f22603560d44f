"""How far the streams have come (local times, base time, watermark), and how far back is known.

Only the largest timestamp of each stream matters in a tick: the progress of a tick is a row of
*marks*, one for each stream. With the marks, an operator instance that sees only a share of the
tuples can still follow all streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s


class Advance(NamedTuple):
    """Progress over a few ticks, one row a tick."""

    local_before: Int64s
    """``[tick, stream]``: local times after the tick before."""
    base_before: Int64s
    """Base time after the tick before, which the tick's tuples carry."""
    watermark_before: int
    """Watermark before the first of the ticks."""
    watermarks: Int64s
    """Watermark after each tick."""

    def largest_span(self, base_time: int, tick: Int64s, ts: Int64s) -> int:
        """Largest advance of the base time within one tick.

        Parameters
        ----------
        base_time
            Base time after the last tick.
        tick, ts
            Ticks and timestamps of the tuples. The first base time has no base time before it, and
            its advance is counted from the smallest timestamp.
        """
        base = np.append(self.base_before, base_time)
        known = base[base != NEVER]
        span = int(np.diff(known).max(initial=0))
        first = len(base) - len(known) - 1
        if len(known) and first >= 0:
            begin = int(ts[tick == first].min(initial=known[0]))
            span = max(span, int(known[0]) - begin)
        return span


@dataclass(frozen=True)
class Clocks:
    """How far the streams had come after a tick."""

    local_times: tuple[int, ...]
    base_time: int
    watermark: int

    @classmethod
    def of(cls, progress: Progress) -> Clocks:
        """The clocks as they stand."""
        local_times = tuple(int(t) for t in progress.local_times)
        return cls(local_times, progress.base_time, progress.watermark)

    def put_into(self, progress: Progress) -> None:
        """Set the clocks of ``progress`` to these."""
        progress.local_times = np.array(self.local_times, dtype=np.int64)
        progress.base_time = self.base_time
        progress.watermark = self.watermark


class Remembered(NamedTuple):
    """How far back tuples are kept behind their windows."""

    retention: int
    """How long a tuple is kept after it has left its window."""
    since: int = NEVER
    """From this time on no tuple is missing. Results lost with a tuple from before this time cannot
    be counted: partners of that tuple were forgotten before the retention grew."""

    def counted_since(self, now: int) -> int:
        """Losses with tuples from before this time are not counted, at the join time ``now``."""
        return NEVER if now == NEVER else max(self.since, now - self.retention)

    def changed(self, retention: int, now: int) -> Remembered:
        """The same with another retention, from the join time ``now`` on."""
        since = self.since
        if retention > self.retention and now != NEVER:
            # Tuples forgotten under a shorter retention stay forgotten.
            since = max(since, now - self.retention)
        return Remembered(retention, since)


@dataclass
class Progress:
    """Clocks of all streams.

    Parameters
    ----------
    m
        Number of streams.
    """

    m: int

    def __post_init__(self) -> None:
        self.local_times = np.full(self.m, NEVER, dtype=np.int64)
        self.base_time = NEVER
        self.watermark = NEVER

    def advance(
        self,
        marks: Int64s,
        k: Int64s,
        *,
        idle: NDArray[np.bool_] | None = None,
        release: int = NEVER,
    ) -> Advance:
        """Let ticks pass.

        Parameters
        ----------
        marks
            ``[tick, stream]``: largest timestamp of the tick, NEVER where no tuple came.
        k
            Slack in force in each tick.
        idle
            ``[tick, stream]``: streams that do not hold other streams back, until the tick in
            which the idle stream returns.
        release
            From the first tick on, no stream holds others back before this time.
        """
        first = self.local_times[np.newaxis]
        local = np.maximum.accumulate(np.concatenate((first, marks)), axis=0)
        # A stream that has a tuple in the tick has returned.
        absent = np.zeros_like(marks, dtype=np.bool_) if idle is None else idle & (marks == NEVER)
        counted = np.where(absent, FOREVER, local[1:])
        slowest = counted.min(axis=1, initial=FOREVER)
        # With every stream idle there is no slowest stream, and the base time stands still.
        slowest[slowest == FOREVER] = NEVER
        slowest = np.maximum(slowest, release)
        base = np.maximum.accumulate(np.concatenate(([self.base_time], slowest)))
        known = base[1:] != NEVER
        targets = np.full(len(k), NEVER, dtype=np.int64)
        targets[known] = np.maximum(base[1:][known] - k[known], release)
        watermarks = np.maximum.accumulate(np.concatenate(([self.watermark], targets)))
        self.local_times = local[-1].copy()
        self.base_time = int(base[-1])
        self.watermark = int(watermarks[-1])
        return Advance(local[:-1], base[:-1], int(watermarks[0]), watermarks[1:])

    def finish(self) -> Advance:
        """End of input: the watermark goes to plus infinity."""
        before = self.watermark
        self.watermark = FOREVER
        return Advance(
            self.local_times[np.newaxis],
            np.array([self.base_time]),
            before,
            np.array([FOREVER], dtype=np.int64),
        )


def marks_of(tick: Int64s, stream: NDArray[np.int8], ts: Int64s, *, n_ticks: int, m: int) -> Int64s:
    """The marks of tuples whose ticks are numbered from 0 on."""
    marks = np.full((n_ticks, m), NEVER, dtype=np.int64)
    np.maximum.at(marks, (tick, stream.astype(np.int64)), ts)
    return marks

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


class Held(NamedTuple):
    """How the slowest source holds the join up, tick by tick."""

    slowest: Int64s
    """Clock of the slowest source that matters after each tick; NEVER if there is none."""
    lead: Int64s
    """How far the base time may be ahead of that source in each tick; FOREVER: any distance."""
    max_wait: int = FOREVER
    """How far the watermark may be behind the slowest stream for the sake of a source."""
    before: int = NEVER
    """Clock of the slowest source that matters before the first of the ticks."""
    lengths: Int64s | None = None
    """For how many ticks each of them stands, where ticks that change nothing are left out."""


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
    fronts: Int64s
    """Clock of the slowest stream: before the first of the ticks, and after each."""

    def largest_span(self, tick: Int64s, ts: Int64s) -> int:
        """Largest advance of the slowest stream within one tick.

        Parameters
        ----------
        tick, ts
            Ticks and timestamps of the tuples. The first clock has no clock before it, and its
            advance is counted from the smallest timestamp.
        """
        known = self.fronts[self.fronts != NEVER]
        span = int(np.diff(known).max(initial=0))
        first = len(self.fronts) - len(known) - 1
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
    front: int = NEVER
    """Clock of the slowest stream, where sources may hold the base time back."""

    @classmethod
    def of(cls, progress: Progress) -> Clocks:
        """The clocks as they stand."""
        local_times = tuple(int(t) for t in progress.local_times)
        return cls(local_times, progress.base_time, progress.watermark, progress.front)

    def put_into(self, progress: Progress) -> None:
        """Set the clocks of ``progress`` to these."""
        progress.local_times = np.array(self.local_times, dtype=np.int64)
        progress.base_time = self.base_time
        progress.watermark = self.watermark
        progress.front = max(self.front, self.base_time)

    def fronts_after(
        self, marks: Int64s, *, idle: NDArray[np.bool_] | None = None, release: int = NEVER
    ) -> Int64s:
        """Clock of the slowest stream after each tick of some that are still to come."""
        progress = Progress(len(self.local_times))
        self.put_into(progress)
        return progress.fronts_after(marks, idle=idle, release=release)[1][1:]


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
        self.front = NEVER
        """Clock of the slowest stream; without sources the base time is the same."""
        self.base_time = NEVER
        self.watermark = NEVER

    def advance(
        self,
        marks: Int64s,
        k: Int64s,
        *,
        idle: NDArray[np.bool_] | None = None,
        release: int = NEVER,
        held: Held | None = None,
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
        held
            How sources hold the join up; None where streams have no sources.
        """
        local, fronts = self.fronts_after(marks, idle=idle, release=release)
        base = fronts
        if held is not None:
            base = np.maximum(_held_back(fronts[1:], held), release)
            base = np.maximum.accumulate(np.concatenate(([self.base_time], base)))
        known = base[1:] != NEVER
        targets = np.full(len(k), NEVER, dtype=np.int64)
        targets[known] = np.maximum(base[1:][known] - k[known], release)
        if held is not None and held.max_wait != FOREVER:
            known = fronts[1:] != NEVER
            targets[known] = np.maximum(targets[known], fronts[1:][known] - held.max_wait)
        watermarks = np.maximum.accumulate(np.concatenate(([self.watermark], targets)))
        self.local_times = local[-1].copy()
        self.front = int(fronts[-1])
        self.base_time = int(base[-1])
        self.watermark = int(watermarks[-1])
        return Advance(local[:-1], base[:-1], int(watermarks[0]), watermarks[1:], fronts)

    def fronts_after(
        self, marks: Int64s, *, idle: NDArray[np.bool_] | None = None, release: int = NEVER
    ) -> tuple[Int64s, Int64s]:
        """Local times and clock of the slowest stream, before the first tick and after each.

        The parameters are those of :meth:`advance`; nothing is changed.
        """
        first = self.local_times[np.newaxis]
        local = np.maximum.accumulate(np.concatenate((first, marks)), axis=0)
        # A stream that has a tuple in the tick has returned.
        absent = np.zeros_like(marks, dtype=np.bool_) if idle is None else idle & (marks == NEVER)
        counted = np.where(absent, FOREVER, local[1:])
        slowest = counted.min(axis=1, initial=FOREVER)
        # With every stream idle there is no slowest stream, and its clock stands still.
        slowest[slowest == FOREVER] = NEVER
        slowest = np.maximum(slowest, release)
        return local, np.maximum.accumulate(np.concatenate(([self.front], slowest)))

    def finish(self) -> Advance:
        """End of input: the watermark goes to plus infinity."""
        before = self.watermark
        self.watermark = FOREVER
        return Advance(
            self.local_times[np.newaxis],
            np.array([self.base_time]),
            before,
            np.array([FOREVER], dtype=np.int64),
            np.array([self.front, self.front]),
        )


def _held_back(fronts: Int64s, held: Held) -> Int64s:
    """The smaller of the slowest stream's clock and the slowest source's clock plus lead."""
    free = (held.lead == FOREVER) | (held.slowest == NEVER)
    behind = np.where(free, 0, held.slowest) + np.where(free, 0, held.lead)
    return np.where(free, fronts, np.minimum(fronts, behind))


def marks_of(tick: Int64s, stream: NDArray[np.int8], ts: Int64s, *, n_ticks: int, m: int) -> Int64s:
    """The marks of tuples whose ticks are numbered from 0 on."""
    marks = np.full((n_ticks, m), NEVER, dtype=np.int64)
    np.maximum.at(marks, (tick, stream.astype(np.int64)), ts)
    return marks

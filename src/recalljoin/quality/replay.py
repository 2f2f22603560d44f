"""Feeds a pipeline from a recording, step by step, and knows every clock of it in advance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine import drain, ticks_of
from recalljoin.engine.progress import marks_of
from recalljoin.engine.times import NEVER
from recalljoin.quality.arrived import Arrived, Clocks, follow_ticks, follow_tuples, no_clocks
from recalljoin.quality.horizon import Kept
from recalljoin.quality.profiling import profile_of

if TYPE_CHECKING:
    from recalljoin.engine import Arrivals, Pipeline, Step
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.policy import ArrivalPolicy
    from recalljoin.quality.profile import Profile


def adaptation_points(latest: Int64s, *, start: int, interval: int) -> Int64s:
    """Where the clock reaches a boundary ``start + n * interval``, one or several at once.

    Returns the number of steps done when it is time to adapt, for each time.

    Examples
    --------
    Boundaries are at 10, 20, ...; the clock leaps over two of them.

    >>> adaptation_points(np.array([0, 9, 10, 11, 45, 50]), start=0, interval=10)
    array([3, 5, 6])
    """
    boundary = (latest - start) // interval
    reached = np.concatenate((boundary[:1] > 0, boundary[1:] > np.maximum(boundary[:-1], 0)))
    return np.flatnonzero(reached) + 1


class Replay(ABC):
    """A recording on its way through a pipeline, in steps: tuples, or ticks.

    Parameters
    ----------
    pipeline
        A new one.
    arrivals
        The recording.
    """

    arrived: Arrived
    """What is read off each tuple."""
    clocks: Clocks
    """How far the streams have come after each step."""
    arrival_clock: Int64s
    """For each tuple, the clock when it arrived."""
    release_clock: Int64s
    """For each step, the clock when what it releases is released."""

    def __init__(self, pipeline: Pipeline, arrivals: Arrivals) -> None:
        self.pipeline = pipeline
        self.query = pipeline.query
        self.arrivals = arrivals
        self.m = pipeline.m
        self.windows = tuple(stream.window for stream in self.query.streams)
        # Position in the recording of each stream's n-th tuple, one stream after the other.
        self._positions = np.argsort(arrivals.stream, kind="stable")
        sizes = np.bincount(arrivals.stream, minlength=self.m)
        self._firsts = np.cumsum(sizes) - sizes
        self._watermark = NEVER

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Steps of the whole recording."""

    @abstractmethod
    def tuples(self, begin: int, end: int) -> tuple[int, int]:
        """The tuples of some steps, as positions in the recording."""

    @abstractmethod
    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K at each step from ``begin`` to before ``end``, if it changes as tuples arrive."""

    @abstractmethod
    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Take these steps."""

    def adaptation_points(self, *, start: int, interval: int) -> Int64s:
        """After how many steps K is adapted, for each time it is."""
        return adaptation_points(self.clocks.latest, start=start, interval=interval)

    def profile(self, step: Step, begin: int, end: int, *, granularity: int) -> Profile:
        """What there is to learn from the steps that were pushed last."""
        first, last = self.tuples(begin, end)
        return profile_of(
            step,
            self.arrived.take(slice(first, last)),
            granularity=granularity,
            before=self.clocks.local[:, begin - 1] if begin else no_clocks(self.m),
            windows=self.windows,
            tick_span=self.tick_span(begin, end),
        )

    def tick_span(self, begin: int, end: int) -> int:  # noqa: ARG002 - of ticks only
        """Largest advance of the base time within one of these steps, if they are ticks."""
        return 0

    @property
    def kept(self) -> Kept:
        """What is in windows and horizon."""
        return Kept(self.pipeline.n_kept, self.pipeline.kept_bytes)

    def n_delivered(self, begin: int, end: int) -> int:
        """Tuples that arrive in these steps, over all instances."""
        first, last = self.tuples(begin, end)
        return last - first

    def remember_for(self, retention: int) -> None:
        """Change how long tuples are kept behind their windows."""
        self.pipeline.remember_for(retention)

    def flush(self) -> Step:
        """End the input."""
        _, step = drain(self.pipeline.flush())
        return step

    def arrived_at(self, step: Step) -> Int64s:
        """Clock at the arrival of the in-order tuples of a step."""
        numbers = self._firsts[step.stream] + step.row
        clock: Int64s = self.arrival_clock[self._positions[numbers[~step.late]]]
        return clock

    def released_at(self, step: Step, begin: int, end: int, k: Int64s) -> Int64s:
        """Clock at their release, which is when the slowest stream was K ahead of them.

        Per tuple that is as exact as the streams are dense: the Synchronizer also waits for the
        next tuple of every stream.
        """
        base = self.clocks.base[begin:end]
        watermarks = np.where(base == NEVER, NEVER, np.where(base == NEVER, 0, base) - k)
        watermarks = np.maximum.accumulate(np.maximum(watermarks, self._watermark))
        self._watermark = int(watermarks[-1])
        steps = begin + np.searchsorted(watermarks, step.ts[~step.late])
        clock: Int64s = self.release_clock[np.minimum(steps, end - 1)]
        return clock


class TupleReplay(Replay):
    """Tuples come one by one.

    Parameters
    ----------
    pipeline, arrivals
        As in :class:`Replay`.
    clock
        When each tuple arrived; by default the largest timestamp so far tells.
    """

    def __init__(self, pipeline: Pipeline, arrivals: Arrivals, clock: Int64s | None) -> None:
        super().__init__(pipeline, arrivals)
        self.arrived, self.clocks = follow_tuples(
            arrivals.stream, arrivals.ts, before=no_clocks(self.m)
        )
        self.arrival_clock = self.clocks.latest if clock is None else clock
        self.release_clock = self.arrival_clock

    @property
    def n_steps(self) -> int:
        """Number of tuples."""
        return len(self.arrivals)

    def tuples(self, begin: int, end: int) -> tuple[int, int]:
        """The steps themselves."""
        return begin, end

    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K when each tuple arrives."""
        return policy.arrive(self.arrived.delay[begin:end])

    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Let tuples arrive."""
        _, step = drain(self.pipeline.push(self.arrivals.slice(begin, end), k=k))
        return step


class TickReplay(Replay):
    """All tuples of a tick are there at once.

    Parameters
    ----------
    pipeline, arrivals, clock
        As in :class:`TupleReplay`.
    length
        Length of a tick on the arrival column.
    """

    def __init__(
        self, pipeline: Pipeline, arrivals: Arrivals, clock: Int64s | None, length: int
    ) -> None:
        super().__init__(pipeline, arrivals)
        self.tick = ticks_of(arrivals, length)
        n = int(self.tick[-1]) + 1 if len(arrivals) else 0
        self.marks = marks_of(self.tick, arrivals.stream, arrivals.ts, n_ticks=n, m=self.m)
        self.arrived, self.clocks = follow_ticks(
            arrivals.stream, arrivals.ts, self.tick, marks=self.marks, before=no_clocks(self.m)
        )
        # Tuples of tick n are those from _ends[n - 1] to before _ends[n].
        self._ends = np.searchsorted(self.tick, np.arange(n), side="right")
        if clock is None:
            self.arrival_clock = np.maximum.accumulate(arrivals.ts)
            self.release_clock = self.clocks.latest
        else:
            self.arrival_clock = clock
            # A tick is complete when the next begins.
            self.release_clock = clock[: min(n, 1)].sum() + length * np.arange(1, n + 1)

    @property
    def n_steps(self) -> int:
        """Number of ticks, those without a tuple included."""
        return len(self.marks)

    def tuples(self, begin: int, end: int) -> tuple[int, int]:
        """The tuples of some ticks."""
        return int(self._ends[begin - 1]) if begin else 0, int(self._ends[end - 1])

    def tick_span(self, begin: int, end: int) -> int:
        """Largest advance of the base time within one of these ticks."""
        before = max(begin - 1, 0)
        base = self.clocks.base[before:end]
        known = base[base != NEVER]
        span = int(np.diff(known).max(initial=0))
        tick = end - len(known)
        if len(known) and tick >= begin:
            # The first base time has none before it: what its tick spans are all tuples so far.
            first, last = self.tuples(0, tick + 1)
            span = max(span, int(known[0] - self.arrivals.ts[first:last].min()))
        return span

    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K of each tick."""
        first, last = self.tuples(begin, end)
        k = np.concatenate(([policy.k], policy.arrive(self.arrived.delay[first:last])))
        # The tick goes by the largest delay seen in it.
        return k[self._ends[begin:end] - first]

    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Let ticks pass."""
        first, last = self.tuples(begin, end)
        _, step = drain(
            self.pipeline.push_ticks(
                self.arrivals.slice(first, last),
                self.tick[first:last] - begin,
                n_ticks=end - begin,
                k=k,
                marks=self.marks[begin:end],
            )
        )
        return step

"""Feeds cells from a recording, step by step, with the recording's clocks known in advance.

    recording -> shares, one for each cell -> the cells, side by side -> one step, one profile

Every cell sees its share of the tuples, and the progress of all streams. After each step, what the
cells did is put together: results and lost results are added, and a tuple is counted in one cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.arrivals import ticks_of
from recalljoin.engine.progress import Held, marks_of
from recalljoin.engine.step import Rounds, Step, drain, together
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.cell import Cell, Outcome, Share, kept_in
from recalljoin.quality.profile import profile_of_cells
from recalljoin.quality.profiling import Arrived, ClockTable, follow_ticks, follow_tuples, no_clocks
from recalljoin.quality.source_lags import gaps_of, sources_of
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.quality.adaptation import AdaptationClock
    from recalljoin.quality.horizon import Kept
    from recalljoin.quality.policy import ArrivalPolicy
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.source_lags import SourcePlan

TICKS_IN_ALL, TICKS_PER_TUPLE = 10_000_000, 100
"""Ticks that an evaluation goes through one by one, with tuples or without: so many in all, or so
many for each tuple, whichever is more. One stray arrival would take more memory than there is."""


class Replay(ABC):
    """A recording on its way through cells, in steps: tuples, or ticks.

    Parameters
    ----------
    cells
        New cells.
    arrivals
        The recording.
    """

    arrived: Arrived
    """Delay, K_sync and local time of each tuple."""
    clocks: ClockTable
    """How far the streams have come after each step."""
    arrival_clock: Int64s
    """For each tuple, the clock when it arrived."""
    release_clock: Int64s
    """For each step, the clock at which the step releases tuples."""

    earliest: int
    """Smallest timestamp of the first step; 0 if the recording is empty."""
    lead: int = FOREVER
    """How far the base time may be ahead of the slowest source, where streams have sources."""
    leap: int = FOREVER
    """By how much sources must run apart within one tick to be waited for at once."""

    def __init__(self, cells: Sequence[Cell], arrivals: Arrivals) -> None:
        self.cells = cells
        self.query = cells[0].pipeline.query
        self.arrivals = arrivals
        self.m = len(self.query.streams)
        # Position in the recording of each stream's n-th tuple, one stream after the other.
        self._positions = np.argsort(arrivals.stream, kind="stable")
        sizes = np.bincount(arrivals.stream, minlength=self.m)
        self._firsts = np.cumsum(sizes) - sizes
        self._watermark = NEVER
        self._taken: list[Outcome] = []
        self._rounds = Rounds()

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Steps of the whole recording."""

    @abstractmethod
    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K at each step from ``begin`` to before ``end``, for a policy that follows tuples."""

    @abstractmethod
    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Take the steps from ``begin`` to before ``end``."""

    @abstractmethod
    def n_delivered(self, begin: int, end: int) -> int:
        """Tuples that arrive in steps ``begin`` to before ``end``, over all cells, with copies."""

    def adaptation_points(self, clock: AdaptationClock) -> Int64s:
        """For each adaptation of K, the number of steps before."""
        return clock.points(self.clocks.latest, earliest=self.earliest)

    @property
    def profile(self) -> Profile:
        """The profile of the steps that were pushed last."""
        return profile_of_cells([taken.profile for taken in self._taken])

    @property
    def kept(self) -> Kept:
        """What is in windows and horizons of all cells."""
        return kept_in(self.cells)

    def remember_for(self, retention: int) -> None:
        """Change how long tuples are kept behind their windows."""
        for cell in self.cells:
            cell.pipeline.remember_for(retention)

    def flush(self) -> Step:
        """End the input."""
        _, self._taken = drain(self._rounds.run([cell.flush() for cell in self.cells]))
        return self._together()

    def _together(self) -> Step:
        """What the cells did, as a single cell with all tuples would report it."""
        return self._taken[0].step

    def arrived_at(self, step: Step) -> Int64s:
        """Clock at the arrival of the in-order tuples of a step."""
        numbers = self._firsts[step.stream] + step.row
        clock: Int64s = self.arrival_clock[self._positions[numbers[~step.late]]]
        return clock

    def in_effect(self, step: Step, begin: int, end: int, k: Int64s) -> Int64s:
        """K of each step counted from the slowest stream, where sources are waited for as well.

        With this K, and without sources, the same tuples are released.
        """
        fronts, watermarks = step.fronts[1:], step.watermarks
        if self._waits_for_nobody(begin, end) or len(watermarks) < end - begin:
            return k
        known = (fronts != NEVER) & (watermarks != NEVER)
        waits = np.where(known, fronts, 0) - np.where(known, watermarks, 0)
        # While nothing is released, any K will do that releases nothing.
        return np.where(known, waits, np.where(fronts != NEVER, MAX_TIME, k))

    def _waits_for_nobody(self, begin: int, end: int) -> bool:  # noqa: ARG002
        """Whether no source is waited for in some steps."""
        return True

    def watermarks(self, begin: int, end: int, k: Int64s) -> tuple[Int64s, Int64s]:
        """How far the join had come after each step, and how far that is behind the slowest stream.

        ``k`` counts from the slowest stream. The second array leaves out steps before all streams
        had begun. Where tuples arrive one by one this is as exact as the streams are dense: the
        Synchronizer also waits for the next tuple of every stream.
        """
        base = self.clocks.base[begin:end]
        known = base != NEVER
        watermarks = np.where(known, np.where(known, base, 0) - k, NEVER)
        watermarks = np.maximum.accumulate(np.maximum(watermarks, self._watermark))
        self._watermark = int(watermarks[-1])
        return watermarks, base[known] - watermarks[known]

    def released_at(self, step: Step, begin: int, end: int, watermarks: Int64s) -> Int64s:
        """Clock at the release of these tuples: when the join had come to each of them."""
        steps = begin + np.searchsorted(watermarks, step.ts[~step.late])
        clock: Int64s = self.release_clock[np.minimum(steps, end - 1)]
        return clock


class TupleReplay(Replay):
    """Tuples come one by one.

    Parameters
    ----------
    cell
        The only cell.
    arrivals
        As in :class:`Replay`.
    clock
        When each tuple arrived; by default the largest timestamp so far tells.
    """

    def __init__(self, cell: Cell, arrivals: Arrivals, clock: Int64s | None) -> None:
        super().__init__([cell], arrivals)
        self.arrived, self.clocks = follow_tuples(
            arrivals.stream, arrivals.ts, before=no_clocks(self.m)
        )
        self.arrival_clock = self.clocks.latest if clock is None else clock
        self.release_clock = self.arrival_clock
        self.earliest = int(arrivals.ts[0]) if len(arrivals) else 0

    @property
    def n_steps(self) -> int:
        """Number of tuples."""
        return len(self.arrivals)

    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K when each tuple arrives."""
        return policy.arrive(self.arrived.delay[begin:end])

    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Let tuples arrive."""
        _, taken = drain(self.cells[0].push(self.arrivals.slice(begin, end), k))
        self._taken = [taken]
        return taken.step

    def n_delivered(self, begin: int, end: int) -> int:
        """As many tuples as steps."""
        return end - begin


class TickReplay(Replay):
    """All tuples of a tick are there at once.

    Parameters
    ----------
    cells, arrivals
        As in :class:`Replay`.
    clock
        When each tuple arrived; by default the largest timestamp so far tells.
    length
        Length of a tick on the arrival column.
    batch
        Length of a micro-batch; K adapts only at the end of one. By default every tick is one.
    shares
        What each cell holds of the recording; by default the only cell holds all.
    sources
        How sources are followed, if streams have any.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        arrivals: Arrivals,
        clock: Int64s | None,
        length: int,
        *,
        batch: int | None = None,
        shares: Sequence[Share] | None = None,
        sources: SourcePlan | None = None,
    ) -> None:
        super().__init__(cells, arrivals)
        self.tick = ticks_of(arrivals, length)
        n = int(self.tick[-1]) + 1 if len(arrivals) else 0
        if n > max(TICKS_IN_ALL, TICKS_PER_TUPLE * len(arrivals)):
            message = (
                f"there are {n} ticks between the first and the last arrival, and {len(arrivals)} "
                "tuples; write a longer `tick`, or leave the stray arrivals out"
            )
            raise InvalidSetting(message)
        self.marks = marks_of(self.tick, arrivals.stream, arrivals.ts, n_ticks=n, m=self.m)
        self.arrived, self.clocks = follow_ticks(
            arrivals.stream, arrivals.ts, self.tick, marks=self.marks, before=no_clocks(self.m)
        )
        self.slowest: Int64s | None = None
        numbers = None if sources is None else sources_of(self.query, arrivals)
        if sources is not None and numbers is not None:
            self._max_wait = sources.max_wait
            ones = np.ones(len(arrivals), dtype=np.int64)
            self.slowest, _ = sources.clocks().advance(
                self.tick, numbers, arrivals.ts, ones, self.clocks.base
            )
            gaps = gaps_of(self.clocks.base, self.slowest)
            # Before all streams have begun, sources are not apart.
            grown = np.where(self.clocks.base[:-1] != NEVER, np.diff(gaps), 0)
            self._grown = np.append(0, grown)
        self.shares = shares or [Share.whole(arrivals, self.tick)]
        # The tuples of tick n are at the positions from _ends[n - 1] to before _ends[n].
        self._ends = np.searchsorted(self.tick, np.arange(n), side="right")
        self.earliest = int(arrivals.ts[: self._ends[0]].min()) if n else 0
        self._by_batch = batch is not None or len(cells) > 1
        self.batch_ends = np.arange(1, n + 1)
        if batch is not None:
            # A micro-batch holds whole ticks: all ticks that begin within it.
            ends = -(-np.arange(1, -(-n * length // batch) + 1) * batch // length)
            self.batch_ends = np.unique(np.minimum(ends, n))
        if clock is None:
            self.arrival_clock = np.maximum.accumulate(arrivals.ts)
            self.release_clock = self.clocks.latest
        else:
            self.arrival_clock = clock
            # A tick is complete when the next begins.
            self.release_clock = clock[: min(n, 1)].sum() + length * np.arange(1, n + 1)

    @property
    def n_steps(self) -> int:
        """Number of ticks, including ticks without a tuple."""
        return len(self.marks)

    def adaptation_points(self, clock: AdaptationClock) -> Int64s:
        """Ends of the micro-batches in which the clock reaches the end of an interval."""
        latest = self.clocks.latest[self.batch_ends - 1]
        points: Int64s = self.batch_ends[clock.points(latest, earliest=self.earliest) - 1]
        return points

    def slack_of(self, policy: ArrivalPolicy, begin: int, end: int) -> Int64s:
        """K of each tick: no cell can follow the tuples of all other cells one by one."""
        if self._by_batch:
            return np.full(end - begin, policy.k, dtype=np.int64)
        first, last = int(self._ends[begin - 1]) if begin else 0, int(self._ends[end - 1])
        k = np.concatenate(([policy.k], policy.arrive(self.arrived.delay[first:last])))
        # K of a tick follows the largest delay in the tick.
        return k[self._ends[begin:end] - first]

    def _leads(self, begin: int, end: int) -> Int64s:
        """The lead in each tick: none where sources have leapt apart."""
        return np.where(self._grown[begin:end] > self.leap, 0, self.lead)

    def _waits_for_nobody(self, begin: int, end: int) -> bool:
        return self.slowest is None or bool((self._leads(begin, end) == FOREVER).all())

    def push(self, begin: int, end: int, k: Int64s) -> Step:
        """Let ticks pass in all cells."""
        works = []
        held = None
        if self.slowest is not None:
            leads = self._leads(begin, end)
            held = Held(
                self.slowest[begin:end],
                leads,
                self._max_wait if (leads < FOREVER).any() else FOREVER,
                int(self.slowest[begin - 1]) if begin else NEVER,
            )
        for cell, share in zip(self.cells, self.shares, strict=True):
            part, tick, flags = share.between(begin, end)
            marks = self.marks[begin:end]
            works.append(cell.push_ticks(part, tick, k=k, marks=marks, held=held, flags=flags))
        _, self._taken = drain(self._rounds.run(works))
        return self._together()

    def n_delivered(self, begin: int, end: int) -> int:
        """Tuples that arrive in these ticks, copies included."""
        return sum(share.n_between(begin, end) for share in self.shares)

    def _together(self) -> Step:
        """The steps of all cells put together, without sizes of the cross join."""
        if len(self.cells) == 1:
            return super()._together()
        steps = [taken.step for taken in self._taken]
        # A late tuple is late in every cell with a copy, and taken once. A tuple in order is taken
        # from every cell, as each copy has results of its own.
        kept = [~taken.step.late | taken.counted for taken in self._taken]

        def chosen(columns: list[NDArray[Any]]) -> NDArray[Any]:
            return np.concatenate([each[keep] for each, keep in zip(columns, kept, strict=True)])

        rows = []
        for share, step in zip(self.shares, steps, strict=True):
            row = np.zeros(len(step.row), dtype=np.int64)
            for s, numbers in enumerate(share.rows):
                mine = step.stream == s
                row[mine] = numbers[step.row[mine]]
            rows.append(row)
        # Results of different steps are in order of time; results of one step are sorted here.
        order = np.argsort(chosen([step.ts for step in steps]), kind="stable")

        def column(name: str) -> NDArray[Any]:
            return chosen([getattr(step, name) for step in steps])[order]

        names = ("stream", "ts", "delay", "base", "now", "late", "n_join", "n_cross", "beyond")
        bins = max(step.slack.shape[1] for step in steps)
        slack = np.zeros((2, bins), dtype=np.int64)
        for step in steps:
            slack[:, : step.slack.shape[1]] += step.slack
        columns: dict[str, Any] = {name: column(name) for name in names}
        return Step(
            **columns,
            told=together([step.told for step in steps]),
            row=chosen(rows)[order],
            lost_ts=np.concatenate([step.lost_ts for step in steps]),
            lost_n=np.concatenate([step.lost_n for step in steps]),
            slack=slack,
            join_time=steps[0].join_time,
            base_time=steps[0].base_time,
            counted_since=steps[0].counted_since,
            tick_span=max(step.tick_span for step in steps),
            fronts=steps[0].fronts,
            watermarks=steps[0].watermarks,
            n_uncomputable=sum(step.n_uncomputable for step in steps),
        )

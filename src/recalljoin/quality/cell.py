"""One cell: an operator instance, which of its tuples are counted in it, and what it shows.

A cell may hold copies of tuples that other cells hold as well. Each tuple is counted in one cell
only, so that the profiles of all cells add up to the profile of the join. Streaming queries, joins
of recordings and evaluations all run their tuples through this class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.horizon import Kept
from recalljoin.quality.profiling import follow_ticks, follow_tuples, profile_of
from recalljoin.quality.source_lags import lags_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.engine.pipeline import Pipeline
    from recalljoin.engine.progress import Held
    from recalljoin.engine.step import Step
    from recalljoin.quality.followed import FollowedSources
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.profiling import Arrived
    from recalljoin.quality.settings import PolicySettings
    from recalljoin.quality.tally import Tally

    Flags = Sequence[NDArray[np.bool_] | None]
    """For each stream which tuples are the copy that counts; None where the cell's place decides.
    """


class Owned:
    """For every tuple a cell still knows, by its row number, whether this cell counts it.

    Most tuples need no flag: whether they count follows from their stream and the cell's place in
    the grid. Tuples come with a flag only while some keys are hot.

    Parameters
    ----------
    by_stream
        Whether tuples without a flag count, for each stream.
    """

    def __init__(self, by_stream: NDArray[np.bool_]) -> None:
        self.by_stream = by_stream
        m = len(by_stream)
        self._flags: list[NDArray[np.bool_] | None] = [None] * m
        self._first = [0] * m
        self._end = [0] * m

    def append(self, s: int, n: int, flags: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Take in the flags of a stream's next ``n`` tuples, and return which tuples count."""
        told = np.full(n, self.by_stream[s]) if flags is None else flags
        known = self._flags[s]
        if known is not None:
            self._flags[s] = np.concatenate((known, told))
        elif flags is not None and n:
            self._flags[s], self._first[s] = flags, self._end[s]
        self._end[s] += n
        return told

    def at(self, stream: NDArray[np.int8], row: Int64s) -> NDArray[np.bool_]:
        """Which tuples, given by stream and row number, this cell counts."""
        counts: NDArray[np.bool_] = self.by_stream[stream]
        for s, flags in enumerate(self._flags):
            if flags is not None:
                mine = (stream == s) & (row >= self._first[s])
                counts[mine] = flags[row[mine] - self._first[s]]
        return counts

    @property
    def is_all(self) -> bool:
        """Whether every tuple counts."""
        return bool(self.by_stream.all()) and all(flags is None for flags in self._flags)

    def n_flags(self, s: int) -> int:
        """How many tuples of a stream have a flag."""
        flags = self._flags[s]
        return 0 if flags is None else len(flags)

    def forget_before(self, s: int, row: int) -> None:
        """Forget a stream's tuples with row numbers below ``row``; nobody will ask for them."""
        flags = self._flags[s]
        if flags is None:
            return
        left = flags[max(0, row - self._first[s]) :]
        is_plain = bool((left == self.by_stream[s]).all())
        self._flags[s] = None if is_plain else left.copy()
        self._first[s] = max(row, self._first[s])


@dataclass(frozen=True)
class Measures:
    """How the profiles of a join's cells count.

    Parameters
    ----------
    windows
        Window sizes of the streams.
    granularity
        Step in which delays are counted.
    bucket
        Width of the buckets in which results are counted by their time.
    """

    windows: tuple[int, ...]
    granularity: int
    bucket: int

    @classmethod
    def of(cls, settings: PolicySettings) -> Measures:
        """As a policy wants its profiles."""
        return cls(settings.windows, settings.g, settings.bucket)


@dataclass(frozen=True)
class Outcome:
    """What became of the tuples a cell was given."""

    step: Step
    arrived: Arrived
    owned: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None
    """Which of the tuples that arrived, and of the tuples in the step, this cell counts; None: all.
    """
    earliest: int
    """Smallest timestamp of the tuples that arrived; FOREVER if no tuple arrived."""
    before: Int64s
    """Local times of the streams before the tuples arrived."""
    measures: Measures
    whole: bool
    one_by_one: bool
    lags: tuple[Tally, Tally] | None = None
    """How far tuples and sources were behind, where streams have sources."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which tuples of the step this cell counts."""
        return np.ones(len(self.step.ts), dtype=np.bool_) if self.owned is None else self.owned[1]

    @cached_property
    def profile(self) -> Profile:
        """The profile of what happened."""
        profile = profile_of(
            self.step,
            self.arrived,
            granularity=self.measures.granularity,
            before=self.before,
            windows=self.measures.windows,
            bucket=self.measures.bucket,
            owned=self.owned,
            whole=self.whole,
            tick_span=self.step.tick_span,
        )
        if self.lags is not None:
            profile = replace(profile, lags=self.lags[0], gaps=self.lags[1])
        # The tuples of a tick have no order among themselves, and each cell counts its own.
        return profile if self.one_by_one else replace(profile, arrived=None)


class Cell:
    """One operator instance.

    Parameters
    ----------
    pipeline
        The engine's part of the cell; new, or rebuilt from a state.
    measures
        How its profiles count.
    owned
        Which of its tuples this cell counts; all by default.
    whole
        Whether this is the only cell; then its cross-join sizes are the query's cross-join sizes.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        measures: Measures,
        *,
        owned: Owned | None = None,
        whole: bool = True,
    ) -> None:
        self.pipeline = pipeline
        self._measures = measures
        self._owned = owned or Owned(np.ones(pipeline.m, dtype=np.bool_))
        self._whole = whole
        self.sources: FollowedSources | None = None
        """The sources of all streams, where a running join follows them."""

    @property
    def kept(self) -> Kept:
        """What is in windows and horizon."""
        return Kept(self.pipeline.n_kept, self.pipeline.kept_bytes)

    @property
    def n_buffered(self) -> int:
        """How many of the tuples that this cell counts are waiting."""
        return int(self._owned.at(*self.pipeline.waiting()).sum())

    def push(self, arrivals: Arrivals, k: Int64s) -> Generator[pa.RecordBatch, None, Outcome]:
        """Let tuples arrive one by one; ``k`` has the slack in force at each."""
        before = self.pipeline.local_times
        arrived, _ = follow_tuples(arrivals.stream, arrivals.ts, before=before)
        step = yield from self.pipeline.push(arrivals, k=k)
        return self._taken(step, arrivals, arrived, before, ())

    def push_ticks(
        self,
        arrivals: Arrivals,
        tick: Int64s,
        *,
        k: int | Int64s,
        marks: Int64s,
        idle: NDArray[np.bool_] | None = None,
        release: int = NEVER,
        held: Held | None = None,
        flags: Flags = (),
    ) -> Generator[pa.RecordBatch, None, Outcome]:
        """Let whole ticks arrive; the other parameters go to the pipeline unchanged.

        ``flags`` say which tuples are the copy that counts, for streams whose tuples carry a flag.
        """
        before = self.pipeline.local_times
        arrived, _ = follow_ticks(arrivals.stream, arrivals.ts, tick, marks=marks, before=before)
        step = yield from self.pipeline.push_ticks(
            arrivals, tick, n_ticks=len(marks), k=k, marks=marks, idle=idle, release=release,
            held=held,
        )  # fmt: skip
        taken = self._taken(step, arrivals, arrived, before, flags)
        if held is None:
            return taken
        here = slice(None) if taken.owned is None else taken.owned[0]
        lags = lags_of(arrivals.ts[here], tick[here], step.fronts, held)
        return replace(taken, lags=lags)

    def flush(self) -> Generator[pa.RecordBatch, None, Outcome]:
        """End the input."""
        before = self.pipeline.local_times
        none = np.empty(0, dtype=np.int64)
        arrived, _ = follow_tuples(none.astype(np.int8), none, before=before)
        step = yield from self.pipeline.flush()
        return self._taken(step, None, arrived, before, ())

    def _taken(
        self,
        step: Step,
        arrivals: Arrivals | None,
        arrived: Arrived,
        before: Int64s,
        flags: Flags,
    ) -> Outcome:
        counts_all = self._owned.is_all
        here = np.zeros(len(arrived.stream), dtype=np.bool_)
        if arrivals is not None:
            for s, table in enumerate(arrivals.tables):
                told = self._owned.append(s, table.num_rows, flags[s] if flags else None)
                mine = arrivals.stream == s
                here[mine] = told[arrivals.row[mine]]
        counts_all &= self._owned.is_all
        taken = Outcome(
            step=step,
            arrived=arrived,
            owned=None if counts_all else (here, self._owned.at(step.stream, step.row)),
            earliest=FOREVER if arrivals is None else int(arrivals.ts.min(initial=FOREVER)),
            before=before,
            measures=self._measures,
            whole=self._whole,
            one_by_one=self.pipeline.settings.arrival == "tuple",
        )
        self._forget_flags()
        return taken

    def _forget_flags(self) -> None:
        """Drop flags that nobody can ask for; the cost is in proportion to the flags dropped."""
        in_use = self.pipeline.n_kept + self.pipeline.n_buffered
        for s in range(self.pipeline.m):
            if self._owned.n_flags(s) > 2 * in_use + 4096:
                self._owned.forget_before(s, self.pipeline.oldest_row(s))


def kept_in(cells: Iterable[Cell]) -> Kept:
    """What is in windows and horizons of several cells together."""
    kept = [cell.kept for cell in cells]
    return Kept(sum(each.n_tuples for each in kept), sum(each.n_bytes for each in kept))


@dataclass(frozen=True)
class Share:
    """The tuples of a recording, or of a part of it, that one cell holds."""

    arrivals: Arrivals
    tick: Int64s
    """Tick of each tuple."""
    places: Int64s
    """Position of each tuple in the whole recording, in order of arrival."""
    rows: tuple[Int64s, ...]
    """For each stream, the row numbers that its tuples here have among all tuples of the stream."""
    flags: tuple[NDArray[np.bool_] | None, ...]
    """For each stream, which of its tuples are the copy that counts; None where the cell's place
    tells."""

    @classmethod
    def whole(cls, arrivals: Arrivals, tick: Int64s) -> Share:
        """All tuples, for the only cell."""
        rows = tuple(np.arange(table.num_rows) for table in arrivals.tables)
        return cls(arrivals, tick, np.arange(len(arrivals)), rows, (None,) * len(rows))

    def between(self, begin: int, end: int) -> tuple[Arrivals, Int64s, Flags]:
        """Tuples of the ticks ``begin`` to before ``end``, their ticks counted from 0, and flags.

        The three are arguments of :meth:`Cell.push_ticks`.
        """
        first, last = (int(place) for place in np.searchsorted(self.tick, [begin, end]))
        part = self.arrivals.slice(first, last)
        flags: list[NDArray[np.bool_] | None] = list(self.flags)
        if any(each is not None for each in flags):
            before = np.bincount(self.arrivals.stream[:first], minlength=len(flags))
            for s, (start, table) in enumerate(zip(before, part.tables, strict=True)):
                told = flags[s]
                flags[s] = None if told is None else told[start : start + table.num_rows]
        return part, self.tick[first:last] - begin, flags

    def n_between(self, begin: int, end: int) -> int:
        """How many tuples the ticks from ``begin`` to before ``end`` have."""
        first, last = np.searchsorted(self.tick, [begin, end])
        return int(last - first)

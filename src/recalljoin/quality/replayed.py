"""A join of recorded streams and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import ticks_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.errors import InvalidSetting
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.engine.step import Step
    from recalljoin.quality.record import RunRecord
    from recalljoin.query.bound_query import BoundQuery

SLICE = 1 << 16
"""Number of arrivals pushed at once."""
MOST_TICKS: Final = 1 << 26
"""Most ticks of a recording, with or without tuples, over which K can be adapted."""


@dataclass(frozen=True)
class Recorded:
    """Recorded arrivals and how to join them; the join may be run again and again.

    Parameters
    ----------
    query
        What to join.
    arrivals
        The whole input.
    k
        The fixed wait in the query's unit; None to choose the wait for the query's recall.
    tick
        Length of a tick in the query's unit; None where tuples arrive one by one.
    retention
        How long tuples are remembered; None for as long as the latest tuple needs.
    """

    query: BoundQuery
    arrivals: Arrivals
    k: int | None
    tick: int | None
    retention: int | None

    @cached_property
    def adaptation(self) -> RunRecord | None:
        """How K was chosen; None where it is fixed."""
        if self.k is not None:
            return None
        settings = PolicySettings.of(self.query)
        return run_adaptive(
            self.query,
            self.arrivals,
            make_policy("slack", settings),
            settings,
            arrival="tuple" if self.tick is None else "tick",
            tick=self.tick,
            retention=self.retention,
        )

    @cached_property
    def ticks(self) -> Int64s:
        """The tick of each tuple, where tuples arrive in ticks."""
        assert self.tick is not None
        ticks = ticks_of(self.arrivals, self.tick)
        if self.k is None and len(ticks) and ticks[-1] >= MOST_TICKS:
            message = (
                f"`tick` cuts the recording into more than {MOST_TICKS:,} slices; give a longer one"
            )
            raise InvalidSetting(message)
        return ticks

    @property
    def slack(self) -> int | Int64s:
        """K: one number, or one for each step, which is a tuple or a tick."""
        if self.adaptation is None:
            assert self.k is not None
            return self.k
        return self.adaptation.schedule.expanded()

    def pipeline(self) -> Pipeline:
        """A new operator instance."""
        latest = _latest(self.arrivals)
        settings = EngineSettings(
            arrival="tuple" if self.tick is None else "tick",
            retention=latest if self.retention is None else self.retention,
        )
        return Pipeline(self.query, settings)

    def steps(self) -> Iterator[Generator[pa.RecordBatch, None, Step]]:
        """The join from beginning to end: each step yields results and returns what it counted."""
        pipeline = self.pipeline()
        yield from self._by_tuple(pipeline) if self.tick is None else self._by_tick(pipeline)
        yield pipeline.flush()

    def _by_tuple(self, pipeline: Pipeline) -> Iterator[Generator[pa.RecordBatch, None, Step]]:
        slack = self.slack
        for begin in range(0, len(self.arrivals), SLICE):
            end = min(begin + SLICE, len(self.arrivals))
            k = slack if isinstance(slack, int) else slack[begin:end]
            yield pipeline.push(self.arrivals.slice(begin, end), k=k)

    def _by_tick(self, pipeline: Pipeline) -> Iterator[Generator[pa.RecordBatch, None, Step]]:
        slack = self.slack
        numbers = np.unique(self.ticks)
        if isinstance(slack, int):
            ks = np.full(len(numbers), slack)
        else:
            # A tick without tuples matters where K has changed, as more tuples may be released
            # then. A long silence with the same K is skipped, as nothing can happen in it.
            numbers = np.union1d(numbers, np.flatnonzero(np.diff(slack)) + 1)
            ks = slack[numbers]
        step_of = np.searchsorted(numbers, self.ticks)
        ends = np.searchsorted(step_of, np.arange(len(numbers)), side="right")
        first = begin = 0
        while first < len(numbers):
            # A push holds whole ticks only.
            last = max(first + 1, int(np.searchsorted(ends, begin + SLICE, side="right")))
            end = int(ends[last - 1])
            yield pipeline.push_ticks(
                self.arrivals.slice(begin, end),
                step_of[begin:end] - first,
                n_ticks=last - first,
                k=ks[first:last],
            )
            first, begin = last, end


@dataclass
class _Counts:
    """What a run of the join has counted."""

    produced: int = 0
    lost: int = 0
    late: int = 0
    beyond: int = 0
    uncomputable: int = 0
    left: int = 0
    nulls: int = 0
    false_nulls: int = 0

    def add(self, step: Step) -> None:
        self.left += step.n_left
        if step.told is not None:
            self.nulls += len(step.told.nulls)
            self.false_nulls += len(step.told.false_nulls)
        self.produced += step.n_produced
        self.lost += step.n_lost
        self.late += step.n_late
        self.beyond += int(step.beyond.sum())
        self.uncomputable += step.n_uncomputable


class Replayed:
    """A join of recorded streams and what came of it; made by :func:`recalljoin.replay`.

    The join is run when a result or a count is first asked for. :meth:`table` keeps all results;
    iterating yields the results as Arrow batches while they are produced, and keeps none.
    """

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._counts: _Counts | None = None
        self._table: pa.Table | None = None

    @property
    def query(self) -> BoundQuery:
        """The query, bound to its inputs."""
        return self._recorded.query

    @property
    def refused(self) -> Mapping[tuple[str, str], pa.Table]:
        """Rows that could not take part, by stream and reason."""
        return self._recorded.arrivals.refused

    @property
    def adaptation(self) -> RunRecord | None:
        """How the wait was chosen for a recall: K over time and more; None for a fixed wait."""
        return self._recorded.adaptation

    @property
    def produced(self) -> int:
        """Results produced, without rows that left in error."""
        return self._counted.produced

    @property
    def nulls(self) -> int:
        """Rows that left without a partner; 0 for an inner join."""
        return self._counted.nulls

    @property
    def false_nulls(self) -> int:
        """Rows of these that left in error: a partner came later."""
        return self._counted.false_nulls

    @property
    def null_precision(self) -> float:
        """Share of the rows without a partner that are true; 1 when there are none."""
        return 1 - self.false_nulls / self.nulls if self.nulls else 1.0

    @property
    def lost(self) -> int:
        """True results that were not produced, each counted when its last member came."""
        return self._counted.lost

    @property
    def late(self) -> int:
        """Tuples that reached the join out of order."""
        return self._counted.late

    @property
    def beyond(self) -> int:
        """Late tuples that came too late to count the results lost with them."""
        return self._counted.beyond

    @property
    def uncomputable(self) -> int:
        """How often a condition could not be computed (an overflow, a division by zero).

        The tuples that the condition was checked on count as not matching.
        """
        return self._counted.uncomputable

    @property
    def recall(self) -> float:
        """Results produced as a share of the true results; 1 when there are no true results.

        Tuples can come :attr:`beyond` the horizon only with a ``retention`` of your own. Then the
        true recall may be lower: results lost with these tuples are not counted.
        """
        true = self.produced + self.lost
        return self.produced / true if true else 1.0

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of the results."""
        output = self._recorded.pipeline().output
        return pa.schema([(self.query.count_name, pa.int64())]) if output is None else output.schema

    def table(self) -> pa.Table:
        """All results; for a query that only counts, one row with their number."""
        if self._table is None:
            if self.query.counts_only:
                self._table = pa.table([[self._counted.left]], schema=self.schema)
            else:
                self._table = pa.Table.from_batches(list(self), schema=self.schema)
        return self._table

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        counts = _Counts()
        for batches in self._recorded.steps():
            step = yield from batches
            counts.add(step)
        self._counts = counts

    def __repr__(self) -> str:
        if self._counts is None:
            return "<Replayed: not run yet; ask for table() or recall>"
        nulls = f"{self.nulls:,} nulls, {self.false_nulls:,} of them false; " if self.nulls else ""
        return (
            f"<Replayed: {self.produced:,} results, {self.lost:,} lost, recall {self.recall:.4f}; "
            f"{nulls}{self.late:,} tuples late>"
        )

    @property
    def _counted(self) -> _Counts:
        if self._counts is None:
            for _ in self:
                pass
        assert self._counts is not None
        return self._counts


def _latest(arrivals: Arrivals) -> int:
    """How far the latest tuple is behind the newest tuple of all streams when it arrives."""
    behind = np.maximum.accumulate(arrivals.ts) - arrivals.ts
    return min(int(behind.max(initial=0)), MAX_TIME)

"""Recorded streams through one operator instance: the join without Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from recalljoin.engine import EngineSettings, Pipeline
from recalljoin.engine.ahead import AUTO, max_ahead_of
from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.doubts import doubts_about
from recalljoin.errors import InvalidSetting
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policy import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.query import Quality, Query, parse_query, with_columns, with_usual_arrival
from recalljoin.query.durations import MAX_TIME, DurationLike, in_unit, nanoseconds
from recalljoin.query.options import named_options
from recalljoin.query.stream_columns import data_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from recalljoin.engine import Step
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.record import RunRecord
    from recalljoin.query import BoundQuery, TimeUnit

_LOG = logging.getLogger(__name__)
SLICE = 1 << 16
"""Number of arrivals pushed at once."""
MOST_TICKS: Final = 1 << 26
"""Most ticks of a recording, with or without tuples, over which K can be adapted."""


@dataclass(frozen=True)
class _Input:
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

    def add(self, step: Step) -> None:
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

    def __init__(self, recorded: _Input) -> None:
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
        """Results produced."""
        return self._counted.produced

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
                self._table = pa.table([[self.produced]], schema=self.schema)
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
        return (
            f"<Replayed: {self.produced:,} results, {self.lost:,} lost, recall {self.recall:.4f}; "
            f"{self.late:,} tuples late>"
        )

    @property
    def _counted(self) -> _Counts:
        if self._counts is None:
            for _ in self:
                pass
        assert self._counts is not None
        return self._counts


@named_options
def replay(
    query: str | Query,
    inputs: Mapping[str, pa.Table] | None = None,
    *,
    recall: float | None = None,
    period: DurationLike | None = None,
    k: DurationLike | None = None,
    time: str | None = None,
    arrival: str | None = None,
    tick: DurationLike | None = None,
    retention: DurationLike | None = None,
    max_ahead: DurationLike | None = AUTO,
    time_unit: TimeUnit = "ms",
) -> Replayed:
    """Join recorded streams, without Spark.

    Parameters
    ----------
    query
        Text such as ``SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.id = b.id``, or a query.
    inputs
        The tuples of each stream, by its name. Streams of a query may carry them themselves.
    recall
        Smallest share of the true results to produce, in (0, 1]: the policy ``slack`` chooses how
        long tuples wait, as in :func:`recalljoin.join`. By default what the query says
        (``WITH RECALL``), unless ``k`` is given.
    period
        Recall is aimed at over this long; by default what the query says, else one minute.
    k
        A fixed wait in place of a recall. A larger ``k`` waits longer and loses fewer results.
        Without ``k`` and without a recall, here or in the query, tuples do not wait.
    time
        Column with the event time, for all streams; by default what the query says (``ts``).
    arrival
        Column with the time or position of arrival, for all streams. By default what the query
        says, else ``arrival`` if every input has such a column; otherwise the tables are taken as
        arriving in step, row by row.
    tick
        Let tuples arrive in slices of this length, as a micro-batch engine sees them, instead of
        one by one; needs times of arrival.
    retention
        How long tuples are remembered after they have left their window, to count what is lost;
        by default as long as the latest tuple needs, so that every lost result is counted.
    max_ahead
        A row whose time is further ahead of its stream than this is refused, unless the stream
        goes on from that time or the row arrived no earlier than that time. ``"auto"``: one hour,
        or ten times the longest of windows and period. None takes every time.
    time_unit
        What integer columns of time and arrival count in: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.

    Raises
    ------
    InvalidQuery
        When the query or its target is at fault; the message names every fault.
    InvalidSetting
        When settings contradict each other, or do not fit the inputs.

    Examples
    --------
    >>> import pyarrow as pa
    >>> clicks = pa.table({"ts": [1000, 2000, 9000], "user": ["ada", "bob", "ada"]})
    >>> orders = pa.table({"ts": [3000, 2500, 9500], "user": ["bob", "ada", "ada"]})
    >>> query = "SELECT c.user, c.ts AS clicked, o.ts AS ordered "
    >>> query += "FROM c [5 SEC], o [5 SEC] WHERE c.user = o.user"
    >>> joined = replay(query, {"c": clicks, "o": orders}, k="1 second")
    >>> for row in joined.table().to_pylist():
    ...     print(row)
    {'user': 'ada', 'clicked': 1000, 'ordered': 2500, 'result_time': 2500}
    {'user': 'bob', 'clicked': 2000, 'ordered': 3000, 'result_time': 3000}
    {'user': 'ada', 'clicked': 9000, 'ordered': 9500, 'result_time': 9500}
    >>> joined
    <Replayed: 3 results, 0 lost, recall 1.0000; 0 tuples late>
    """
    if k is not None and (recall is not None or period is not None):
        other = "recall" if recall is not None else "period"
        message = (
            f"`k` is a fixed wait and leaves no use for `{other}`, got {k!r} and "
            f"{recall if recall is not None else period!r}; give one of the two"
        )
        raise InvalidSetting(message)
    stated = parse_query(query) if isinstance(query, str) else query
    tables = data_of(stated, inputs)
    for name, table in tables.items():
        if not isinstance(table, pa.Table):
            message = (
                f"the data of stream `{name}` must be an Arrow table, got {type(table).__name__}; "
                "DataFrames are joined by recalljoin.join, files by recalljoin evaluate"
            )
            raise InvalidSetting(message)
    schemas = {name: table.schema for name, table in tables.items()}
    stated = with_usual_arrival(with_columns(stated, time=time, arrival=arrival), schemas)
    bound = _with_target(stated, recall, period).bind(schemas, time_unit=time_unit)

    def units(value: DurationLike | None, name: str) -> int | None:
        return None if value is None else in_unit(nanoseconds(value, name=name), bound.unit)

    arrivals = arrivals_of(bound, tables, max_ahead=max_ahead_of(bound, max_ahead))
    for doubt in doubts_about(bound, arrivals):
        _LOG.warning("%s", doubt)
    fixed = units(0 if k is None and bound.quality is None else k, "k")
    recorded = _Input(bound, arrivals, fixed, units(tick, "tick"), units(retention, "retention"))
    if tick is not None:
        # Impossible settings are refused now rather than when the results are asked for.
        _ = recorded.ticks
    return Replayed(recorded)


def _with_target(query: Query, recall: float | None, period: DurationLike | None) -> Query:
    """The query, with recall and period replaced where they are given."""
    if recall is None and period is None:
        return query
    if recall is None and query.quality is None:
        message = f"`period` goes with a `recall`, got {period!r} alone; give the recall as well"
        raise InvalidSetting(message)
    given = {"recall": recall, "period": period}
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(query, quality=replace(query.quality or Quality(), **changes))  # type: ignore[arg-type]


def _latest(arrivals: Arrivals) -> int:
    """How far the latest tuple is behind the newest tuple of all streams when it arrives."""
    behind = np.maximum.accumulate(arrivals.ts) - arrivals.ts
    return min(int(behind.max(initial=0)), MAX_TIME)

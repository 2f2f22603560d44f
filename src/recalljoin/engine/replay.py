"""Recorded streams through one operator instance: the join without Spark."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.ahead import AUTO, max_ahead_of
from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.doubts import doubts_about
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.query import Query, parse_query, with_columns
from recalljoin.query.durations import MAX_TIME, DurationLike, in_unit, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from recalljoin.engine.step import Step
    from recalljoin.query import BoundQuery, TimeUnit

_LOG = logging.getLogger(__name__)
SLICE = 1 << 16
"""Arrivals pushed at once."""


@dataclass
class Replay:
    """A join of recorded streams and what came of it.

    Iterating yields the results as Arrow batches while they are produced, once; the counts below
    are complete when it has ended. :meth:`table` does that and keeps everything.
    """

    query: BoundQuery
    refused: Mapping[tuple[str, str], pa.Table]
    """Rows that could not take part, by stream and reason."""
    schema: pa.Schema
    produced: int = 0
    """Results produced."""
    lost: int = 0
    """True results that can no longer be produced, each counted when its last member came."""
    late: int = 0
    """Tuples that reached the join out of order."""
    beyond: int = 0
    """Late tuples too old to count what was lost with them."""
    _steps: Iterator[Generator[pa.RecordBatch, None, Step]] = field(
        default_factory=lambda: iter(()), repr=False
    )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batches in self._steps:
            step = yield from batches
            self.produced += step.n_produced
            self.lost += step.n_lost
            self.late += step.n_late
            self.beyond += int(step.beyond.sum())

    def table(self) -> pa.Table:
        """All results; of a query that only counts, the number in one row."""
        table = pa.Table.from_batches(list(self), schema=self.schema)
        if self.query.counts_only:
            return pa.table([[self.produced]], schema=self.schema)
        return table

    @property
    def recall(self) -> float:
        """Results produced as a share of the true ones; 1 when there are none.

        With tuples :attr:`beyond` the horizon, which only a ``retention`` of your own can cause, it
        is no more than that: what was lost with them is not in it.
        """
        true = self.produced + self.lost
        return self.produced / true if true else 1.0


def replay(
    query: str | Query,
    inputs: Mapping[str, pa.Table],
    *,
    k: DurationLike = 0,
    time: str | None = None,
    arrival: str | None = None,
    tick: DurationLike | None = None,
    retention: DurationLike | None = None,
    max_ahead: DurationLike | None = AUTO,
    time_unit: TimeUnit = "ms",
) -> Replay:
    """Join recorded streams, holding tuples back for ``k``.

    Parameters
    ----------
    query
        Text such as ``SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.id = b.id``, or a query.
    inputs
        The tuples of each stream, by its name.
    k
        How long tuples wait for those that come late. Larger waits longer and loses fewer results.
    time
        Column with the event time, for all streams; by default what the query says (``ts``).
    arrival
        Column with the time or position of arrival, for all streams. Without it the tables
        are taken as arriving in step, row by row.
    tick
        Let tuples arrive in slices of this length, as a micro-batch engine sees them, instead of
        one by one; needs ``arrival`` as a time.
    retention
        How long tuples are remembered after they have left their window, to count what is lost;
        by default as long as the latest tuple needs, so that every lost result is counted.
    max_ahead
        A time further ahead of its stream than this is refused, unless the stream goes on from
        there or the row arrived no earlier. ``"auto"``: one hour, or ten times the longest of
        windows and period. None takes every time.
    time_unit
        What integer columns of time and arrival count in: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.

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
    >>> joined.recall
    1.0
    """
    stated = parse_query(query) if isinstance(query, str) else query
    stated = with_columns(stated, time=time, arrival=arrival)
    schemas = {name: table.schema for name, table in inputs.items()}
    bound = stated.bind(schemas, time_unit=time_unit)

    def units(value: DurationLike, name: str) -> int:
        return in_unit(nanoseconds(value, name=name), bound.unit)

    arrivals = arrivals_of(bound, inputs, max_ahead=max_ahead_of(bound, max_ahead))
    settings = EngineSettings(
        arrival="tuple" if tick is None else "tick",
        retention=_latest(arrivals) if retention is None else units(retention, "retention"),
    )
    pipeline = Pipeline(bound, settings)
    for doubt in doubts_about(bound, arrivals):
        _LOG.warning("%s", doubt)
    slack = units(k, "k")
    count = pa.schema([(bound.count_name, pa.int64())])
    schema = pipeline.output.schema if pipeline.output is not None else count

    def by_tuple() -> Iterator[Generator[pa.RecordBatch, None, Step]]:
        for begin in range(0, len(arrivals), SLICE):
            yield pipeline.push(arrivals.slice(begin, begin + SLICE), k=slack)
        yield pipeline.flush()

    def by_tick(length: int) -> Iterator[Generator[pa.RecordBatch, None, Step]]:
        ticks = ticks_of(arrivals, length)
        begin = 0
        while begin < len(arrivals):
            # Whole ticks only; a long silence is skipped, as nothing can happen in it.
            last = ticks[min(begin + SLICE, len(arrivals)) - 1]
            end = int(np.searchsorted(ticks, last, side="right"))
            numbers, tick_of = np.unique(ticks[begin:end], return_inverse=True)
            part = arrivals.slice(begin, end)
            yield pipeline.push_ticks(part, tick_of, n_ticks=len(numbers), k=slack)
            begin = end
        yield pipeline.flush()

    steps = by_tuple() if tick is None else by_tick(units(tick, "tick"))
    return Replay(bound, arrivals.refused, schema, _steps=steps)


def _latest(arrivals: Arrivals) -> int:
    """How far the tuple that comes latest is behind the newest of all streams."""
    behind = np.maximum.accumulate(arrivals.ts) - arrivals.ts
    return min(int(behind.max(initial=0)), MAX_TIME)

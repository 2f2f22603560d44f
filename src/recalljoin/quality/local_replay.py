"""Recorded streams through one operator instance: the join without Spark."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from recalljoin.engine.ahead import AUTO, max_ahead_of
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.doubts import doubts_about
from recalljoin.errors import InvalidSetting
from recalljoin.quality.replayed import Recorded, Replayed
from recalljoin.query.durations import MAX_TIME, DurationLike, in_unit, nanoseconds, too_long
from recalljoin.query.kinds import SOURCES_IN_TICKS, tick_only_faults
from recalljoin.query.options import named_options
from recalljoin.query.quality import Quality
from recalljoin.query.stream_columns import tables_of, with_columns, with_usual_arrival
from recalljoin.query.text import stated_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.kinds import Emit
    from recalljoin.query.model import Query

_LOG = logging.getLogger(__name__)


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
    emit: Emit | None = None,
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
    emit
        ``"ordered"``: results leave in order, when the watermark passes them. ``"eager"``: they
        leave when their last member has arrived. By default what the query says.

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
    stated = stated_query(query)
    if emit is not None:
        stated = replace(stated, emit=emit)
    if tick is None:
        faults = list(tick_only_faults(stated.how, stated.emit))
        if any(stream.source is not None for stream in stated.streams):
            faults.append(SOURCES_IN_TICKS)
        refused = [f"{fault}: give the length of a `tick`" for fault in faults]
        if refused:
            raise InvalidSetting("; ".join(refused))
    others = "DataFrames are joined by recalljoin.join, files by recalljoin evaluate"
    tables = tables_of(stated, inputs, otherwise=others)
    schemas = {name: table.schema for name, table in tables.items()}
    stated = with_usual_arrival(with_columns(stated, time=time, arrival=arrival), schemas)
    bound = _with_target(stated, recall, period).bind(schemas, time_unit=time_unit)

    def units(value: DurationLike | None, name: str) -> int | None:
        if value is None:
            return None
        length = in_unit(nanoseconds(value, name=name), bound.unit)
        if length > MAX_TIME:
            raise InvalidSetting(too_long(name, value, bound.unit))
        return length

    arrivals = arrivals_of(bound, tables, max_ahead=max_ahead_of(bound, max_ahead))
    for doubt in doubts_about(bound, arrivals):
        _LOG.warning("%s", doubt)
    fixed = units(0 if k is None and bound.quality is None else k, "k")
    recorded = Recorded(bound, arrivals, fixed, units(tick, "tick"), units(retention, "retention"))
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

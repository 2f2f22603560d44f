"""Arrivals: tuples of all streams in the order they came, as columns.

Here, at the edge of the engine, times become integers in the query's unit, and rows without a
usable time are set aside. The rest of the engine can rely on usable integer times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from recalljoin.engine.ahead import far_ahead
from recalljoin.engine.compiled import lean
from recalljoin.engine.times import FAR_AHEAD, NULL_TIME, PER_SECOND, TIME_OUT_OF_RANGE, times_of
from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery, BoundStream


@dataclass(frozen=True)
class Arrivals:
    """A slice of the input.

    Tuple ``i`` is row ``row[i]`` of ``tables[stream[i]]``; the rows of a stream arrive in the order
    of its table.
    """

    tables: tuple[pa.Table, ...]
    stream: NDArray[np.int8]
    row: Int64s
    ts: Int64s
    arrival: Int64s | None = None
    """Arrival time or position of each tuple, if the input says it."""
    arrival_units: int = 1
    """How many units of ``arrival`` make one unit of the query."""
    refused: Mapping[tuple[str, str], pa.Table] = field(default_factory=dict)
    """Rows that cannot take part, by stream and reason."""

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def none(cls, tables: tuple[pa.Table, ...]) -> Arrivals:
        """No tuples; ``tables`` have the columns and no rows."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(tables, np.empty(0, dtype=np.int8), nothing, nothing)

    def slice(self, begin: int, end: int) -> Arrivals:
        """The tuples that came from ``begin`` to before ``end``, by position."""
        stream, row = self.stream[begin:end], self.row[begin:end]
        tables = []
        shifted = row.copy()
        for s, table in enumerate(self.tables):
            rows = row[stream == s]
            first = int(rows[0]) if len(rows) else 0
            tables.append(table.slice(first, len(rows)))
            shifted[stream == s] -= first
        arrival = None if self.arrival is None else self.arrival[begin:end]
        return Arrivals(
            tuple(tables), stream, shifted, self.ts[begin:end], arrival, self.arrival_units
        )


def arrivals_of(
    query: BoundQuery, tables: Mapping[str, pa.Table], *, max_ahead: int | None = None
) -> Arrivals:
    """Put the rows of all streams in order of arrival.

    Streams with an arrival column are merged by that column; ties go by the order of streams in
    the query, then by row. Without arrival columns the tables arrive in step, row by row.

    Parameters
    ----------
    query
        The bound query.
    tables
        The input of each stream, by its name.
    max_ahead
        Refuse times further ahead of their stream, in the query's unit, unless the stream goes on
        from there; None refuses none.
    """
    accepted: list[pa.Table] = []
    times: list[Int64s] = []
    refused: dict[tuple[str, str], pa.Table] = {}
    for stream in query.streams:
        table, ts = _accept(query, stream, _table_of(stream, tables), refused)
        accepted.append(table)
        times.append(ts)
    arrival_unit = _arrival_unit(query)
    positions = [
        _positions(stream, table, query.time_unit, arrival_unit)
        for stream, table in zip(query.streams, accepted, strict=True)
    ]
    known = [stream.arrival is not None for stream in query.streams]
    if any(known) and not all(known):
        missing = ", ".join(
            f"`{s.name}`" for s, k in zip(query.streams, known, strict=True) if not k
        )
        message = f"`arrival` must be given for all streams or for none; {missing} has none"
        raise InvalidSetting(message)
    units = PER_SECOND[arrival_unit] // PER_SECOND[query.unit]
    if max_ahead is not None:
        for s, stream in enumerate(query.streams):
            ahead = _far_ahead(times[s], positions[s], max_ahead, units if all(known) else None)
            if ahead.any():
                refused[stream.name, FAR_AHEAD] = accepted[s].filter(pa.array(ahead))
                accepted[s] = accepted[s].filter(pa.array(~ahead))
                times[s], positions[s] = times[s][~ahead], positions[s][~ahead]
    for s, position in enumerate(positions):
        if (position[1:] < position[:-1]).any():
            # A table need not be in order of arrival; its rows are numbered as they come.
            order = np.argsort(position, kind="stable")
            accepted[s] = accepted[s].take(pa.array(order))
            times[s], positions[s] = times[s][order], position[order]
    n = sum(map(len, positions))
    streams = np.empty(n, dtype=np.int8)
    rows, merged = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    arrival = np.empty(n, dtype=np.int64) if all(known) else None
    # Each stream is in order already. It is put in its places at once, rather than sorted with all
    # others: most of the time would go into memory that is asked for only once.
    for s, position in enumerate(positions):
        places = _places_among(positions, s)
        streams[places] = s
        rows[places] = np.arange(len(position))
        merged[places] = times[s]
        if arrival is not None:
            arrival[places] = position
    return Arrivals(tuple(accepted), streams, rows, merged, arrival, units, refused)


def _places_among(positions: list[Int64s], s: int) -> Int64s:
    """Where the rows of a stream stand among the rows of all streams; ties go by stream."""
    places = np.arange(len(positions[s]))
    for other, position in enumerate(positions):
        if other != s:
            _add_those_before(places, positions[s], position, other < s)
    return places


@lean
def _add_those_before(places: Int64s, mine: Int64s, others: Int64s, ties: bool) -> None:
    """Add to each place how many of ``others`` come before; both are in order."""
    n = 0
    for i in range(len(mine)):
        while n < len(others) and (others[n] < mine[i] or (ties and others[n] == mine[i])):
            n += 1
        places[i] += n


def _far_ahead(
    ts: Int64s, position: Int64s, max_ahead: int, units: int | None
) -> NDArray[np.bool_]:
    """Which rows of a table are absurdly far ahead of their stream; in the order of the table."""
    clock = None if units is None else position // units
    if (np.diff(position) >= 0).all():
        return far_ahead(ts, max_ahead, clock)
    order = np.argsort(position, kind="stable")
    ahead = np.empty(len(ts), dtype=np.bool_)
    ahead[order] = far_ahead(ts[order], max_ahead, None if clock is None else clock[order])
    return ahead


def _table_of(stream: BoundStream, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The table of a stream, by the name of the stream or of its table."""
    by_name = {name.lower(): table for name, table in tables.items()} | dict(tables)
    for name in (stream.name, stream.table):
        for spelling in (name, name.lower()):
            if spelling in by_name:
                return by_name[spelling]
    message = f"there is no table for stream `{stream.name}`; `inputs` has {sorted(tables)}"
    raise InvalidSetting(message)


def ticks_of(arrivals: Arrivals, length: int) -> Int64s:
    """Number of each tuple's tick, counted from the first arrival of all inputs.

    ``length`` is in the query's unit.
    """
    if arrivals.arrival is None:
        message = "ticks are slices of arrival time, so every stream needs an `arrival` column"
        raise InvalidSetting(message)
    if length <= 0:
        message = f"`tick` must be positive, got {length!r}"
        raise InvalidSetting(message)
    first = arrivals.arrival[0] if len(arrivals) else 0
    # A longer tick than any two arrivals are apart has everything, and might not fit in 64 bits.
    ticks: Int64s = (arrivals.arrival - first) // min(
        length * arrivals.arrival_units, 2 * MAX_TIME + 1
    )
    return ticks


def _accept(
    query: BoundQuery,
    stream: BoundStream,
    table: pa.Table,
    refused: dict[tuple[str, str], pa.Table],
) -> tuple[pa.Table, Int64s]:
    """Usable rows and their times; rows that cannot be used go to ``refused``."""
    ts, known = times_of(table.column(stream.time), query.unit, query.time_unit)
    in_range = known & (ts >= -MAX_TIME) & (ts <= MAX_TIME)
    if in_range.all():
        return table, ts
    for reason, faulty in ((NULL_TIME, ~known), (TIME_OUT_OF_RANGE, known & ~in_range)):
        if faulty.any():
            refused[stream.name, reason] = table.filter(pa.array(faulty))
    return table.filter(pa.array(in_range)), ts[in_range]


def _arrival_unit(query: BoundQuery) -> str:
    """The finest among the query's unit and the units of the arrival columns."""
    units = {query.unit}
    for stream in query.streams:
        if stream.arrival is not None:
            kind = stream.schema.field(stream.arrival).type
            units.add(kind.unit if pt.is_timestamp(kind) else query.time_unit)
    return max(units, key=lambda unit: PER_SECOND[unit])


def _positions(stream: BoundStream, table: pa.Table, time_unit: str, arrival_unit: str) -> Int64s:
    """Times of arrival in ``arrival_unit``; integers count in ``time_unit``."""
    if stream.arrival is None:
        return np.arange(table.num_rows)
    column = table.column(stream.arrival)
    if column.null_count:
        message = f"`arrival` of `{stream.name}` must not be null; column {stream.arrival!r} is"
        raise InvalidSetting(message)
    numbers, _ = times_of(column, arrival_unit, time_unit)
    if len(numbers) and (numbers.min() < -MAX_TIME or numbers.max() > MAX_TIME):
        # Differences of arrivals must not overflow either.
        return np.clip(numbers, -MAX_TIME, MAX_TIME)
    return numbers

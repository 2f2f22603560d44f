"""Results on their way to Spark, folded: every tuple once, and by number which tuples meet.

The columns of a tuple with many matches would leave once for each match. In folded results a number
for each member takes the place of the columns, and the receiver looks the columns up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from recalljoin.engine.compiled import lean
from recalljoin.engine.output import Output
from recalljoin.engine.times import times_of
from recalljoin.query.evaluate import evaluate
from recalljoin.query.expressions import Column
from recalljoin.query.kinds import has_nulls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.leaving import Results
    from recalljoin.engine.payload import Payload
    from recalljoin.query.bound_query import BoundQuery

BITS = 17
FEWEST, MOST = 1 << 12, 1 << BITS
"""How many results are folded together: more results have more tuples in common."""
STREAMS_IN_LIST = 3
"""Members of this many streams fit into one number, with ``BITS`` bits each."""
ENOUGH_BYTES = 1 << 24
"""Fewer results are folded together where they would take more bytes."""
MISSING = MOST - 1
"""Place of a partner that there is not: no list is so long, and looking it up gives null."""


class Folded:
    """Builds the folded output of one query.

    A batch has one row of lists. Lists are named by position, as other names belong to the user:

    - :meth:`name`: a column of the output. It has a value for each tuple of its stream.
    - :meth:`time`: for each tuple of a stream its time, unless a column has the time. The time of
      a result, the last column of the output, is the largest time of its members.
    - :meth:`times`: for each result its time, where tuples may leave without a partner.
    - :meth:`members`: for each result the places of its tuples, ``BITS`` bits for each of a few
      streams, the first stream in the lowest bits.
    """

    def __init__(self, query: BoundQuery) -> None:
        self.output = Output(query)
        self.time_type = _coarse_enough(self.output.time_type)
        m, n = len(self.output.shown), len(self.output.schema) - 1
        self.has_nulls = has_nulls(query.how)
        """Whether a result may lack a partner; its time is then in a list of its own."""
        self.stream_of = [_stream_of(query, i) for i in range(n)]
        """For each column but the last, the stream it belongs to."""
        fields = [(self.name(i), self.output.schema.field(i).type) for i in range(n)]
        self.time_in = [self._column_with_time(s) for s in range(m)]
        """For each stream the column that has the stream's time, if any."""
        self.timed = [s for s in range(m) if self.time_in[s] is None]
        """Streams of which no column has the time."""
        if self.has_nulls:
            self.timed = []
            fields.append((self.times(), self.time_type))
        fields += ((self.time(s), self.time_type) for s in self.timed)
        fields += ((self.members(s), pa.int64()) for s in range(0, m, STREAMS_IN_LIST))
        self.schema = pa.schema([(name, pa.list_(kind)) for name, kind in fields])
        self.at_once = FEWEST
        self._seen = [np.empty(0, dtype=np.int32) for _ in query.streams]

    @staticmethod
    def name(i: int) -> str:
        """Name of the list of a column of the output."""
        return f"_{i}"

    @staticmethod
    def time(s: int) -> str:
        """Name of the list of a stream's times."""
        return f"time_{s}"

    @staticmethod
    def times() -> str:
        """Name of the list of the results' times."""
        return "times"

    @staticmethod
    def members(s: int) -> str:
        """Name of the list that has a stream's members."""
        return f"members_{s // STREAMS_IN_LIST}"

    @staticmethod
    def shift(s: int) -> int:
        """By how many bits a stream's members are shifted in their number."""
        return s % STREAMS_IN_LIST * BITS

    def _column_with_time(self, s: int) -> int | None:
        query, stream = self.output.query, self.output.query.streams[s]
        if stream.schema.field(stream.time).type != self.time_type:
            return None
        if query.select is None:
            return s
        expressions = [output.expression for output in query.select]
        time = Column(s, stream.time, self.time_type)
        return expressions.index(time) if time in expressions else None

    def columns_of(self, s: int) -> list[str]:
        """Columns of a stream that are read."""
        time = self.output.query.streams[s].time
        return list(dict.fromkeys([*self.output.columns_of(s), time]))

    def batches(self, results: Results, payloads: list[Payload]) -> Iterator[pa.RecordBatch]:
        """The folded output of results, in batches of a bounded size."""
        begin, n = 0, len(results.ts)
        while begin < n:
            end = min(n, begin + self.at_once)
            batch = self._batch(results.rows[:, begin:end], results.ts[begin:end], payloads)
            if batch.nbytes > ENOUGH_BYTES and end - begin > 1:
                self.at_once = (end - begin) // 2
                continue
            if 4 * batch.nbytes < ENOUGH_BYTES:
                self.at_once = min(2 * self.at_once, MOST // 2 if self.has_nulls else MOST)
            begin = end
            yield batch

    def _batch(self, rows: Int64s, ts: Int64s, payloads: list[Payload]) -> pa.RecordBatch:
        m, n, query = len(self.output.shown), rows.shape[1], self.output.query
        members = np.zeros((-(-m // STREAMS_IN_LIST), n), dtype=np.int64)
        places = [
            self._fold(s, rows[s], payloads[s], members[s // STREAMS_IN_LIST]) for s in range(m)
        ]

        def of_tuple(s: int, name: str) -> pa.Array:
            return payloads[s].column_at(name, places[s])

        values = []
        for i, s in enumerate(self.stream_of):
            if query.select is None:
                names = query.streams[i].schema.names
                values.append(payloads[i].take_at(places[i]).select(names).to_struct_array())
            else:
                values.append(evaluate(query.select[i].expression, of_tuple, len(places[s])))
        if self.has_nulls:
            values.append(_times(ts, query.unit, self.time_type))
        for s in self.timed:
            times, _ = times_of(of_tuple(s, query.streams[s].time), query.unit, query.time_unit)
            values.append(_times(times, query.unit, self.time_type))
        values += map(pa.array, members)
        return pa.RecordBatch.from_arrays([_as_list(each) for each in values], schema=self.schema)

    def _fold(self, s: int, rows: Int64s, payload: Payload, members: Int64s) -> pa.Array:
        """Places of the tuples in the payload; ``members`` gets the tuple of each result."""
        if len(self._seen[s]) < payload.n_rows:
            self._seen[s] = np.full(2 * payload.n_rows, _NOT_SEEN, dtype=np.int32)
        places = np.empty(len(rows), dtype=np.int64)
        n = _number(rows, payload.first, self._seen[s], self.shift(s), members, places)
        return pa.array(places[:n])


_NOT_SEEN = -1


@lean
def _number(
    rows: Int64s, first: int, seen: NDArray[np.int32], shift: int, members: Int64s, places: Int64s
) -> int:
    """Number different rows in the order of first use; ``seen`` is left as it was."""
    n = 0
    for i in range(len(rows)):
        if rows[i] < 0:
            members[i] |= np.int64(MISSING) << shift
            continue
        place = rows[i] - first
        if seen[place] == _NOT_SEEN:
            seen[place] = n
            places[n] = place
            n += 1
        members[i] |= np.int64(seen[place]) << shift
    for i in range(n):
        seen[places[i]] = _NOT_SEEN
    return n


def _coarse_enough(kind: pa.DataType) -> pa.DataType:
    """A type of time that Spark has: its timestamps count microseconds."""
    return pa.timestamp("us", kind.tz) if pt.is_timestamp(kind) and kind.unit == "ns" else kind


def _times(times: Int64s, unit: str, kind: pa.DataType) -> pa.Array:
    if not pt.is_timestamp(kind):
        return pa.array(times)
    return pa.array(times).cast(pa.timestamp(unit, kind.tz)).cast(kind, safe=False)


def _as_list(values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _stream_of(query: BoundQuery, i: int) -> int:
    if query.select is None:
        return i
    (stream,) = query.select[i].expression.streams
    return stream

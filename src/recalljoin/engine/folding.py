"""Results on their way to someone else, folded: every tuple once, and who meets whom by number.

Where a tuple has many matches, its columns would leave once for each of them. Folded, a number for
each member of a result takes their place, and whoever receives them looks the columns up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.compiled import lean
from recalljoin.engine.operator import Results
from recalljoin.engine.output import Output
from recalljoin.query import columns, evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recalljoin.engine.payload import Payload
    from recalljoin.engine.queues import Int64s
    from recalljoin.query import BoundQuery

FEWEST, MOST = 1 << 12, 1 << 17
"""Results folded together: the more, the more often they have a tuple in common."""
ENOUGH_BYTES = 1 << 24
"""Fewer of them are folded together where they take more than that."""


class Folded:
    """Builds the folded output of one query.

    A batch has one row, and in it lists. There is one list for each column of the output, named by
    its place as names are the user's; and one for each stream, named by :meth:`members`, that
    tells for each result its tuple's place in the lists of that stream's columns. A column that
    depends on several streams, and the last one with the result's time, has a value for each
    result.
    """

    def __init__(self, query: BoundQuery) -> None:
        self.output = Output(query)
        n = len(self.output.schema)
        self.stream_of: list[int | None] = [_only_stream(query, i) for i in range(n - 1)] + [None]
        """For each column of the output the stream it depends on, if it is a single one."""
        self.streams = sorted({s for s in self.stream_of if s is not None})
        types = [*self.output.schema.types, *(pa.int32() for _ in self.streams)]
        names = [*map(self.name, range(n)), *map(self.members, self.streams)]
        self.schema = pa.schema([(x, pa.list_(t)) for x, t in zip(names, types, strict=True)])
        self.at_once = FEWEST
        self._seen = [np.empty(0, dtype=np.int32) for _ in query.streams]

    @staticmethod
    def name(i: int) -> str:
        """The list of an output's column."""
        return f"_{i}"

    @staticmethod
    def members(s: int) -> str:
        """The list of a stream's members."""
        return f"members_{s}"

    def columns_of(self, s: int) -> list[str]:
        """Columns of a stream the output reads."""
        return self.output.columns_of(s)

    def batches(self, results: Results, payloads: list[Payload]) -> Iterator[pa.RecordBatch]:
        """The folded output of results, of a bounded size each."""
        begin, n = 0, len(results.ts)
        while begin < n:
            end = min(n, begin + self.at_once)
            part = Results(results.rows[:, begin:end], results.ts[begin:end])
            batch = self._batch(part, payloads)
            if batch.nbytes > ENOUGH_BYTES and end - begin > 1:
                self.at_once = (end - begin) // 2
                continue
            if 4 * batch.nbytes < ENOUGH_BYTES:
                self.at_once = min(2 * self.at_once, MOST)
            begin = end
            yield batch

    def _batch(self, results: Results, payloads: list[Payload]) -> pa.RecordBatch:
        n, query = len(results.ts), self.output.query
        members, places = {}, {}
        for each in self.streams:
            places[each], members[each] = self._fold(each, results.rows[each], payloads[each])

        def of_tuple(s: int, name: str) -> pa.Array:
            return payloads[s].column_at(name, places[s])

        def of_result(s: int, name: str) -> pa.Array:
            return payloads[s].column(name, results.rows[s])

        values = []
        for i, s in enumerate(self.stream_of[:-1]):
            if query.select is None:
                assert s is not None
                values.append(payloads[s].take_at(places[s]).to_struct_array())
            elif s is None:
                values.append(evaluate(query.select[i].expression, of_result, n))
            else:
                values.append(evaluate(query.select[i].expression, of_tuple, len(places[s])))
        values.append(pa.array(results.ts).cast(self.output.time_type))
        values += (pa.array(members[s]) for s in self.streams)
        return pa.RecordBatch.from_arrays([_as_list(each) for each in values], schema=self.schema)

    def _fold(self, s: int, rows: Int64s, payload: Payload) -> tuple[pa.Array, NDArray[np.int32]]:
        """Where the tuples are in the payload, and for each row which of them it is."""
        if len(self._seen[s]) < payload.n_rows:
            self._seen[s] = np.full(2 * payload.n_rows, _NOT_SEEN, dtype=np.int32)
        members, places = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int64)
        n = _number(rows, payload.first, self._seen[s], members, places)
        return pa.array(places[:n]), members


_NOT_SEEN = -1


@lean
def _number(
    rows: Int64s, first: int, seen: NDArray[np.int32], members: NDArray[np.int32], places: Int64s
) -> int:
    """Number different rows as they come; ``seen`` is left as it was."""
    n = 0
    for i in range(len(rows)):
        place = rows[i] - first
        if seen[place] == _NOT_SEEN:
            seen[place] = n
            places[n] = place
            n += 1
        members[i] = seen[place]
    for i in range(n):
        seen[places[i]] = _NOT_SEEN
    return n


def _as_list(values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _only_stream(query: BoundQuery, i: int) -> int | None:
    if query.select is None:
        return i
    streams = {column.stream for column in columns(query.select[i].expression)}
    return streams.pop() if len(streams) == 1 else None

"""The columns that travel with the tuples, kept as Arrow until nobody can ask for them.

Rows are numbered per stream in order of arrival. Rows come in batches and are looked up in any
order, as results need them. Batches are merged as they come, so that a look-up touches few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Int64s


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with views and dictionaries as plain columns of the same values.

    Arrow cannot take rows out of views. Dictionaries of many batches would have to be merged, and
    the merged dictionary would hold every value ever seen.
    """
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


class Payload:
    """Rows of one stream.

    Parameters
    ----------
    schema
        The columns kept.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = plain_schema(schema)
        self.first = 0
        """Number of the oldest row kept."""
        self.end = 0
        """Number of the next row."""
        self._batches: list[pa.RecordBatch] = []

    @property
    def n_rows(self) -> int:
        """Rows kept."""
        return self.end - self.first

    @property
    def n_bytes(self) -> int:
        """Size of the kept rows in memory."""
        return sum(batch.nbytes for batch in self._batches)

    def append(self, table: pa.Table) -> None:
        """Add rows; the table has the schema's columns, perhaps among others."""
        self.end += table.num_rows
        chosen = table.select(self.schema.names)
        if chosen.schema.types != self.schema.types:
            chosen = chosen.cast(self.schema)
        chosen = chosen.combine_chunks()
        self._batches.extend(batch for batch in chosen.to_batches() if batch.num_rows)
        # Like the carry of a binary counter: a batch is copied O(log n) times in all.
        while len(self._batches) > 1 and (
            self._batches[-2].num_rows <= 2 * self._batches[-1].num_rows or len(self._batches) > 24
        ):
            last = self._batches.pop()
            self._batches[-1] = pa.concat_batches([self._batches[-1], last])

    def take(self, rows: Int64s) -> pa.RecordBatch:
        """The rows with the given numbers."""
        return self.take_at(self.places(rows))

    def take_at(self, places: pa.Array) -> pa.RecordBatch:
        """The rows at the given places."""
        if not self._batches:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(len(places), f.type) for f in self.schema], schema=self.schema
            )
        if len(self._batches) == 1:
            return self._batches[0].take(places)
        taken = pa.Table.from_batches(self._batches).take(places).combine_chunks()
        return taken.to_batches()[0] if len(places) else self._batches[0].slice(0, 0)

    def column(self, name: str, rows: Int64s) -> pa.Array:
        """One column of the rows with the given numbers."""
        return self.column_at(name, self.places(rows))

    def places(self, rows: Int64s, *, missing: bool = False) -> pa.Array:
        """Places of the rows with the given numbers, for looking up several columns.

        With ``missing``, a negative number stands for no row, whose columns are all null.
        """
        return pa.array(rows - self.first, mask=rows < 0 if missing else None)

    def column_at(self, name: str, places: pa.Array) -> pa.Array:
        """One column of the rows at the given places."""
        # Row numbers come from the engine; checking each of them would double the cost.
        if not self._batches:
            return pa.nulls(len(places), self.schema.field(name).type)
        if len(self._batches) == 1:
            return pc.take(self._batches[0].column(name), places, boundscheck=False)
        chunks = [batch.column(name) for batch in self._batches]
        column = pa.chunked_array(chunks, type=self.schema.field(name).type)
        column = pc.take(column, places, boundscheck=False)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def forget_before(self, row: int) -> None:
        """Forget rows with numbers below ``row``, which nobody will ask for again."""
        while self._batches and self.first + self._batches[0].num_rows <= row:
            self.first += self._batches.pop(0).num_rows
        if not self._batches:
            self.first = self.end
        elif row - self.first > self._batches[0].num_rows // 2:
            # A slice would keep its whole batch alive, so the remaining rows are copied.
            rest = self._batches[0].slice(row - self.first)
            self._batches[0] = rest.take(pa.array(np.arange(rest.num_rows)))
            self.first = row

    def to_table(self) -> pa.Table:
        """All rows kept."""
        return pa.Table.from_batches(self._batches, schema=self.schema)

    def restore(self, first: int, table: pa.Table) -> None:
        """Take over the rows of :meth:`to_table`, numbered from ``first`` on."""
        self._batches = []
        self.first = self.end = first
        self.append(table)


def size_of(n_tuples: Int64s, payloads: Sequence[Payload], bytes_each: int) -> int:
    """Size of some tuples of each stream, with the columns that travel with each."""
    total = 0.0
    for n, payload in zip(n_tuples, payloads, strict=True):
        row = payload.n_bytes / payload.n_rows if payload.n_rows else 0
        total += int(n) * (bytes_each + row)
    return int(total)

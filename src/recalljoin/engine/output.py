"""From result rows to Arrow: one struct per stream, or the columns the query selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from recalljoin.engine.operator import Received, Results
from recalljoin.engine.payload import plain_schema
from recalljoin.query import BoundQuery, columns, evaluate
from recalljoin.query.outputs import RESULT_TIME

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from recalljoin.engine.payload import Payload


class ResultForm(Protocol):
    """The form in which results leave a pipeline."""

    at_once: int
    """Number of results that are collected before they go out together."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""

    def columns_of(self, s: int) -> list[str]:
        """Columns of a stream that are read."""

    def batches(self, results: Results, payloads: list[Payload]) -> Iterator[pa.RecordBatch]:
        """The results in this form."""


def put_out(
    chunks: Generator[Results, None, Received], form: ResultForm | None, payloads: list[Payload]
) -> Generator[pa.RecordBatch, None, Received]:
    """Let results out in their form, ``form.at_once`` or more at a time.

    Returns what ``chunks`` returns. A pipeline without a form has no chunks.
    """
    held: list[Results] = []
    n_held = 0
    while True:
        try:
            results = next(chunks)
        except StopIteration as end:
            if held and form is not None:
                yield from form.batches(_together(held), payloads)
            received: Received = end.value
            return received
        assert form is not None
        held.append(results)
        n_held += len(results.ts)
        if n_held >= form.at_once:
            yield from form.batches(_together(held), payloads)
            held, n_held = [], 0


def _together(held: list[Results]) -> Results:
    if len(held) == 1:
        return held[0]
    rows, ts = zip(*held, strict=True)
    return Results(np.concatenate(rows, axis=1), np.concatenate(ts))


class Output:
    """Builds the output of one query: a row for each result."""

    at_once = 1

    def __init__(self, query: BoundQuery) -> None:
        self.query = query
        self.time_type = _time_type(query)
        if query.select is None:
            fields = [
                pa.field(s.name, pa.struct(list(plain_schema(s.schema)))) for s in query.streams
            ]
        else:
            fields = [pa.field(column.name, column.expression.type) for column in query.select]
        self.schema = pa.schema([*fields, pa.field(RESULT_TIME, self.time_type)])

    def columns_of(self, s: int) -> list[str]:
        """Columns of a stream the output reads."""
        if self.query.select is None:
            return list(self.query.streams[s].schema.names)
        read = (c for output in self.query.select for c in columns(output.expression))
        return list(dict.fromkeys(c.name for c in read if c.stream == s))

    def batches(self, results: Results, payloads: list[Payload]) -> Iterator[pa.RecordBatch]:
        """The output of a chunk of results."""
        n = len(results.ts)
        arrays = []
        if self.query.select is None:
            for s, (payload, rows) in enumerate(zip(payloads, results.rows, strict=True)):
                arrays.append(payload.take(rows).select(self.columns_of(s)).to_struct_array())
        else:
            places = [p.places(rows) for p, rows in zip(payloads, results.rows, strict=True)]

            def column(s: int, name: str) -> pa.Array:
                return payloads[s].column_at(name, places[s])

            arrays = [evaluate(output.expression, column, n) for output in self.query.select]
        arrays.append(pa.array(results.ts).cast(self.time_type))
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _time_type(query: BoundQuery) -> pa.DataType:
    for stream in query.streams:
        kind = stream.schema.field(stream.time).type
        if pt.is_timestamp(kind):
            return pa.timestamp(query.unit, kind.tz)
    return pa.int64()

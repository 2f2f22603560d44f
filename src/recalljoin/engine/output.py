"""From result rows to Arrow: one struct per stream, or the columns the query selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from recalljoin.engine.leaving import Results
from recalljoin.engine.payload import plain_schema
from recalljoin.query.bound_query import RESULT_TIME
from recalljoin.query.evaluate import evaluate
from recalljoin.query.expressions import columns
from recalljoin.query.kinds import shown

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from recalljoin.engine.payload import Payload
    from recalljoin.engine.received import Received
    from recalljoin.query.bound_query import BoundQuery


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
        self.time_type = time_type(query)
        self.shown = shown(query.how, len(query.streams))
        """The streams whose columns come out."""
        if query.select is None:
            fields = [
                pa.field(s.name, pa.struct(list(plain_schema(s.schema))))
                for s in (query.streams[at] for at in self.shown)
            ]
        else:
            fields = [pa.field(column.name, column.expression.type) for column in query.select]
        self.schema = pa.schema([*fields, pa.field(RESULT_TIME, self.time_type)])

    def columns_of(self, s: int) -> list[str]:
        """Columns of a stream the output reads."""
        read = [c for part in self.query.where for c in columns(part)]
        if self.query.select is None:
            names = list(self.query.streams[s].schema.names) if s in self.shown else []
        else:
            names = []
            read += (c for output in self.query.select for c in columns(output.expression))
        return list(dict.fromkeys([*names, *(c.name for c in read if c.stream == s)]))

    def batches(self, results: Results, payloads: list[Payload]) -> Iterator[pa.RecordBatch]:
        """The output of a chunk of results."""
        missing = self.query.how != "inner"
        rows, ts = results
        places = [p.places(r, missing=missing) for p, r in zip(payloads, rows, strict=True)]

        def column(s: int, name: str) -> pa.Array:
            return payloads[s].column_at(name, places[s])

        if self.query.where:
            chosen = np.ones(len(ts), dtype=np.bool_)
            for part in self.query.where:
                chosen &= np.asarray(evaluate(part, column, len(ts)).fill_null(False))
            ts, places = ts[chosen], [each.filter(pa.array(chosen)) for each in places]
            if not len(ts):
                return
        arrays = []
        if self.query.select is None:
            for s in self.shown:
                names = self.query.streams[s].schema.names
                members = payloads[s].take_at(places[s]).select(names).to_struct_array()
                if missing and places[s].null_count:
                    members = pa.StructArray.from_arrays(
                        members.flatten(), fields=list(members.type), mask=places[s].is_null()
                    )
                arrays.append(members)
        else:
            arrays = [evaluate(output.expression, column, len(ts)) for output in self.query.select]
        arrays.append(pa.array(ts).cast(self.time_type))
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def time_type(query: BoundQuery) -> pa.DataType:
    """Type of the time of results: a timestamp if any stream has timestamps, else an integer."""
    for stream in query.streams:
        kind = stream.schema.field(stream.time).type
        if pt.is_timestamp(kind):
            return pa.timestamp(query.unit, kind.tz)
    return pa.int64()

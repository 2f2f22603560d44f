"""Folded results unfolded again, the obvious way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from recalljoin.engine.folding import BITS, MISSING, Folded

if TYPE_CHECKING:
    from recalljoin.engine.pipeline import Pipeline


def rows_of(batch: pa.RecordBatch, pipeline: Pipeline) -> pa.RecordBatch:
    """What a pipeline has let out, with a row for each result."""
    output = pipeline.output
    return unfolded(batch, output) if isinstance(output, Folded) else batch


def unfolded(batch: pa.RecordBatch, folded: Folded) -> pa.RecordBatch:
    """A row for each result of a folded batch."""
    assert batch.schema == folded.schema
    batch.validate(full=True)
    schema = folded.output.schema
    query = folded.output.query
    m = len(folded.output.shown)
    parts = []
    for row in batch.to_pylist():
        members = []
        for s in range(m):
            mask = (1 << BITS) - 1
            members.append([(x >> folded.shift(s)) & mask for x in row[folded.members(s)]])
        columns = []
        for i, of in enumerate(folded.stream_of):
            values = row[folded.name(i)]
            if of is not None:
                n = len(values)
                used = set(members[of]) - ({MISSING} if folded.has_nulls else set())
                assert used == set(range(n)), "every tuple once, and in use"
                values = [values[place] if place in used else None for place in members[of]]
            columns.append(values)
        times = [row[folded.times()]] if folded.has_nulls else []
        for s in [] if folded.has_nulls else range(m):
            stream = query.streams[s]
            column = folded.time_in[s]
            if column is None:
                times.append([row[folded.time(s)][place] for place in members[s]])
            elif query.select is None:
                times.append([each[stream.time] for each in columns[column]])
            else:
                times.append(columns[column])
        columns.append([max(each) for each in zip(*times, strict=True)])
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        parts.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.concat_batches(parts)

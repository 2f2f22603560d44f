"""Folded results unfolded again, the obvious way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from recalljoin.engine.folding import Folded


def unfolded(batch: pa.RecordBatch, folded: Folded) -> pa.RecordBatch:
    """A row for each result of a folded batch."""
    assert batch.schema == folded.schema
    batch.validate(full=True)
    schema = folded.output.schema
    parts = []
    for row in batch.to_pylist():
        columns = []
        for i, s in enumerate(folded.stream_of):
            values = row[folded.name(i)]
            if s is not None:
                members = row[folded.members(s)]
                assert set(members) == set(range(len(values))), "every tuple once, and in use"
                values = [values[place] for place in members]
            columns.append(pa.array(values, schema.field(i).type))
        parts.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.concat_batches(parts)

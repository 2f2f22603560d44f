"""How far the sources of a stream have come, as it travels from the routing tasks to the cells.

A cell sees some of a stream's tuples, and must know the clocks of all its sources. Each routing
task tells every cell, for each source of its tuples, the largest time and the number of tuples. The
first cell is told the names as well, to report who holds the join up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.engine.source_marks import reduced
from recalljoin.quality.told_sources import SourceName
from recalljoin.spark.hashing import combined, hashed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery


class SourceMarks(NamedTuple):
    """The sources of some tuples, each once, by number."""

    source: Int64s
    """Number of the source: a hash of its stream and its name, never 0."""
    top: Int64s
    """Largest time."""
    n: Int64s
    """Tuples."""
    names: dict[int, SourceName]
    """Names, where they are known."""


def follows_sources(query: BoundQuery) -> bool:
    """Whether any stream of a query says which source a tuple is from."""
    return any(stream.source is not None for stream in query.streams)


def numbers_of(query: BoundQuery, s: int, table: pa.Table) -> Int64s:
    """For each of a stream's tuples the number of its source.

    A stream that does not say where its tuples are from is one source.
    """
    column = query.streams[s].source
    of_stream = np.full(table.num_rows, s, dtype=np.uint64)
    own = of_stream if column is None else hashed(table.column(column).combine_chunks())
    return np.maximum(combined(own, of_stream), np.uint64(1)).view(np.int64)


def source_table(query: BoundQuery, s: int, table: pa.Table, ts: Int64s) -> pa.Table:
    """The sources of a stream's tuples: columns ``source``, ``top``, ``n`` and ``name``."""
    column = query.streams[s].source
    numbers = numbers_of(query, s, table)
    source, top, n = reduced(numbers, ts)
    names = pa.array([query.streams[s].name] * len(source), pa.string())
    if column is not None:
        # Any tuple of a source will do: all have the same name.
        order = np.argsort(numbers, kind="stable")
        firsts = np.searchsorted(numbers[order], source)
        names = table.column(column).take(pa.array(order[firsts])).cast(pa.string())
    return pa.table({"source": source, "top": top, "n": n, "name": names})


def merged_marks(s: int, tables: Iterable[pa.Table], limit: int) -> SourceMarks:
    """What all tasks tell of a stream; no source is believed to be further than ``limit``."""
    found = list(tables)
    columns = [
        np.concatenate([np.empty(0, np.int64), *(t.column(name).to_numpy() for t in found)])
        for name in ("source", "top", "n")
    ]
    source, top, _ = reduced(columns[0], np.minimum(columns[1], limit))
    n = np.bincount(np.searchsorted(source, columns[0]), weights=columns[2], minlength=len(source))
    names = {
        number: who
        for t in found
        if "name" in t.column_names
        for number, who in names_in(s, t).items()
    }
    return SourceMarks(source, top, n.astype(np.int64), names)


def names_in(s: int, table: pa.Table) -> dict[int, SourceName]:
    """The names in a :func:`source_table` of stream ``s``, by number."""
    named = zip(table["source"].to_pylist(), table["name"].to_pylist(), strict=True)
    return {number: SourceName(name, s) for number, name in named}

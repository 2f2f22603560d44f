"""Brings whole inputs into one task, with their rows in order.

Spark hands the pieces of a file to its tasks in any order. Each task packs its rows into blobs that
tell where their rows belong; the task that gets all blobs puts them in order and has the input as
it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from recalljoin.experiments.files import FILE, START
from recalljoin.spark.packing import from_bytes, to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PIECES = pa.schema(
    [
        ("input", pa.int32()),
        ("file", pa.string()),
        ("start", pa.int64()),
        ("part", pa.int64()),
        ("number", pa.int64()),
        ("body", pa.binary()),
    ]
)
PIECES_DDL = "input int, file string, start bigint, part bigint, number bigint, body binary"
"""Schema of the blobs as Spark reads it."""


def packed(number: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow that packs the rows of input ``number``.

    Rows may have columns :data:`~recalljoin.experiments.files.FILE` and ``START``; without these
    columns, rows are in the order of Spark's partitions.
    """

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        n = 0
        for batch in batches:
            names = [name for name in batch.schema.names if name not in (FILE, START)]
            for file, start, rows in _by_origin(batch):
                values = [[number], [file], [start], [part], [n], [to_bytes(rows.select(names))]]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(v, f.type) for v, f in zip(values, PIECES, strict=True)],
                    schema=PIECES,
                )
                n += 1

    return pack


def unpacked(batches: Iterable[pa.RecordBatch], schemas: list[pa.Schema]) -> list[pa.Table]:
    """All inputs, with their rows in order.

    Parameters
    ----------
    batches
        The blobs of all tasks, in any order.
    schemas
        For each input, the schema of its packed columns.
    """
    pieces = [row for batch in batches for row in batch.to_pylist()]
    pieces.sort(key=lambda p: (p["input"], p["file"], p["start"], p["part"], p["number"]))
    bodies: list[list[pa.Table]] = [[] for _ in schemas]
    for piece in pieces:
        bodies[piece["input"]].append(from_bytes(piece["body"]))
    return [
        pa.concat_tables(tables).cast(schema).combine_chunks() if tables else schema.empty_table()
        for tables, schema in zip(bodies, schemas, strict=True)
    ]


def _by_origin(batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Stretches of rows that were read from one piece of a file."""
    if FILE not in batch.schema.names:
        yield "", 0, batch
        return
    files = batch.column(FILE).dictionary_encode()
    codes = files.indices.to_numpy()
    starts = batch.column(START).to_numpy()
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(starts) != 0)) + 1
    for begin, end in zip([0, *changes], [*changes, batch.num_rows], strict=True):
        if end > begin:
            file = files.dictionary[int(codes[begin])].as_py()
            yield file, int(starts[begin]), batch.slice(begin, end - begin)

"""All tuples move when a join goes on with another number of cells or groups.

A query that is started again from its checkpoint begins with the cells it had. When its second
batch is planned, the control source decides that the cells asked for count from the batch after
that one on. At the end of the planned batch, every cell writes its tuples to the control log, for
each of the new cells apart, and empties its state; a tuple with copies is written by the cell that
counts it. In the next batch every new cell begins with what all cells have left for it.

Both steps are part of a batch: Spark keeps a state only once its batch is done, and a batch that is
run again writes or reads the same files. As with hot keys, a chunk knows its batch and the clocks
before the batch, which are the same in all cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.chunks import is_over, last_in_window
from recalljoin.errors import undamaged
from recalljoin.spark.cell_state import (
    LARGEST_CHUNK,
    add_chunk,
    decode_chunk,
    encode_chunk,
    meta_of,
    read_chunks,
    text_of,
)
from recalljoin.spark.framing import framed, unframed
from recalljoin.spark.packing import OWNED, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.cell_state import CellStore, Meta, StoredChunk
    from recalljoin.spark.cells import Grid, Hot
    from recalljoin.spark.hot_keys import Version


def is_divided_anew(plan: CellPlan, before: Version, after: Version) -> bool:
    """Whether the cells or groups of two versions differ, and not their hot keys alone."""
    return before.layout(plan.layout) != after.layout(plan.layout)


def move_out(plan: CellPlan, cell: int, store: CellStore, meta: Meta, after: Version) -> None:
    """Leave all tuples of a cell in the control log, and nothing in its state."""
    assert plan.log is not None
    grid, hot = after.layout(plan.layout).grid, plan.named_hot | after.hot
    left: dict[int, list[bytes]] = {}
    for stored in read_chunks(store, meta, plan.query):
        for receiver, content in _divided(plan, cell, stored, grid, hot):
            left.setdefault(receiver, []).append(content)
    for receiver, chunks in left.items():
        plan.log.write_moves(after.since, cell, framed({}, [chunks]), to=receiver)
    # Written last, with the clocks, which a cell without tuples must know as well.
    head = {"meta": text_of(meta), "to": sorted(left)}
    plan.log.write_moves(after.since, cell, framed(head, []))
    for number, _ in meta.chunks:
        store.drop_chunk(number)
    store.drop_meta()
    meta.token = ""


def move_in(plan: CellPlan, cell: int, store: CellStore, before: Version, now: Version) -> Meta:
    """Fill the empty state of a new cell with what all cells of the version before have left."""
    assert plan.log is not None
    told = ""
    chunks: list[bytes] = []
    for giver in range(before.layout(plan.layout).grid.n_cells):
        with undamaged("what cells handed over"):
            head, _ = unframed(plan.log.read_moves(now.since, giver))
            # The first cell knows the names of sources; all else is the same in all cells.
            told = told or head["meta"]
            if cell in head["to"]:
                content = plan.log.read_moves(now.since, giver, to=cell)
                chunks += [bytes(chunk) for chunk in unframed(content)[1][0]]
    meta = meta_of(told, plan.identity)
    meta.next_chunk, meta.chunks, meta.placed_by = 0, [], now.to_json()
    assert meta.remembered is not None, "there was a batch in which tuples were handed over"
    for content in _by_batch(plan, chunks):
        last = last_in_window(plan.query, decode_chunk(plan.query, content).chunk)
        if not is_over(last, meta.remembered.retention, meta.watermark):
            add_chunk(store, meta, content, last)
    return meta


def _divided(
    plan: CellPlan, cell: int, stored: StoredChunk, grid: Grid, hot: Hot
) -> Iterator[tuple[int, bytes]]:
    """The tuples of a chunk that count in ``cell``, as a chunk for each cell that has them next."""
    bodies: dict[int, list[Sequence[bytes]]] = {}
    m = len(stored.chunk.tables)
    for s, (table, ts) in enumerate(zip(stored.chunk.tables, stored.chunk.times, strict=True)):
        counts = stored.owned[s]
        if counts is None:
            counts = np.full(len(ts), plan.grid.owns(cell, s))
        if not counts.any():
            continue
        mine = table.filter(pa.array(counts)).combine_chunks()
        rows, cells = grid.copies_of(plan.query, s, mine, ts[counts], hot)
        owned = np.diff(rows, prepend=-1) > 0
        order = np.argsort(cells, kind="stable")
        copies = mine.take(pa.array(rows[order])).append_column(OWNED, pa.array(owned[order]))
        receivers, begins = np.unique(cells[order], return_index=True)
        for receiver, begin, end in zip(
            receivers.tolist(), begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True
        ):
            of_streams = bodies.setdefault(receiver, [()] * m)
            of_streams[s] = (to_bytes(copies.slice(begin, end - begin)),)
    for receiver, of_streams in bodies.items():
        yield receiver, encode_chunk(of_streams, stored.chunk)


def _by_batch(plan: CellPlan, chunks: list[bytes]) -> Iterator[bytes]:
    """Chunks in the order of their batches; those of one batch are put together.

    Otherwise a cell would have a chunk of every batch from each of the cells before.
    """
    decoded = [(decode_chunk(plan.query, content), content) for content in chunks]
    decoded.sort(key=lambda pair: pair[0].batch)
    held: list[list[bytes]] = []
    last: StoredChunk | None = None
    size = 0
    for stored, content in decoded:
        _, bodies = unframed(content)
        if last is not None and (last.batch != stored.batch or size + len(content) > LARGEST_CHUNK):
            yield encode_chunk(held, last.chunk)
            last = None
        if last is None:
            last, held, size = stored, [[] for _ in bodies], 0
        for of_stream, more in zip(held, bodies, strict=True):
            of_stream += [bytes(body) for body in more]
        size += len(content)
    if last is not None:
        yield encode_chunk(held, last.chunk)

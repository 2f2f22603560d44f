"""Tuples that move to other cells because a key has become hot, or is no longer hot.

In the batch before the change takes effect, every cell writes the tuples that will move to the
control log; a tuple with copies is written by the cell that counts it. In the batch in which the
change takes effect, every cell takes the moving tuples out of its chunks, and adds the tuples of
all cells that belong to it now. A chunk knows its batch and the clocks before the batch, which are
the same in all cells: so a tuple that has moved is as late, as buffered or as joined as if it had
always been in its new cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.chunks import is_over, last_in_window
from recalljoin.errors import undamaged
from recalljoin.spark.cell_state import (
    StoredChunk,
    add_chunk,
    decode_chunk,
    encode_chunk,
    encode_part,
    read_chunks,
)
from recalljoin.spark.cells import Hot, key_hashes
from recalljoin.spark.framing import framed, unframed
from recalljoin.spark.hot_keys import Version
from recalljoin.spark.packing import OWNED, to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from recalljoin.spark.cell import CellPlan
    from recalljoin.spark.cell_state import CellStore, Meta


def hand_over(plan: CellPlan, cell: int, store: CellStore, meta: Meta, after: Version) -> None:
    """Write the tuples that will be in other cells from the next batch on to the control log."""
    assert plan.log is not None
    moves = _moves(plan, _changed(Version.from_json(meta.placed_by).hot, after.hot))
    chunks = []
    for stored in read_chunks(store, meta, plan.query):
        chosen = []
        for s, moving in enumerate(moves(stored)):
            owned = stored.owned[s]
            counts = plan.grid.owns(cell, s) if owned is None else owned
            chosen.append(moving & counts)
        if any(mask.any() for mask in chosen):
            chunks.append(encode_part(stored, chosen))
    plan.log.write_moves(after.since, cell, framed({}, [chunks]))


def take_over(plan: CellPlan, cell: int, store: CellStore, meta: Meta, now: Version) -> None:
    """Bring a cell's chunks in line with the version of hot keys that counts now."""
    assert plan.log is not None
    moves = _moves(plan, _changed(Version.from_json(meta.placed_by).hot, now.hot))
    chunks: list[tuple[int, bytes]] = []
    for (number, _), stored in zip(
        list(meta.chunks), read_chunks(store, meta, plan.query), strict=True
    ):
        moving = moves(stored)
        if any(mask.any() for mask in moving):
            chunks.append((stored.batch, encode_part(stored, [~mask for mask in moving])))
        else:
            chunks.append((stored.batch, store.read_chunk(number)))
    for giver in range(plan.grid.n_cells):
        for stored in _handed_over(plan, plan.log.read_moves(now.since, giver)):
            chunks.append((stored.batch, _received(plan, cell, stored, plan.named_hot | now.hot)))
    for number, _ in meta.chunks:
        store.drop_chunk(number)
    meta.chunks = []
    assert meta.remembered is not None, "there was a batch in which tuples were handed over"
    for _, content in sorted(chunks, key=lambda chunk: chunk[0]):
        last = last_in_window(plan.query, decode_chunk(plan.query, content).chunk)
        if not is_over(last, meta.remembered.retention, meta.watermark):
            add_chunk(store, meta, content, last)
    meta.placed_by = now.to_json()


def _changed(before: Hot, after: Hot) -> Hot:
    """Keys that are hot in one of two versions only."""
    n = max(len(before.keys), len(after.keys))
    pairs = (
        tuple(set(hot.keys[c]) if c < len(hot.keys) else set() for hot in (before, after))
        for c in range(n)
    )
    return Hot(tuple(tuple(sorted(one ^ other)) for one, other in pairs))


def _moves(plan: CellPlan, changed: Hot) -> Callable[[StoredChunk], list[NDArray[np.bool_]]]:
    """A function that says, for each stream of a chunk, which of its tuples move."""

    def moves(stored: StoredChunk) -> list[NDArray[np.bool_]]:
        masks = []
        chunk = stored.chunk
        for s, (table, ts) in enumerate(zip(chunk.tables, chunk.times, strict=True)):
            moving = np.zeros(len(ts), dtype=np.bool_)
            for equality, keys in enumerate(changed.keys):
                if keys and s in plan.query.classes[equality].members:
                    hashes = key_hashes(plan.query, equality, s, table, ts)
                    moving |= changed.among(hashes, equality)
            masks.append(moving)
        return masks

    return moves


def _handed_over(plan: CellPlan, content: bytes) -> Iterator[StoredChunk]:
    with undamaged("what cells handed over"):
        _, (chunks,) = unframed(content)
    for chunk in chunks:
        yield decode_chunk(plan.query, bytes(chunk))


def _received(plan: CellPlan, cell: int, stored: StoredChunk, hot: Hot) -> bytes:
    """The tuples of a chunk that was handed over which belong to ``cell``."""
    bodies = []
    for s, (table, ts) in enumerate(zip(stored.chunk.tables, stored.chunk.times, strict=True)):
        rows, cells = plan.grid.copies_of(plan.query, s, table, ts, hot)
        mine = cells == cell
        owned = np.diff(rows, prepend=-1) > 0
        taken = table.take(pa.array(rows[mine])).append_column(OWNED, pa.array(owned[mine]))
        bodies.append((to_bytes(taken),) if mine.any() else ())
    return encode_chunk(bodies, stored.chunk)

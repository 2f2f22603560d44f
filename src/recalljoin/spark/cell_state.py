"""What a cell keeps in Spark's state: small metadata, and its tuples as chunks written once."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from recalljoin.engine.chunks import Chunk, is_over, last_in_window, needed_at
from recalljoin.engine.progress import Clocks, Remembered
from recalljoin.engine.times import NEVER, times_of
from recalljoin.errors import undamaged
from recalljoin.spark.framing import framed, unframed
from recalljoin.spark.hot_keys import FIRST
from recalljoin.spark.identity import check_identity, check_layout
from recalljoin.spark.packing import (
    OWNED,
    needed_schema,
    owned_in,
    table_of,
    to_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.delivery import Delivery

LAYOUT = 5
"""Layout of the state that is written, and the only layout that can be read."""
LARGEST_CHUNK = 1 << 26
"""Most bytes of tuples in one state value, unless a single body is larger."""


class CellStore(Protocol):
    """A cell's share of Spark's state."""

    def read_meta(self) -> str | None:
        """What :meth:`write_meta` wrote last."""

    def write_meta(self, content: str) -> None:
        """Replace the small part of the state."""

    def drop_meta(self) -> None:
        """Remove the small part of the state."""

    def read_chunk(self, number: int) -> bytes:
        """A chunk."""

    def write_chunk(self, number: int, content: bytes) -> None:
        """Add a chunk."""

    def drop_chunk(self, number: int) -> None:
        """Remove a chunk."""


@dataclass
class Meta:
    """The small part of a cell's state, rewritten with every batch."""

    identity: str
    local_times: list[int]
    base_time: int = NEVER
    watermark: int = NEVER
    front: int = NEVER
    """Clock of the slowest stream."""
    sources: str | None = None
    """Clocks of the sources, where they are followed."""
    follows: dict[str, Any] | None = None
    """How sources are followed, as the control source said last."""
    token: str = ""
    """Random name of this very state; empty before the first batch."""
    next_chunk: int = 0
    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of the stored chunks in the order of their batches, each with the last watermark at
    which a tuple of the chunk is in its window."""
    remembered: Remembered | None = None
    """How far back tuples are kept; None before the first batch."""
    k: int = 0
    clock: int = 0
    """The driver's clock, as the control source said last."""
    seen_at: list[int | None] = field(default_factory=list)
    """For each stream the clock when it last had a tuple; None until the clock is known again."""
    placed_by: dict[str, Any] = field(default_factory=FIRST.to_json)
    """The version by which the stored tuples were placed."""
    confirmed: list[int] = field(default_factory=list)
    """For each stream by how many tuples far ahead have outnumbered other tuples."""
    layout: int = LAYOUT

    @property
    def clocks(self) -> Clocks:
        """How far the streams have come."""
        return Clocks(tuple(self.local_times), self.base_time, self.watermark, self.front)


def read_meta(store: CellStore, identity: str, m: int) -> Meta:
    """The metadata of a cell; new metadata if it has none.

    Raises
    ------
    StateVersionError
        When the state has a layout this release cannot read.
    InvalidSetting
        When the state belongs to another join.
    """
    content = store.read_meta()
    if content is None:
        return Meta(identity, [NEVER] * m, seen_at=[None] * m, confirmed=[0] * m)
    return meta_of(content, identity)


def meta_of(content: str, identity: str) -> Meta:
    """Metadata from their text, as :func:`append` has written it."""
    with undamaged("the state of a cell"):
        values = json.loads(content)
        check_layout(values.get("layout"), LAYOUT)
        check_identity(values["identity"], identity)
        values["chunks"] = [(number, last) for number, last in values["chunks"]]
        if values["remembered"] is not None:
            values["remembered"] = Remembered(*values["remembered"])
        return Meta(**values)


@dataclass(frozen=True)
class StoredChunk:
    """A chunk as it is stored in the state."""

    chunk: Chunk
    owned: tuple[NDArray[np.bool_] | None, ...]
    """For each stream, which tuples are the copy that counts; None where the cell's place tells."""

    @property
    def batch(self) -> int:
        """Number of the batch."""
        return self.chunk.number


def append(
    store: CellStore,
    meta: Meta,
    delivery: Delivery,
    *,
    batch: int,
    remembered: Remembered,
    now: Clocks,
) -> None:
    """Write the tuples and clocks of a batch, and drop chunks that nobody needs any more.

    Parameters
    ----------
    store, meta
        The state as the batch before left it; ``meta`` is brought up to date and written.
    delivery
        The batch's tuples.
    batch
        Number of the batch.
    remembered
        How far back the pipeline's memory goes.
    now
        Clocks after this batch.
    """
    query, retention = delivery.query, remembered.retention
    chunks, meta.chunks = meta.chunks, []
    for number, last in chunks:
        if is_over(last, retention, now.watermark):
            store.drop_chunk(number)
        else:
            meta.chunks.append((number, last))
    # Only what is noted on tuples depends on how far back tuples were kept.
    kept = None if query.how == "inner" else remembered
    for bodies, stored in _in_values(delivery, meta.clocks, batch, kept):
        last = last_in_window(query, stored.chunk)
        if is_over(last, retention, now.watermark):
            continue
        needed = needed_at(query, retention, stored.chunk, now.watermark)
        if 2 * sum(int(mask.sum()) for mask in needed) < sum(map(len, needed)):
            # The batch is longer than the windows: most of its tuples have left their windows.
            content = encode_part(stored, needed)
        else:
            content = encode_chunk(bodies, stored.chunk)
        add_chunk(store, meta, content, last)
    meta.remembered = remembered
    meta.local_times = list(now.local_times)
    meta.base_time, meta.watermark, meta.front = now.base_time, now.watermark, now.front
    meta.token = uuid.uuid4().hex
    store.write_meta(text_of(meta))


def text_of(meta: Meta) -> str:
    """Metadata as text."""
    # Not `asdict`, which copies everything: there may be hundreds of chunks.
    return json.dumps(vars(meta))


def add_chunk(store: CellStore, meta: Meta, content: bytes, last: int) -> None:
    """Write one more chunk, whose tuples are in windows until the watermark has passed ``last``."""
    store.write_chunk(meta.next_chunk, content)
    meta.chunks.append((meta.next_chunk, last))
    meta.next_chunk += 1


def read_chunks(store: CellStore, meta: Meta, query: BoundQuery) -> Iterator[StoredChunk]:
    """All stored chunks, in the order of their batches."""
    for number, _ in meta.chunks:
        yield decode_chunk(query, store.read_chunk(number))


def encode_chunk(bodies: Sequence[Sequence[bytes]], chunk: Chunk) -> bytes:
    """A chunk: the bodies of each stream as they came, with the clocks before the batch."""
    head: dict[str, Any] = {"before": asdict(chunk.before), "batch": chunk.number}
    if chunk.remembered is not None:
        head["remembered"] = list(chunk.remembered)
    return framed(head, bodies)


def encode_part(stored: StoredChunk, chosen: Sequence[NDArray[np.bool_]]) -> bytes:
    """Some tuples of a chunk as a chunk of their own."""
    bodies = []
    for table, owned, mask in zip(stored.chunk.tables, stored.owned, chosen, strict=True):
        rows = table if owned is None else table.append_column(OWNED, pa.array(owned))
        bodies.append((to_bytes(rows.filter(pa.array(mask))),) if mask.any() else ())
    return encode_chunk(bodies, stored.chunk)


def decode_chunk(query: BoundQuery, content: bytes) -> StoredChunk:
    """The chunk of :func:`encode_chunk`; it refers to ``content`` and copies nothing.

    Raises
    ------
    StateVersionError
        When the bytes are damaged.
    """
    with undamaged("a chunk of a cell's tuples"):
        return _decoded(query, content)


def _decoded(query: BoundQuery, content: bytes) -> StoredChunk:
    head, bodies = unframed(content)
    tables = [table_of(query, s, parts) for s, parts in enumerate(bodies)]
    times = [
        times_of(table.column(stream.time), query.unit, query.time_unit)[0]
        for stream, table in zip(query.streams, tables, strict=True)
    ]
    before = head["before"]
    clocks = Clocks(
        tuple(before["local_times"]), before["base_time"], before["watermark"], before["front"]
    )
    kept = head.get("remembered")
    remembered = None if kept is None else Remembered(*kept)
    return _stored(query, tables, times, before=clocks, batch=head["batch"], remembered=remembered)


def _stored(
    query: BoundQuery,
    tables: Sequence[pa.Table],
    times: Sequence[Int64s],
    *,
    before: Clocks,
    batch: int,
    remembered: Remembered | None,
) -> StoredChunk:
    # The column that tells copies apart is of no use after the batch.
    needed = tuple(t.select(needed_schema(query, s).names) for s, t in enumerate(tables))
    owned = tuple(owned_in(table) for table in tables)
    return StoredChunk(Chunk(needed, tuple(times), before, batch, remembered), owned)


def _in_values(
    delivery: Delivery, before: Clocks, batch: int, remembered: Remembered | None
) -> Iterator[tuple[list[list[bytes]], StoredChunk]]:
    """The tuples of a batch, divided over state values of a reasonable size."""
    m = len(delivery.tables)
    begins, ends = [0] * m, [0] * m
    bodies: list[list[bytes]] = [[] for _ in range(m)]

    def value() -> tuple[list[list[bytes]], StoredChunk]:
        spans = list(zip(begins, ends, strict=True))
        tables = [delivery.tables[s].slice(b, e - b) for s, (b, e) in enumerate(spans)]
        times = [delivery.times(s)[b:e] for s, (b, e) in enumerate(spans)]
        stored = _stored(
            delivery.query, tables, times, before=before, batch=batch, remembered=remembered
        )
        return bodies, stored

    size = 0
    for s, of_stream in enumerate(delivery.bodies):
        for content, n in of_stream:
            if size and size + len(content) > LARGEST_CHUNK:
                yield value()
                begins, bodies, size = list(ends), [[] for _ in range(m)], 0
            bodies[s].append(content)
            ends[s] += n
            size += len(content)
    if size:
        yield value()

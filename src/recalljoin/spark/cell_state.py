"""What a cell keeps in Spark's state: small meta data, and its tuples as chunks written once."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from recalljoin.engine.arrivals import times_of
from recalljoin.engine.chunks import Chunk, is_over, last_in_window, needed_at
from recalljoin.engine.progress import Clocks
from recalljoin.engine.times import NEVER
from recalljoin.errors import InvalidSetting, StateVersionError
from recalljoin.spark.hot import FIRST
from recalljoin.spark.packing import OWNED, needed_schema, owned_in, table_of, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from recalljoin.engine.windows import Remembered
    from recalljoin.query import BoundQuery

LAYOUT = 3
"""Layout of the state written now; the only one that is read."""
LARGEST_CHUNK = 1 << 26
"""Bytes of tuples in one state value, unless a single body is larger."""

Bodies = tuple[tuple[bytes, ...], ...]
"""For each stream its tuples, packed."""


class Store(Protocol):
    """A cell's share of Spark's state."""

    def read_meta(self) -> str | None:
        """What :meth:`write_meta` wrote last."""

    def write_meta(self, content: str) -> None:
        """Replace the small part of the state."""

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
    token: str = ""
    """Names this very state; empty before the first batch."""
    next_chunk: int = 0
    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of the chunks there are, each with the last watermark at which it has tuples in
    windows; in the order of their batches."""
    retention: int | None = None
    """How long tuples are kept behind their windows; None before the first batch."""
    since: int = NEVER
    """From this time on everything is known."""
    k: int = 0
    clock: int = 0
    """What the control source said last."""
    seen_at: list[int | None] = field(default_factory=list)
    """For each stream the clock when it last had a tuple; None for the next clock to be told."""
    placed_by: dict[str, Any] = field(default_factory=FIRST.to_json)
    """The version of hot keys by which the tuples there are were placed."""
    confirmed: list[int] = field(default_factory=list)
    """For each stream by how much tuples far ahead of it have outnumbered others."""
    layout: int = LAYOUT

    def __post_init__(self) -> None:
        # A state written before this was counted has none of it.
        self.confirmed = self.confirmed or [0] * len(self.local_times)

    @property
    def clocks(self) -> Clocks:
        """How far the streams have come."""
        return Clocks(tuple(self.local_times), self.base_time, self.watermark)


def read_meta(store: Store, identity: str, m: int) -> Meta:
    """The meta data of a cell, new ones if it has none.

    Raises
    ------
    StateVersionError
        When the state has a layout this release cannot read.
    InvalidSetting
        When it belongs to another join.
    """
    content = store.read_meta()
    if content is None:
        return Meta(identity, [NEVER] * m, seen_at=[None] * m)
    values = json.loads(content)
    check_layout(values.get("layout"), LAYOUT)
    check_identity(values["identity"], identity)
    values["chunks"] = [(number, last) for number, last in values["chunks"]]
    return Meta(**values)


def check_layout(written: int | None, now: int) -> None:
    """Refuse to read what another release has written differently.

    Raises
    ------
    StateVersionError
        When the state has a layout this release cannot read.
    """
    if written != now:
        message = (
            f"the checkpoint's state has layout {written}, this release reads layout {now}; go on "
            "with the release that wrote it, or start with a new checkpoint"
        )
        raise StateVersionError(message)


def check_identity(written: str, now: str) -> None:
    """Refuse to go on with the state of another join.

    Raises
    ------
    InvalidSetting
        When the checkpoint was written for something else.
    """
    if written == now:
        return
    old, new = json.loads(written), json.loads(now)
    changed = "\n  ".join(
        f"`{name}`: was {old.get(name)}, is {new.get(name)}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )
    message = (
        f"the checkpoint belongs to another join; changed:\n  {changed}\n"
        "On an old checkpoint recall, period, interval, max_wait, policy, idle_after and flush may "
        "change; streams, windows, condition, columns and the number of cells may not. Put them "
        "back as they were, or start with a new checkpoint and a new control log"
    )
    raise InvalidSetting(message)


@dataclass(frozen=True)
class StoredChunk:
    """A chunk as it stands in the state."""

    chunk: Chunk
    batch: int
    owned: tuple[NDArray[np.bool_] | None, ...]
    """For each stream, which tuples are the copy that counts; None where the cell decides."""


def append(
    store: Store,
    meta: Meta,
    bodies: Bodies,
    *,
    query: BoundQuery,
    remembered: Remembered,
    batch: int,
    before: Clocks,
    now: Clocks,
) -> None:
    """Write what a batch has changed: its tuples, the clocks, and chunks nobody needs any more.

    Parameters
    ----------
    store, meta
        The state; ``meta`` is brought up to date and written.
    bodies
        The batch's tuples.
    query
        As the cell's pipeline has it.
    remembered
        How far back the pipeline's memory goes.
    batch
        Its number.
    before, now
        Clocks as the batch before and this one left them.
    """
    meta.retention, meta.since = retention, _ = remembered
    chunks, meta.chunks = meta.chunks, []
    for number, last in chunks:
        if is_over(last, retention, now.watermark):
            store.drop_chunk(number)
        else:
            meta.chunks.append((number, last))
    for part in _in_values(bodies):
        content = encode_chunk(part, before, batch)
        stored = decode_chunk(query, content)
        last = last_in_window(query, stored.chunk)
        if is_over(last, retention, now.watermark):
            continue
        needed = needed_at(query, retention, stored.chunk, now.watermark)
        if 2 * sum(int(mask.sum()) for mask in needed) < sum(map(len, needed)):
            # The batch is longer than the windows: most of it is over already.
            content = encode_part(stored, needed)
        add_chunk(store, meta, content, last)
    meta.local_times = list(now.local_times)
    meta.base_time, meta.watermark = now.base_time, now.watermark
    meta.token = uuid.uuid4().hex
    store.write_meta(json.dumps(asdict(meta)))


def add_chunk(store: Store, meta: Meta, content: bytes, last: int) -> None:
    """Write one more chunk, with tuples in windows until the watermark has passed ``last``."""
    store.write_chunk(meta.next_chunk, content)
    meta.chunks.append((meta.next_chunk, last))
    meta.next_chunk += 1


def read_chunks(store: Store, meta: Meta, query: BoundQuery) -> Iterator[StoredChunk]:
    """All chunks there are, in the order of their batches."""
    for number, _ in meta.chunks:
        yield decode_chunk(query, store.read_chunk(number))


def encode_chunk(bodies: Bodies, before: Clocks, batch: int) -> bytes:
    """Tuples as they came, behind a head that says where each body ends."""
    lengths = [[len(body) for body in parts] for parts in bodies]
    head = json.dumps({"before": asdict(before), "batch": batch, "lengths": lengths}).encode()
    return b"".join((struct.pack("<q", len(head)), head, *(b for part in bodies for b in part)))


def encode_part(stored: StoredChunk, chosen: Sequence[NDArray[np.bool_]]) -> bytes:
    """Some tuples of a chunk as a chunk of their own."""
    bodies = []
    for table, owned, mask in zip(stored.chunk.tables, stored.owned, chosen, strict=True):
        rows = table if owned is None else table.append_column(OWNED, pa.array(owned))
        bodies.append((to_bytes(rows.filter(pa.array(mask))),) if mask.any() else ())
    return encode_chunk(tuple(bodies), stored.chunk.before, stored.batch)


def decode_chunk(query: BoundQuery, content: bytes) -> StoredChunk:
    """The chunk of :func:`encode_chunk`; it refers to ``content`` and copies nothing."""
    (size,) = struct.unpack_from("<q", content)
    head = json.loads(content[8 : 8 + size])
    view = memoryview(content)
    at = 8 + size
    tables, owned = [], []
    for s, lengths in enumerate(head["lengths"]):
        parts: list[memoryview] = []
        for length in lengths:
            parts.append(view[at : at + length])
            at += length
        table = table_of(query, s, parts)
        owned.append(owned_in(table))
        # What tells copies apart is of no use after the batch.
        tables.append(table.select(needed_schema(query, s).names))
    times = tuple(
        times_of(table.column(stream.time), query.unit, query.time_unit)[0]
        for stream, table in zip(query.streams, tables, strict=True)
    )
    before = head["before"]
    clocks = Clocks(tuple(before["local_times"]), before["base_time"], before["watermark"])
    return StoredChunk(Chunk(tuple(tables), times, clocks), head["batch"], tuple(owned))


def _in_values(bodies: Bodies) -> Iterator[Bodies]:
    """Bodies divided over state values of a reasonable size; none for none."""
    part: list[list[bytes]] = [[] for _ in bodies]
    size = 0
    for s, of_stream in enumerate(bodies):
        for body in of_stream:
            if size and size + len(body) > LARGEST_CHUNK:
                yield tuple(tuple(p) for p in part)
                part, size = [[] for _ in bodies], 0
            part[s].append(body)
            size += len(body)
    if size:
        yield tuple(tuple(p) for p in part)

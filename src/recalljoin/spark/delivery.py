"""What a cell is given in one batch: parcels of all tasks, unpacked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.times import NEVER
from recalljoin.spark.ahead import Span, merged_spans
from recalljoin.spark.hot import Heavy
from recalljoin.spark.packing import (
    CONTROL,
    REFUSED,
    Control,
    Head,
    from_bytes,
    owned_in,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query import BoundQuery


@dataclass
class Delivery:
    """What a cell is given in one batch."""

    tables: tuple[pa.Table, ...]
    """Its tuples of each stream. Where a stream's tuples have copies, column
    :data:`~recalljoin.spark.packing.PLACE` tells them apart."""
    bodies: tuple[tuple[bytes, ...], ...]
    """The same as they came."""
    n_arrived: list[int]
    """Tuples of each stream in all cells together."""
    marks: Int64s
    """Largest timestamp of each stream; NEVER where none came."""
    has_data: bool
    """Whether any task sent anything."""
    refused: list[dict[str, int]]
    """For each stream, rows refused by reason."""
    refused_rows: list[list[pa.Table]]
    """For each stream, the rows themselves; sent to the first cell only."""
    control: Control | None
    route_seconds: float
    heavy: list[Heavy]
    """Keys that many tuples of a task have."""
    spans: list[list[Span]]
    """For each stream how many tuples lie where, in all cells together."""

    def owned(self, s: int) -> NDArray[np.bool_] | None:
        """Which of a stream's tuples are the copy that counts, where they say so themselves."""
        return owned_in(self.tables[s])


def deliver(query: BoundQuery, parcels: Iterable[tuple[str, bytes | None]]) -> Delivery:
    """Unpack the parcels of one cell, in whatever order they come.

    Parameters
    ----------
    query
        The bound query.
    parcels
        Heads and bodies.
    """
    m = len(query.streams)
    pieces: dict[tuple[str, int, int, int], list[tuple[int, bytes]]] = {}
    refused: list[dict[str, int]] = [{} for _ in range(m)]
    n_arrived = [0] * m
    marks = np.full(m, NEVER, dtype=np.int64)
    control = None
    has_data = False
    seconds = 0.0
    heavy: list[Heavy] = []
    spans: list[list[Span]] = [[] for _ in range(m)]
    for text, body in parcels:
        content: dict[str, Any] = json.loads(text)
        if content["kind"] == CONTROL:
            content.pop("kind")
            control = Control(**content)
            continue
        head = Head(**content)
        has_data = True
        if body is not None:
            place = (head.kind, head.stream, head.task, head.part)
            pieces.setdefault(place, []).append((head.piece, body))
        if head.kind == REFUSED or head.piece:
            continue
        n_arrived[head.stream] += head.n
        marks[head.stream] = max(int(marks[head.stream]), head.top)
        seconds += head.seconds
        heavy += [Heavy(*each) for each in head.heavy]
        spans[head.stream] += [Span(*each) for each in head.spans]
        for reason, count in head.refused.items():
            counts = refused[head.stream]
            counts[reason] = counts.get(reason, 0) + count
    bodies: list[list[bytes]] = [[] for _ in range(m)]
    refused_rows: list[list[pa.Table]] = [[] for _ in range(m)]
    # Tasks finish in any order; their tuples are taken in one.
    for (kind, s, _, _), parts in sorted(pieces.items()):
        parts.sort()
        assert [piece for piece, _ in parts] == list(range(len(parts))), (kind, s, len(parts))
        body = b"".join(part for _, part in parts)
        if kind == REFUSED:
            refused_rows[s].append(from_bytes(body))
        else:
            bodies[s].append(body)
    ordered = tuple(tuple(parts) for parts in bodies)
    tables = tuple(table_of(query, s, parts) for s, parts in enumerate(ordered))
    return Delivery(
        tables, ordered, n_arrived, marks, has_data, refused, refused_rows, control, seconds,
        sorted(heavy), [merged_spans(each) for each in spans],
    )  # fmt: skip

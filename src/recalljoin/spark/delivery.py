"""What a cell is given in one batch: the parcels of all tasks, unpacked and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals
from recalljoin.engine.times import FAR_AHEAD, NEVER, times_of
from recalljoin.spark.ahead import Span, merged_spans
from recalljoin.spark.hot_keys import Heavy
from recalljoin.spark.packing import (
    CONTROL,
    REASON,
    REFUSED,
    SOURCES,
    Control,
    Head,
    from_bytes,
    needed_schema,
    owned_in,
    to_bytes,
)
from recalljoin.spark.source_parcels import SourceMarks, merged_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.ahead import AheadRule


class Body(NamedTuple):
    """Tuples of a stream as they came."""

    content: bytes
    n: int
    """Number of tuples."""


class Delivery:
    """What a cell is given in one batch.

    Parameters
    ----------
    query
        The bound query.
    bodies
        Tuples of each stream, in the order in which they are taken in.
    """

    def __init__(self, query: BoundQuery, bodies: Sequence[Sequence[bytes]]) -> None:
        m = len(query.streams)
        self.query = query
        pieces = [[from_bytes(body) for body in of_stream] for of_stream in bodies]
        self.bodies: list[tuple[Body, ...]] = [
            tuple(Body(b, t.num_rows) for b, t in zip(contents, tables, strict=True))
            for contents, tables in zip(bodies, pieces, strict=True)
        ]
        self.tables: list[pa.Table] = [
            pa.concat_tables(tables) if tables else needed_schema(query, s).empty_table()
            for s, tables in enumerate(pieces)
        ]
        """The cell's tuples of each stream. Where a stream's tuples have copies, column
        :data:`~recalljoin.spark.packing.PLACE` tells the tuples apart."""
        self._times: list[Int64s | None] = [None] * m
        self.n_arrived = [0] * m
        """Tuples of each stream in all cells together."""
        self.marks = np.full(m, NEVER, dtype=np.int64)
        """Largest timestamp of each stream in the batch; NEVER where no tuple came."""
        self.has_data = False
        """Whether any task sent anything."""
        self.refused: list[dict[str, int]] = [{} for _ in range(m)]
        """For each stream, the number of refused rows by reason."""
        self.refused_rows: list[list[pa.Table]] = [[] for _ in range(m)]
        """For each stream, the refused rows; sent to the first cell only."""
        self.control: Control | None = None
        self.route_seconds = 0.0
        self.heavy: list[Heavy] = []
        """Keys that many tuples of a task have."""
        self.spans: list[list[Span]] = [[] for _ in range(m)]
        """For each stream the number of tuples by span of time, in all cells together."""
        self.source_bodies: list[list[bytes]] = [[] for _ in range(m)]
        """For each stream what tasks tell of its sources."""

    def sources(self) -> SourceMarks:
        """How far the sources of all streams have come in the batch, in all cells together.

        A source cannot be further than its stream: tuples too far ahead were taken out.
        """
        found = [
            merged_marks(s, map(from_bytes, bodies), int(mark))
            for s, (bodies, mark) in enumerate(zip(self.source_bodies, self.marks, strict=True))
        ]
        names = {number: who for each in found for number, who in each.names.items()}
        columns = [np.concatenate([each[at] for each in found]) for at in range(3)]
        return SourceMarks(columns[0], columns[1], columns[2], names)

    @property
    def is_end(self) -> bool:
        """Whether the input ends with this batch."""
        return self.control is not None and self.control.flush and not self.has_data

    def times(self, s: int) -> Int64s:
        """Timestamps of a stream's tuples, in the query's unit."""
        known = self._times[s]
        if known is None:
            column = self.tables[s].column(self.query.streams[s].time)
            known, _ = times_of(column, self.query.unit, self.query.time_unit)
            self._times[s] = known
        return known

    def owned(self, s: int) -> NDArray[np.bool_] | None:
        """Which of a stream's tuples are the copy that counts; None if the cell's place tells."""
        return owned_in(self.tables[s])

    def arrivals(self) -> Arrivals:
        """The tuples of all streams, as one tick."""
        times = [self.times(s) for s in range(len(self.tables))]
        return Arrivals(
            tuple(self.tables),
            np.concatenate([np.full(len(ts), s, dtype=np.int8) for s, ts in enumerate(times)]),
            np.concatenate([np.arange(len(ts)) for ts in times]),
            np.concatenate(times),
        )

    def refuse_far_ahead(
        self,
        rule: AheadRule | None,
        *,
        local_times: Sequence[int],
        confirmed: list[int],
        clock: int,
        owns: Sequence[bool],
    ) -> None:
        """Refuse tuples whose time is absurdly far ahead of their stream.

        Parameters
        ----------
        rule
            Decides which times are too far ahead; None refuses no tuple.
        local_times
            How far the streams had come before the batch.
        confirmed
            What the rule remembers of each stream; changed in place.
        clock
            The driver's clock as last known, in milliseconds since 1970; 0 if never known.
        owns
            For each stream whether its tuples count in this cell, for tuples without a flag.
        """
        spans = {s: each for s, each in enumerate(self.spans) if each}
        if rule is None or not spans:
            return
        if self.control is not None:
            clock = self.control.clock
        for s, verdict in rule.judge(spans, local_times, confirmed, clock).items():
            confirmed[s] = verdict.confirmed
            if verdict.limit is not None:
                self._take_out(s, verdict.limit, owns=owns[s])
                self.n_arrived[s] -= verdict.n_refused
                self.marks[s] = verdict.mark
                self.refused[s][FAR_AHEAD] = verdict.n_refused

    def _take_out(self, s: int, limit: int, *, owns: bool) -> None:
        """Refuse the tuples of stream ``s`` from ``limit`` on."""
        table, ahead = self.tables[s], self.times(s) >= limit
        if not ahead.any():
            return
        # Of the copies of a refused tuple, only the copy that counts is written down.
        owned = self.owned(s)
        mine = ahead & (owns if owned is None else owned)
        if mine.any():
            rows = table.select(needed_schema(self.query, s).names).filter(pa.array(mine))
            reasons = pa.array([FAR_AHEAD] * rows.num_rows)
            self.refused_rows[s].append(rows.append_column(REASON, reasons))
        left = table.filter(pa.array(~ahead)).combine_chunks()
        self.tables[s], self._times[s] = left, self.times(s)[~ahead]
        self.bodies[s] = (Body(to_bytes(left), left.num_rows),) if left.num_rows else ()


@dataclass
class _Pieces:
    """Collects bodies, which travel in rows of a limited size."""

    found: dict[tuple[str, int, int, int], list[tuple[int, bytes]]]

    def add(self, head: Head, body: bytes) -> None:
        place = (head.kind, head.stream, head.task, head.part)
        self.found.setdefault(place, []).append((head.piece, body))

    def bodies(self, kind: str, m: int) -> list[list[bytes]]:
        """For each stream its bodies, in a fixed order: tasks may finish in any order."""
        of_streams: list[list[bytes]] = [[] for _ in range(m)]
        for (of_kind, s, _, _), parts in sorted(self.found.items()):
            if of_kind == kind:
                parts.sort()
                assert [n for n, _ in parts] == list(range(len(parts))), (kind, s, len(parts))
                of_streams[s].append(b"".join(part for _, part in parts))
        return of_streams


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
    pieces = _Pieces({})
    heads: list[Head] = []
    control = None
    for text, body in parcels:
        content: dict[str, Any] = json.loads(text)
        if content["kind"] == CONTROL:
            content.pop("kind")
            control = Control(**content)
            continue
        head = Head(**content)
        heads.append(head)
        if body is not None:
            pieces.add(head, body)
    delivery = Delivery(query, pieces.bodies("tuples", m))
    delivery.control = control
    delivery.has_data = not all(head.tells_nothing for head in heads)
    for s, bodies in enumerate(pieces.bodies(REFUSED, m)):
        delivery.refused_rows[s] = [from_bytes(body) for body in bodies]
    delivery.source_bodies = pieces.bodies(SOURCES, m)
    for head in heads:
        if head.kind in (REFUSED, SOURCES) or head.piece:
            continue
        s = head.stream
        delivery.n_arrived[s] += head.n
        delivery.marks[s] = max(int(delivery.marks[s]), head.top)
        delivery.route_seconds += head.seconds
        delivery.heavy += [Heavy(*each) for each in head.heavy]
        delivery.spans[s] += [Span(*each) for each in head.spans]
        for reason, count in head.refused.items():
            delivery.refused[s][reason] = delivery.refused[s].get(reason, 0) + count
    delivery.heavy.sort()
    delivery.spans = [merged_spans(each) for each in delivery.spans]
    return delivery

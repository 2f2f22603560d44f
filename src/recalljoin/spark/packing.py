"""What travels between Spark's stages: a few rows with Arrow in them instead of many small rows.

From the sources to the cells, every row is a *parcel*: a small head, and for tuples a body that
holds the tuples in Arrow's stream format. Each task sends every cell at least one parcel, because
the head carries the task's *marks* (how many tuples of which stream, and the largest timestamp),
and a cell must hear of the progress of all streams.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.times import NEVER, NULL_ARRIVAL, NULL_TIME, TIME_OUT_OF_RANGE, times_of
from recalljoin.query.bound_query import PARTITION
from recalljoin.query.durations import MAX_TIME
from recalljoin.query.expressions import columns
from recalljoin.query.kinds import shown
from recalljoin.spark.ahead import Span, spans_of
from recalljoin.spark.cells import NOT_HOT, Hot
from recalljoin.spark.hot_keys import Heavy, heavy_keys
from recalljoin.spark.source_parcels import follows_sources, source_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.cells import Grid, Layout

PARCELS = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("cell", pa.int32(), nullable=False),
        pa.field("head", pa.string(), nullable=False),
        pa.field("body", pa.binary()),
    ]
)

ROWS_AT_ONCE = 1 << 18
"""Most tuples packed at once: this bounds the memory of a task and the size of a body."""

PIECE = 1 << 15
"""Most bytes of a body that travel in one row. All the rows that Spark may hand to a worker at once
(:mod:`recalljoin.spark.session`) then fit into the memory of any machine."""

Bodies = Sequence[tuple[int, bytes | None]]
"""Numbers of cells, each with the body that holds its tuples."""

PLACE = "__place"
"""Column that tells the tuples of a batch apart, so that copies of one tuple are recognised."""
OWNED = "__owned"
"""Column that says which copy of a tuple counts; where it is missing, the cell's place decides."""

REASON = "__reason"
"""Column that says why a row was refused."""
UNREADABLE = "__unreadable"
"""Column of a source that decodes text: the text of a row that could not be decoded, else null. The
query does not see this column."""
HIDDEN = (UNREADABLE, PARTITION)
"""Columns that a query does not see."""
_PARTITION_FIELD = pa.field(PARTITION, pa.string())
UNREADABLE_VALUE = "unreadable value"
"""Why a row was refused whose text could not be decoded."""

TUPLES, REFUSED, CONTROL, SOURCES = "tuples", "refused", "control", "sources"


@dataclass(frozen=True)
class Head:
    """What a parcel says about its task's tuples; the same for every cell."""

    kind: str
    stream: int = -1
    task: int = 0
    part: int = 0
    piece: int = 0
    """Number of the piece, where a body is too long for one row. Only the first piece's head has
    the fields below."""
    n: int = 0
    """Tuples packed for all cells together, each tuple counted once."""
    top: int = NEVER
    """Largest timestamp of the tuples."""
    refused: dict[str, int] = field(default_factory=dict)
    """Number of rows refused, by reason."""
    seconds: float = 0.0
    """Time that packing took."""
    heavy: list[Heavy] = field(default_factory=list)
    """Keys that many of the tuples have."""
    spans: list[Span] = field(default_factory=list)
    """Number of tuples by span of time, if times far ahead are to be noticed."""
    tells_nothing: bool = False
    """Whether the task ran without rows, and may have run only because another source has moved
    on."""

    def to_json(self) -> str:
        """As text."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> Head:
        """From :meth:`to_json`."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Router:
    """Packs the tuples of one stream for the cells.

    Parameters
    ----------
    query
        The bound query.
    layout
        The cells and where they live.
    stream
        Index of the stream.
    hot
        Keys that are spread over cells.
    watches
        Whether keys that many tuples have are to be noticed.
    max_ahead
        Times further ahead of the stream than this are to be noticed; None to notice none.
    always
        Whether tasks of the stream run in every batch, as those behind another join or a shuffle.
    """

    query: BoundQuery
    layout: Layout
    stream: int
    hot: Hot = NOT_HOT
    watches: bool = False
    max_ahead: int | None = None
    always: bool = False

    @property
    def grid(self) -> Grid:
        """The cells."""
        return self.layout.grid

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the packed tuples."""
        return needed_schema(self.query, self.stream)

    @cached_property
    def routed(self) -> pa.Schema:
        """Schema of the tuples that come in."""
        return routed_schema(self.query, self.stream)

    def route(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[pa.RecordBatch]:
        """Parcels for all cells, from the rows of one task."""
        part = 0
        for table in _in_pieces(batches):
            yield from self.packed(table, task, part)
            part += 1
        if not part:
            # A task without rows sends heads, too: its source has moved on, if only over an empty
            # file, so this is not the end of the input.
            nothing: Bodies = [(cell, None) for cell in range(self.grid.n_cells)]
            head = Head(TUPLES, self.stream, task, tells_nothing=self.always)
            yield self._parcels(head, nothing)

    def packed(self, table: pa.Table, task: int, part: int) -> Iterator[pa.RecordBatch]:
        """Parcels for all cells, from one piece of a task's rows."""
        begin = time.perf_counter()
        bound = self.query.streams[self.stream]
        unreadable = None
        if UNREADABLE in table.column_names:
            unreadable, table = table.column(UNREADABLE), table.drop(UNREADABLE)
        # Rows are picked faster from one piece; and the types become those of the bound query.
        table = table.select(self.routed.names).cast(self.routed).combine_chunks()
        ts, known = times_of(table.column(bound.time), self.query.unit, self.query.time_unit)
        in_range = known & (ts >= -MAX_TIME) & (ts <= MAX_TIME)
        usable = in_range
        if bound.arrival is not None:
            usable = in_range & np.asarray(table.column(bound.arrival).is_valid())
        if unreadable is not None:
            usable = usable & np.asarray(unreadable.is_null())
        refused: dict[str, int] = {}
        if not usable.all():
            known_but = np.where(in_range, NULL_ARRIVAL, TIME_OUT_OF_RANGE)
            reasons = np.where(known, known_but, NULL_TIME)
            if unreadable is not None:
                reasons = np.where(unreadable.is_null(), reasons, UNREADABLE_VALUE)
            reasons = reasons[~usable]
            names, counts = np.unique(reasons, return_counts=True)
            refused = dict(zip(names.tolist(), counts.tolist(), strict=True))
            rows = table.select(self.schema.names).filter(pa.array(~usable))
            rows = rows.append_column(REASON, pa.array(reasons))
            if unreadable is not None:
                rows = rows.append_column(UNREADABLE, unreadable.filter(pa.array(~usable)))
            head = Head(REFUSED, self.stream, task, part)
            yield self._parcels(head, [(0, to_bytes(rows))])
            table, ts = table.filter(pa.array(usable)), ts[usable]
        if len(ts) and follows_sources(self.query):
            sources = source_table(self.query, self.stream, table, ts)
            named, plain = to_bytes(sources), to_bytes(sources.drop_columns(["name"]))
            told = [(cell, plain if cell else named) for cell in range(self.grid.n_cells)]
            yield self._parcels(Head(SOURCES, self.stream, task, part), told)
        table = table.select(self.schema.names)
        heavy = []
        if self.watches:
            heavy = heavy_keys(self.query, self.grid, self.stream, table, ts)
        n_copies = self.grid.n_copies(self.stream)
        if self.hot:
            bodies = self._with_hot(table, ts, (task << 42) | (part << 20))
        elif n_copies > 1:
            first = (task << 42) | (part << 20)
            places = np.arange(first, first + table.num_rows, dtype=np.int64)
            bodies = self._bodies(table.append_column(PLACE, pa.array(places)), ts)
        else:
            bodies = self._bodies(table, ts)
        head = Head(
            TUPLES,
            self.stream,
            task,
            part,
            n=len(ts),
            top=int(ts.max(initial=NEVER)),
            refused=refused,
            seconds=time.perf_counter() - begin,
            heavy=heavy,
            spans=[] if self.max_ahead is None else spans_of(ts, self.max_ahead),
        )
        yield self._parcels(head, bodies)

    def _bodies(self, table: pa.Table, ts: Int64s) -> Bodies:
        n_cells = self.grid.n_cells
        bodies: list[bytes | None] = [None] * n_cells
        if len(ts) and self.grid.n_copies(self.stream) == n_cells:
            bodies = [to_bytes(table)] * n_cells
        elif len(ts):
            cells = self.grid.cells_of(self.query, self.stream, table, ts)
            n_copies = cells.shape[1]
            flat = cells.ravel().astype(np.uint16)
            order = np.argsort(flat, kind="stable")
            sorted_table = table.take(pa.array(order // n_copies if n_copies > 1 else order))
            return _divided(sorted_table, flat, n_cells)
        return list(enumerate(bodies))

    def _with_hot(self, table: pa.Table, ts: Int64s, first: int) -> Bodies:
        """Bodies in which every tuple says whether it is the copy that counts."""
        rows, cells = self.grid.copies_of(self.query, self.stream, table, ts, self.hot)
        # A tuple's first copy is its owner.
        owned = np.diff(rows, prepend=-1) > 0
        order = np.argsort(cells.astype(np.uint16), kind="stable")
        copies = table.take(pa.array(rows[order]))
        copies = copies.append_column(PLACE, pa.array(first + rows[order]))
        copies = copies.append_column(OWNED, pa.array(owned[order]))
        return _divided(copies, cells, self.grid.n_cells)

    def _parcels(self, head: Head, bodies: Bodies) -> pa.RecordBatch:
        keys = self.layout.keys
        heads = [head.to_json()]
        rows: list[tuple[int, str, bytes | None]] = []
        for cell, body in bodies:
            for piece, content in enumerate(_cut(body)):
                if piece == len(heads):
                    more = Head(head.kind, head.stream, head.task, head.part, piece)
                    heads.append(more.to_json())
                rows.append((cell, heads[piece], content))
        return pa.RecordBatch.from_arrays(
            [
                pa.array([keys[cell] for cell, _, _ in rows], pa.int64()),
                pa.array([cell for cell, _, _ in rows], pa.int32()),
                pa.array([text for _, text, _ in rows], pa.string()),
                pa.array([body for _, _, body in rows], pa.binary()),
            ],
            schema=PARCELS,
        )


def _cut(body: bytes | None) -> Sequence[bytes | None]:
    """A body in pieces that fit in a row; without a body one None, as the head must travel."""
    if body is None:
        return [None]
    return [body[begin : begin + PIECE] for begin in range(0, len(body), PIECE)]


def _divided(rows: pa.Table, cells: NDArray[np.integer], n_cells: int) -> Bodies:
    """Rows as one body for each cell; ``cells`` has the cell of each row, in any order."""
    bodies: list[tuple[int, bytes | None]] = []
    start = 0
    for cell, n in enumerate(np.bincount(cells, minlength=n_cells).tolist()):
        bodies.append((cell, to_bytes(rows.slice(start, n)) if n else None))
        start += n
    return bodies


@dataclass(frozen=True)
class Control:
    """What the control source says to every cell: K, the driver's clock, and more."""

    k: int
    clock: int
    """The driver's clock, in milliseconds since 1970."""
    flush: bool = False
    """Whether the input ends with this batch, if the batch holds no tuples."""
    recall: float | None = None
    """Recall over the last period, as estimated when the batch was planned."""
    retention: int | None = None
    """How long tuples are remembered behind their windows; None to leave it unchanged."""
    limited: bool = False
    """Whether the limit of bytes makes the retention shorter than delays ask for."""
    phase: str | None = None
    """The phase of the policy that chose K, if the policy has phases."""
    release: int | None = None
    """Time up to which all tuples are released, whichever stream is behind; None: as usual."""
    sources: dict[str, Any] | None = None
    """How sources are followed, if they are (:mod:`recalljoin.quality.source_lags`)."""

    def to_json(self) -> str:
        """As text, the head of a parcel."""
        return json.dumps({"kind": CONTROL, **vars(self)})


def owned_in(table: pa.Table) -> NDArray[np.bool_] | None:
    """Column :data:`OWNED` of a table of tuples; None if the table has no such column."""
    if OWNED not in table.column_names:
        return None
    flags: NDArray[np.bool_] = table.column(OWNED).to_numpy()
    return flags


def needed_schema(query: BoundQuery, s: int) -> pa.Schema:
    """The columns of a stream that the query reads, in their order."""
    stream = query.streams[s]
    if query.select is None and not query.counts_only and s in shown(query.how, s + 1):
        return stream.columns
    expressions = [equality.members[s] for equality in query.classes if s in equality.members]
    expressions += [conjunct.expression for conjunct in query.residual]
    expressions += [output.expression for output in query.select or ()]
    names = {c.name for expression in expressions for c in columns(expression) if c.stream == s}
    names.add(stream.time)
    if stream.arrival is not None:
        names.add(stream.arrival)
    return pa.schema([f for f in stream.columns if f.name in names])


def routed_schema(query: BoundQuery, s: int) -> pa.Schema:
    """The columns of a stream that routing tasks read: those of the query, and the source."""
    needed, stream = needed_schema(query, s).names, query.streams[s]
    read = [f for f in stream.columns if f.name in needed or f.name == stream.source]
    return pa.schema([*read, *([_PARTITION_FIELD] if stream.source == PARTITION else [])])


def table_of(query: BoundQuery, s: int, bodies: Iterable[bytes | memoryview]) -> pa.Table:
    """The tuples of a stream, from the bodies that hold them."""
    tables = [from_bytes(body) for body in bodies]
    return pa.concat_tables(tables) if tables else needed_schema(query, s).empty_table()


def to_bytes(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(content: bytes | memoryview) -> pa.Table:
    """Rows from :func:`to_bytes`; the rows refer to ``content`` without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def _in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of at most about :data:`ROWS_AT_ONCE` rows."""
    held: list[pa.RecordBatch] = []
    n_held = 0
    for whole in batches:
        for begin in range(0, whole.num_rows, ROWS_AT_ONCE):
            batch = whole.slice(begin, ROWS_AT_ONCE)
            if n_held and n_held + batch.num_rows > ROWS_AT_ONCE:
                yield pa.Table.from_batches(held)
                held, n_held = [], 0
            held.append(batch)
            n_held += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)

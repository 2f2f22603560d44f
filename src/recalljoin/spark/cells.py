"""Which cells a tuple goes to: the shares (hypercube) scheme.

Cells form a grid. Each class of equal attributes is a dimension of the grid; a stream without any
equality has a dimension of its own, on which its tuples are placed by a hash of their content. A
tuple has a coordinate on the dimensions that its stream has, and is copied along all other
dimensions. The members of a result agree on every dimension, and at least one member has a
coordinate on each dimension: so a result is found in one cell, and in no other.

All tuples of one key meet in one coordinate of the key's dimension, which is too much for one cell
if most tuples have that key. A *hot* key is given all coordinates instead, as a small grid of its
own: every stream that has the key has an axis there, on which its tuples are placed by a hash of
their content, and its tuples are copied along the axes of the other streams. By the same argument
a result is found in one cell only.

In an outer, semi or anti join all partners of a preserved tuple must be in the cell of the tuple.
So only the tuples of the preserved stream are divided by their content, and each of them is in one
cell. A full join preserves both streams, and divides by keys alone.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recalljoin.errors import InvalidSetting
from recalljoin.query.evaluate import evaluate
from recalljoin.query.kinds import PRESERVED, How
from recalljoin.spark.hashing import combined, hashed, mixed, spark_hash, to_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.hashing import UInt64s

_LOG = logging.getLogger(__name__)

Cells = NDArray[np.int64]

MOST_CELLS = 1024
_TURN = np.uint64(0xA0761D6478BD642F)


@dataclass(frozen=True)
class Dimension:
    """One axis of the grid."""

    streams: frozenset[int]
    """The streams whose tuples have a coordinate on this dimension."""
    equality: int | None
    """The class of equal attributes of this dimension; None for a stream's own dimension."""


@dataclass(frozen=True)
class Hot:
    """Keys that are spread over all coordinates of their dimension."""

    keys: tuple[tuple[int, ...], ...] = ()
    """For each class of equal attributes, the hashes of its hot keys in ascending order."""

    def among(self, hashes: UInt64s, equality: int | None) -> NDArray[np.bool_]:
        """Which keys of a class, given by their hashes, are hot."""
        if equality is None or equality >= len(self.keys) or not self.keys[equality]:
            return np.zeros(len(hashes), dtype=np.bool_)
        return np.isin(hashes, np.array(self.keys[equality], dtype=np.uint64))

    def __or__(self, other: Hot) -> Hot:
        pairs = zip_longest(self.keys, other.keys, fillvalue=())
        return Hot(tuple(tuple(sorted({*one, *more})) for one, more in pairs))

    def __bool__(self) -> bool:
        return any(self.keys)


NOT_HOT = Hot()


@dataclass(frozen=True)
class Grid:
    """The cells of one query.

    Cells are numbered through, the last dimension counting fastest.
    """

    m: int
    dimensions: tuple[Dimension, ...]
    shares: tuple[int, ...]
    divided: frozenset[int] | None = None
    """The streams whose tuples may be divided by their content; None for all streams."""

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shares)

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shares[d + 1 :]) for d in range(len(self.shares)))

    def lacks(self, s: int) -> tuple[int, ...]:
        """Dimensions on which a stream's tuples have no coordinate."""
        return tuple(d for d, dim in enumerate(self.dimensions) if s not in dim.streams)

    def n_copies(self, s: int) -> int:
        """Number of cells that hold a copy of each tuple of a stream."""
        return math.prod(self.shares[d] for d in self.lacks(s))

    def load(self) -> float:
        """Tuples that a cell takes in on average, if every stream brings one tuple."""
        return sum(self.n_copies(s) for s in range(self.m)) / self.n_cells

    def owns(self, cell: int, s: int) -> bool:
        """Whether this cell, of all cells with a copy, counts the tuples of a stream.

        The cells of the copies differ only on the dimensions that the stream lacks, so the cell
        with coordinate 0 on all these dimensions is the tuple's owner.
        """
        return all(cell // self._strides[d] % self.shares[d] == 0 for d in self.lacks(s))

    def cells_of(self, query: BoundQuery, s: int, table: pa.Table, ts: Cells) -> Cells:
        """``[tuple, copy]``: the cells of a stream's tuples."""
        n = table.num_rows
        first = np.zeros(n, dtype=np.int64)
        for d, dimension in enumerate(self.dimensions):
            if s in dimension.streams and self.shares[d] > 1:
                hashes = self._hashes(query, s, dimension, table, ts)
                first += to_share(hashes, self.shares[d]) * self._strides[d]
        return first[:, np.newaxis] + self._offsets(s)[np.newaxis]

    def copies_of(
        self, query: BoundQuery, s: int, table: pa.Table, ts: Cells, hot: Hot = NOT_HOT
    ) -> tuple[Cells, Cells]:
        """All copies of a stream's tuples: for each copy the number of its tuple, and its cell."""
        if not hot:
            cells = self.cells_of(query, s, table, ts)
            return np.repeat(np.arange(len(cells)), cells.shape[1]), cells.ravel()
        rows = np.arange(table.num_rows)
        cells = np.zeros(len(rows), dtype=np.int64)
        for d, dimension in enumerate(self.dimensions):
            if s in dimension.streams and self.shares[d] > 1:
                hashes = self._hashes(query, s, dimension, table, ts)
                is_hot = hot.among(hashes, dimension.equality)
                coordinates = to_share(hashes, self.shares[d])
                content = _content_hashes(table.filter(pa.array(is_hot)), ts[is_hot])
                coordinates[is_hot] = self._first_of_hot(s, d, hashes[is_hot], content)
                steps = self._hot_steps(s, d)
                # A hot tuple has as many copies as the other streams' axes have places.
                n = np.where(is_hot[rows], len(steps), 1)
                step = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
                rows, cells = np.repeat(rows, n), np.repeat(cells, n)
                cells += (coordinates[rows] + steps[step]) % self.shares[d] * self._strides[d]
        offsets = self._offsets(s)
        rows, cells = np.repeat(rows, len(offsets)), np.repeat(cells, len(offsets))
        return rows, cells + np.tile(offsets, len(cells) // len(offsets))

    def _hot_shares(self, d: int) -> dict[int, int]:
        """How the coordinates of a dimension are divided over the streams that have a hot key."""
        members = sorted(self.dimensions[d].streams)
        if self.divided is not None:
            assert len(self.divided) == 1, "hot keys of a full join are not divided"
            return {s: self.shares[d] if s in self.divided else 1 for s in members}
        grids = (
            Grid(len(members), tuple(Dimension(frozenset({i}), None) for i in range(len(members))),
                 shares)
            for shares in _all_shares(len(members), self.shares[d])
        )  # fmt: skip
        best = min(grids, key=lambda g: (round(g.load(), 9), g.n_cells, [-n for n in g.shares]))
        return dict(zip(members, best.shares, strict=True))

    def _hot_steps(self, s: int, d: int) -> Cells:
        """Distances of the copies of a hot tuple from its first copy, on a dimension."""
        steps = np.zeros(1, dtype=np.int64)
        stride = 1
        for member, share in self._hot_shares(d).items():
            if member != s:
                steps = (steps[:, np.newaxis] + np.arange(share) * stride).ravel()
            stride *= share
        return steps

    def _first_of_hot(self, s: int, d: int, keys: UInt64s, content: UInt64s) -> Cells:
        """First coordinate of hot tuples on a dimension, by hashes of key and content."""
        shares = self._hot_shares(d)
        stride = math.prod(share for member, share in shares.items() if member < s)
        # Each key begins at another place, or the first cells would hold tuples of all hot keys.
        begins = to_share(mixed(keys + _TURN), self.shares[d])
        return begins + to_share(content, shares[s]) * stride

    def _offsets(self, s: int) -> Cells:
        offsets = np.zeros(1, dtype=np.int64)
        for d in self.lacks(s):
            steps = np.arange(self.shares[d]) * self._strides[d]
            offsets = (offsets[:, np.newaxis] + steps[np.newaxis]).ravel()
        return offsets

    def _hashes(
        self, query: BoundQuery, s: int, dimension: Dimension, table: pa.Table, ts: Cells
    ) -> UInt64s:
        if dimension.equality is None:
            return _content_hashes(table, ts)
        return key_hashes(query, dimension.equality, s, table, ts)


def key_hashes(query: BoundQuery, equality: int, s: int, table: pa.Table, ts: Cells) -> UInt64s:
    """Hashes of the keys that a stream's tuples have in a class of equal attributes."""
    members = query.classes[equality].members
    values = evaluate(members[s], lambda _, name: _one_array(table.column(name)), table.num_rows)
    hashes = hashed(values)
    if values.null_count:
        # A null key joins nothing, so its cell does not matter: null keys are spread over cells.
        hashes = np.where(np.asarray(values.is_valid()), hashes, mixed(ts.view(np.uint64)))
    return hashes


def _content_hashes(table: pa.Table, ts: Cells) -> UInt64s:
    hashes = mixed(ts.view(np.uint64))
    for name in table.column_names:
        hashes = combined(hashes, hashed(_one_array(table.column(name))))
    return hashes


def spread_keys(n: int) -> tuple[int, ...]:
    """Group keys that Spark's hash spreads evenly over ``n`` partitions.

    They are spread evenly over any number of partitions that divides ``n``, too.
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < n:
        found.setdefault(spark_hash(key) % n, key)
        key += 1
    return tuple(found[place] for place in range(n))


@dataclass(frozen=True)
class Layout:
    """Where cells live: each cell in a group, each group in a partition of Spark's state.

    Parameters
    ----------
    grid
        The cells.
    n_groups
        Number of groups. Spark calls groups one by one; cells of one group run as threads.
    """

    grid: Grid
    n_groups: int

    def divided_as(self, shares: tuple[int, ...], n_groups: int) -> Layout:
        """The same query over another number of cells and groups."""
        return Layout(replace(self.grid, shares=shares), n_groups)

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """For each cell the key of its group."""
        keys = spread_keys(self.n_groups)
        return tuple(keys[cell % self.n_groups] for cell in range(self.grid.n_cells))


def make_grid(query: BoundQuery, n_cells: int) -> Grid:
    """The grid of at most ``n_cells`` cells that gives a cell the fewest tuples.

    Parameters
    ----------
    query
        The bound query.
    n_cells
        Most cells. Fewer cells are used where more cells would only mean more copies.
    """
    if not 1 <= n_cells <= MOST_CELLS:
        message = f"`cells` must be between 1 and {MOST_CELLS}, got {n_cells!r}"
        raise InvalidSetting(message)
    m = len(query.streams)
    dimensions = [
        Dimension(frozenset(equality.members), c) for c, equality in enumerate(query.classes)
    ]
    with_key = frozenset().union(*(dimension.streams for dimension in dimensions))
    divided = divided_streams(query.how)
    dimensions += [
        Dimension(frozenset({s}), None)
        for s in range(m)
        if s not in with_key and (divided is None or s in divided)
    ]
    if not dimensions and n_cells > 1:
        _LOG.warning(
            "a full join without an equality between the streams runs in one cell: every tuple may "
            "be the partner of every other"
        )
    grids = (
        Grid(m, tuple(dimensions), shares, divided)
        for shares in _all_shares(len(dimensions), n_cells)
    )
    # Among equally good grids, the one with fewer cells, then the one that splits the first
    # dimensions.
    return min(grids, key=lambda g: (round(g.load(), 9), g.n_cells, [-share for share in g.shares]))


def divided_streams(how: How) -> frozenset[int] | None:
    """The streams whose tuples may be divided by their content; None for all streams."""
    if how == "inner":
        return None
    return frozenset(PRESERVED[how]) if len(PRESERVED[how]) == 1 else frozenset()


def _all_shares(n_dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    if n_dimensions == 0:
        yield ()
        return
    for share in range(1, most + 1):
        for rest in _all_shares(n_dimensions - 1, most // share):
            yield (share, *rest)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

"""Which cells a tuple goes to: the shares (hypercube) scheme.

Cells form a grid. Each class of equal attributes is a dimension of it; a stream without any
equality has a dimension of its own, on which its tuples are placed by a hash of their content. A
tuple has a coordinate on the dimensions it knows and is copied along those it lacks. The members
of a result agree on every dimension, and each dimension is known to one of them at least: so a
result is found in one cell, and in no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recalljoin.errors import InvalidSetting
from recalljoin.query import BoundQuery, evaluate
from recalljoin.spark.hashing import combined, hashed, mixed, spark_hash, to_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from recalljoin.spark.hashing import UInt64s

Cells = NDArray[np.int64]

MOST_CELLS = 1024


@dataclass(frozen=True)
class Dimension:
    """One axis of the grid."""

    streams: frozenset[int]
    """The streams whose tuples have a coordinate on it."""
    equality: int | None
    """The class of equal attributes it stands for; None for a stream's own dimension."""


@dataclass(frozen=True)
class Grid:
    """The cells of one query.

    Cells are numbered through, the last dimension counting fastest.
    """

    m: int
    dimensions: tuple[Dimension, ...]
    shares: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """Cells in all."""
        return math.prod(self.shares)

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shares[d + 1 :]) for d in range(len(self.shares)))

    def lacks(self, s: int) -> tuple[int, ...]:
        """Dimensions on which a stream's tuples have no coordinate."""
        return tuple(d for d, dim in enumerate(self.dimensions) if s not in dim.streams)

    def n_copies(self, s: int) -> int:
        """Cells that hold each tuple of a stream."""
        return math.prod(self.shares[d] for d in self.lacks(s))

    def load(self) -> float:
        """Tuples a cell takes in, if every stream brings one."""
        return sum(self.n_copies(s) for s in range(self.m)) / self.n_cells

    def owns(self, cell: int, s: int) -> bool:
        """Whether tuples of a stream are counted in this cell, of all that hold a copy.

        Copies differ on the dimensions the stream lacks alone, so the one at their beginning is
        the tuple's owner.
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

    def _offsets(self, s: int) -> Cells:
        offsets = np.zeros(1, dtype=np.int64)
        for d in self.lacks(s):
            steps = np.arange(self.shares[d]) * self._strides[d]
            offsets = (offsets[:, np.newaxis] + steps[np.newaxis]).ravel()
        return offsets

    def _hashes(
        self, query: BoundQuery, s: int, dimension: Dimension, table: pa.Table, ts: Cells
    ) -> UInt64s:
        by_time = mixed(ts.view(np.uint64))
        if dimension.equality is None:
            hashes = by_time
            for name in table.column_names:
                hashes = combined(hashes, hashed(_one_array(table.column(name))))
            return hashes
        members = query.classes[dimension.equality].members
        values = evaluate(
            members[s], lambda _, name: _one_array(table.column(name)), table.num_rows
        )
        # A null key joins nothing, so it may be anywhere: not all of them in one cell.
        return np.where(np.asarray(values.is_valid()), hashed(values), by_time)


def spread_keys(n: int) -> tuple[int, ...]:
    """Group keys that Spark's hash spreads evenly over ``n`` partitions.

    Even as well over any number of partitions that divides ``n``.
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < n:
        found.setdefault(spark_hash(key) % n, key)
        key += 1
    return tuple(found[place] for place in range(n))


@dataclass(frozen=True)
class Layout:
    """Where cells live: each in a group, each group in a partition of Spark's state.

    Parameters
    ----------
    grid
        The cells.
    n_groups
        Groups, which Spark calls one by one; cells of one group run as threads.
    """

    grid: Grid
    n_groups: int

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
        Cells that can be used. Fewer are, where a full use would only make more copies.
    """
    if not 1 <= n_cells <= MOST_CELLS:
        message = f"`cells` must be between 1 and {MOST_CELLS}, got {n_cells!r}"
        raise InvalidSetting(message)
    m = len(query.streams)
    dimensions = [
        Dimension(frozenset(equality.members), c) for c, equality in enumerate(query.classes)
    ]
    with_key = frozenset().union(*(dimension.streams for dimension in dimensions))
    dimensions += [Dimension(frozenset({s}), None) for s in range(m) if s not in with_key]
    grids = (Grid(m, tuple(dimensions), shares) for shares in _all_shares(len(dimensions), n_cells))
    # Among equals the one with fewer cells, then the one that splits the first dimensions.
    return min(grids, key=lambda g: (round(g.load(), 9), g.n_cells, [-share for share in g.shares]))


def _all_shares(n_dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    if n_dimensions == 0:
        yield ()
        return
    for share in range(1, most + 1):
        for rest in _all_shares(n_dimensions - 1, most // share):
            yield (share, *rest)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

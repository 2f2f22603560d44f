"""What the cells of a grid hold: the tuples that count there, and shares of recorded tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals
from recalljoin.quality.cell import Owned, Share
from recalljoin.spark.cells import NOT_HOT

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.cells import Cells, Grid, Hot


def owned_by(grid: Grid, cell: int) -> Owned:
    """Which tuples are counted in a new cell, which has no tuples yet."""
    return Owned(np.array([grid.owns(cell, s) for s in range(grid.m)]))


def shares_of(
    query: BoundQuery, grid: Grid, arrivals: Arrivals, tick: Cells, hot: Hot = NOT_HOT
) -> list[Share]:
    """Divide recorded tuples, each with its tick, among the cells of a grid."""
    if grid.n_cells == 1:
        return [Share.whole(arrivals, tick)]
    copies = []
    for s, table in enumerate(arrivals.tables):
        rows, cells = grid.copies_of(query, s, table, arrivals.ts[arrivals.stream == s], hot)
        # A tuple's first copy is its owner.
        copies.append((rows, cells, np.diff(rows, prepend=-1) > 0))
    shares = []
    for cell in range(grid.n_cells):
        held, flags = [], []
        for rows, cells, owned in copies:
            mine = cells == cell
            held.append(rows[mine])
            flags.append(owned[mine] if hot else None)
        here = np.zeros(len(arrivals), dtype=np.bool_)
        row = np.zeros(len(arrivals), dtype=np.int64)
        for s, numbers in enumerate(held):
            mine = np.flatnonzero(arrivals.stream == s)[numbers]
            here[mine] = True
            row[mine] = np.arange(len(numbers))
        (places,) = np.nonzero(here)
        tables = tuple(
            table.take(pa.array(numbers))
            for table, numbers in zip(arrivals.tables, held, strict=True)
        )
        part = Arrivals(tables, arrivals.stream[places], row[places], arrivals.ts[places])
        shares.append(Share(part, tick[places], places, tuple(held), tuple(flags)))
    return shares

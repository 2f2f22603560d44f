"""Tuples that have arrived and may still wait for their turn at the join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s


class Pending(NamedTuple):
    """Tuples that have arrived, by number; released ones stay until the next clean-up."""

    stream: NDArray[np.int8]
    ts: Int64s
    row: Int64s
    delay: Int64s
    base: Int64s
    joinable: NDArray[np.bool_]
    position: Int64s
    """Where the tuple is in its ring, for tuples that join at their arrival."""
    codes: Int64s
    values: Float64s

    @property
    def bytes_each(self) -> int:
        """Memory of one tuple, without the columns that travel with it."""
        return 8 * (4 + len(self.codes) + len(self.values)) + 2

    def extended(self, other: Pending) -> Pending:
        """These tuples, followed by the tuples of ``other``."""
        pairs: list[Any] = list(zip(self, other, strict=True))
        return Pending(*(np.concatenate(pair, axis=-1) for pair in pairs))

    def taken(self, ids: Int64s) -> Pending:
        """The tuples with the given numbers."""
        # The numbers come from the engine and need no check.
        columns: list[Any] = [column.take(ids, axis=-1, mode="clip") for column in self]
        return Pending(*columns)

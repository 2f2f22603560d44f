"""Which of a cell's tuples are counted in it, and not in another cell with a copy of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s


class Owned:
    """For every tuple a cell still knows, by its row number, whether it counts here.

    Most tuples need no flag: whether they count follows from their stream and the cell's place in
    the grid. Only while some keys are hot do tuples come with one.

    Parameters
    ----------
    by_stream
        Whether tuples without a flag count, for each stream.
    """

    def __init__(self, by_stream: NDArray[np.bool_]) -> None:
        self.by_stream = by_stream
        m = len(by_stream)
        self._flags: list[NDArray[np.bool_] | None] = [None] * m
        self._first = [0] * m
        self._end = [0] * m

    def append(self, s: int, n: int, flags: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Take in the flags of a stream's next ``n`` tuples, and return them as they count."""
        told = np.full(n, self.by_stream[s]) if flags is None else flags
        known = self._flags[s]
        if known is not None:
            self._flags[s] = np.concatenate((known, told))
        elif flags is not None and n:
            self._flags[s], self._first[s] = flags, self._end[s]
        self._end[s] += n
        return told

    def at(self, stream: NDArray[np.int8], row: Int64s) -> NDArray[np.bool_]:
        """Whether tuples count here."""
        counts: NDArray[np.bool_] = self.by_stream[stream]
        for s, flags in enumerate(self._flags):
            if flags is not None:
                mine = (stream == s) & (row >= self._first[s])
                counts[mine] = flags[row[mine] - self._first[s]]
        return counts

    def n_flags(self, s: int) -> int:
        """Tuples of a stream with a flag."""
        flags = self._flags[s]
        return 0 if flags is None else len(flags)

    def forget_before(self, s: int, row: int) -> None:
        """Tuples of a stream with smaller numbers will not be asked for again."""
        flags = self._flags[s]
        if flags is None:
            return
        left = flags[max(0, row - self._first[s]) :]
        is_plain = bool((left == self.by_stream[s]).all())
        self._flags[s] = None if is_plain else left.copy()
        self._first[s] = max(row, self._first[s])

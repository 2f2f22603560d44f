"""Rings: the tuples the join operator has received and may still need, in the order they came.

Each stream has a ring. A tuple is known by its *position* in the ring; positions only grow. The row
of a tuple in one wide array is its *record*: what a probe reads of a tuple lies together in memory,
and a kernel takes few arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled, inlined, lean
from recalljoin.engine.queues import FRONT_TS, Queues, drop_front

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s

NONE = -1
"""Stands for no tuple, or no slot."""
UNMATCHABLE = np.iinfo(np.int64).max
"""Time, in the column that is scanned, of a tuple that can be in no result."""

# Columns of Windows.rings.table, one row a stream.
OFFSET, MASK, FIRST, END, SCOPE, N_WINDOW = range(6)
# Columns of a tuple's record. After these columns come the links of each key set (for a chain the
# next older tuple, for slots more), then the row and the codes of all classes. What a walk along a
# list reads lies in one cache line.
TS, ORDER, BASE, NOW, LINKS = range(5)
ROW, CODES = range(2)


class Sequence(NamedTuple):
    """A stretch of the join sequence, as columns."""

    stream: NDArray[np.int8]
    ts: Int64s
    now: Int64s
    """How far the join had come: the join time after the tuple was received, or for a late tuple
    of tick mode the watermark it missed. Never falls."""
    base: Int64s
    lost_base: Int64s
    """Base time from which the required slack of results lost with a late tuple is counted."""
    row: Int64s
    late: NDArray[np.bool_]
    joinable: NDArray[np.bool_]
    """False for a tuple with a null key, or for which a condition on its stream alone fails."""
    codes: Int64s
    """``[class, tuple]``."""

    def part(self, chosen: slice) -> Sequence:
        """A part of this stretch."""
        columns: list[Any] = [column[..., chosen] for column in self]
        return Sequence(*columns)


class Rings(NamedTuple):
    """The tuples of all streams.

    A stream's positions live at ``OFFSET + (position & MASK)``. ``FIRST`` is the oldest position
    kept, ``END`` the next position to be given, ``SCOPE`` the first position that can still be in
    the window, and ``N_WINDOW`` the number of tuples in the window.

    A record's ``ORDER`` is the tuple's place in the join sequence over all streams. Its ``NOW`` is
    how far the join had come when it received the tuple: ``NOW`` never falls along a ring, and is
    the tuple's timestamp unless the tuple was late.
    """

    table: Int64s
    records: Int64s


class KeySets(NamedTuple):
    """The plan's key sets as arrays."""

    classes: Int64s
    """``[key set, i]``: the i-th class of the key set."""
    size: Int64s
    of_stream: Int64s
    """``[stream, i]``: the i-th key set of the stream."""
    n_of_stream: Int64s
    tail: Int64s
    """One number: the column after the links, where ``ROW`` and ``CODES`` begin."""


@inlined
def mix(value: int) -> int:
    """Spread the bits of a key (the finisher of splitmix64)."""
    x = np.uint64(value)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.int64(x ^ (x >> np.uint64(31))))


@inlined
def expire_window(rings: Rings, late: Queues, s: int, limit: int) -> None:
    """Bring the number of tuples in a stream's window up to date."""
    table, records = rings
    offset, mask = table[s, OFFSET], table[s, MASK]
    position = table[s, SCOPE]
    while position < table[s, END]:
        record = offset + (position & mask)
        if records[record, NOW] >= limit:
            break
        # A late tuple leaves the window by its own time, which is in the queue.
        if records[record, TS] == records[record, NOW]:
            table[s, N_WINDOW] -= 1
        position += 1
    table[s, SCOPE] = position
    while late.state[s, FRONT_TS] < limit:
        table[s, N_WINDOW] -= 1
        drop_front(late, s)


@compiled
def rows_at(records: Int64s, column: int, places: Int64s) -> Int64s:
    """One column of the records at ``places``, which are ``[stream, i]`` or ``[i]``."""
    flat = places.ravel()
    found = np.empty(len(flat), dtype=np.int64)
    for i in range(len(flat)):
        found[i] = records[flat[i], column]
    return found.reshape(places.shape)


@lean
def first_from(table: Int64s, records: Int64s, s: int, column: int, limit: int) -> int:
    """The first position of a stream with ``limit`` or more in a column that never falls.

    With the column ``NOW``, every tuple before that position is older than ``limit``.
    """
    offset, mask = table[s, OFFSET], table[s, MASK]
    low: int = table[s, FIRST]
    high: int = table[s, END]
    while low < high:
        middle = (low + high) >> 1
        if records[offset + (middle & mask), column] < limit:
            low = middle + 1
        else:
            high = middle
    return low

"""The windows: tuples the join operator has received and may still need, indexed by key.

Tuples stand in rings, one for each stream. Beside the rings stands an index by key: *slots* where
results are counted along join trees, *chains* where results are enumerated.

A tuple stays for the retention horizon after it has left its window, because results lost with
a late tuple can only be counted while their other members are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.chains import admit, empty_chains, forget_chained, roomy_chains
from recalljoin.engine.progress import Remembered
from recalljoin.engine.queues import empty_queues, with_room
from recalljoin.engine.rings import (
    CODES,
    END,
    FIRST,
    LINKS,
    MASK,
    NONE,
    NOW,
    OFFSET,
    ROW,
    SCOPE,
    UNMATCHABLE,
    KeySets,
    Rings,
    Sequence,
    first_from,
    rows_at,
)
from recalljoin.engine.slots import (
    LINK_WIDTH,
    SLOT,
    empty_slots,
    forget,
    remember,
    roomy_slots,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import Plan

# Notes on a tuple, where results leave at once or tuples without a partner matter: what is known
# of its partners, the least slack that its results need, and which results are counted with it.
FATE, NEED, CREDIT, OPEN = range(4)
N_NOTES = 4
_LINE = 8
"""64-bit numbers in a cache line."""


class Windows:
    """All windows of one operator instance.

    Parameters
    ----------
    plan
        Streams, classes and key sets.
    retention
        How long a tuple is kept after it has left its window, to begin with.
    n_values
        Numeric values kept for each tuple, for conditions that are checked by scanning.
    n_notes
        Numbers noted with each tuple, beyond what the join itself needs.
    """

    def __init__(self, plan: Plan, *, retention: int, n_values: int = 0, n_notes: int = 0) -> None:
        self.plan = plan
        self.remembered = Remembered(retention)
        self.n_values = n_values
        self.is_chained = not plan.counts_by_tree
        self.sizes = np.array(plan.windows, dtype=np.int64)
        self.key_sets = _key_set_arrays(plan)
        self.rings = _empty_rings(plan, np.full(plan.m, 64), np.zeros(plan.m, dtype=np.int64))
        # Columns apart from the records, so that a scan reads memory in sequence.
        self.values = np.empty((n_values, len(self.rings.records)))
        self.notes = np.zeros((n_notes, len(self.rings.records)), dtype=np.int64)
        self.times = np.empty(len(self.rings.records), dtype=np.int64)
        # Either slots or chains are the index by key; the other one stays empty.
        self.slots = empty_slots(plan, 1 if self.is_chained else 64)
        self.chains = empty_chains(plan)
        # Timestamps of late tuples in the window, as late tuples leave the window out of turn.
        self.late = empty_queues(plan.m)

    def make_room(self, n_new: Int64s) -> None:
        """Prepare for ``n_new[s]`` more tuples of each stream."""
        table = self.rings.table
        wanted = table[:, END] - table[:, FIRST] + n_new
        if (wanted > table[:, MASK] + 1).any():
            doubled = 2 ** np.ceil(np.log2(np.maximum(1.5 * wanted, 64))).astype(np.int64)
            self._grow(np.maximum(doubled, table[:, MASK] + 1))
        self.late = with_room(self.late, int(n_new.max()))
        n_keys = int((n_new * self.key_sets.n_of_stream).sum())
        if self.is_chained:
            self.chains = roomy_chains(self.chains, self.plan, self.rings, n_keys)
        else:
            self.slots = roomy_slots(self.slots, self.plan, n_keys)

    def _grow(self, capacity: Int64s) -> None:
        old, new = self.rings, _empty_rings(self.plan, capacity, self.rings.table[:, FIRST])
        new.table[:, FIRST:] = old.table[:, FIRST:]
        values, times, notes = self.values, self.times, self.notes
        self.notes = np.zeros((len(notes), len(new.records)), dtype=np.int64)
        self.values = np.empty((self.n_values, len(new.records)))
        self.times = np.empty(len(new.records), dtype=np.int64)
        for before, after in zip(old.table.tolist(), new.table.tolist(), strict=True):
            for source, target in _pieces(before, after):
                new.records[target] = old.records[source]
                self.values[:, target] = values[:, source]
                self.times[target] = times[source]
                self.notes[:, target] = notes[:, source]
        self.rings = new

    def forget(self, now: int) -> None:
        """Drop tuples that no tuple after ``now`` can need."""
        limits = now - self.sizes
        retention = self.remembered.retention
        if self.is_chained:
            forget_chained(self.rings, self.late, limits, retention)
        else:
            forget(self.rings, self.slots, self.key_sets, self.late, limits, retention)

    def remember(self, sequence: Sequence, order: Int64s) -> Int64s:
        """Put tuples into the windows without joining them, as they were received before.

        There must be room. Returns their records.
        """
        if self.is_chained:
            records = np.empty(len(order), dtype=np.int64)
            nobody = np.empty((0, 0), dtype=np.int64)
            admit(
                sequence, np.arange(len(order)), order, self.rings, self.chains, self.key_sets,
                self.late, self.sizes, self.times, UNMATCHABLE, np.empty(0), nobody, records,
                nobody,
            )  # fmt: skip
            return records
        records = remember(
            sequence, order, self.rings, self.slots, self.key_sets, self.late, self.sizes
        )
        self.times[records] = np.where(sequence.joinable, sequence.ts, UNMATCHABLE)
        return records

    @property
    def n_kept(self) -> int:
        """Tuples in windows and retention horizon."""
        table = self.rings.table
        return int((table[:, END] - table[:, FIRST]).sum())

    def n_kept_of(self, s: int) -> int:
        """Tuples of one stream in window and retention horizon."""
        row = self.rings.table[s]
        return int(row[END] - row[FIRST])

    def n_since(self, s: int, limit: int) -> int:
        """At most so many tuples of one stream are not older than ``limit``."""
        table, records = self.rings
        return int(table[s, END]) - first_from(table, records, s, NOW, limit)

    @property
    def bytes_each(self) -> int:
        """Memory of one tuple, without the columns that travel with it and the index by key."""
        width: int = self.rings.records.shape[1]
        return 8 * (width + 1 + self.n_values + len(self.notes))

    def places_of(self, s: int) -> Int64s:
        """Where the records of a stream's tuples are, in join sequence."""
        row = self.rings.table[s]
        places: Int64s = row[OFFSET] + (np.arange(row[FIRST], row[END]) & row[MASK])
        return places

    def positions_of(self, stream: NDArray[np.int8], records: Int64s) -> Int64s:
        """Positions of tuples that have just come in, given by their records; NONE of NONE.

        A position stays when the rings grow.
        """
        row = self.rings.table[stream]
        last = row[:, END] - 1
        positions = last - ((last - (records - row[:, OFFSET])) & row[:, MASK])
        return np.where(records == NONE, NONE, positions)

    def records_at(self, stream: NDArray[np.int8], positions: Int64s) -> Int64s:
        """The records of tuples, given by their positions."""
        row = self.rings.table[stream]
        records: Int64s = row[:, OFFSET] + (positions & row[:, MASK])
        return records

    def rows_at(self, places: Int64s) -> Int64s:
        """Row numbers, given by the caller, of the tuples at some places."""
        return rows_at(self.rings.records, int(self.key_sets.tail[0]) + ROW, places)

    def joinable_at(self, stream: NDArray[np.int8], places: Int64s) -> NDArray[np.bool_]:
        """Whether the tuples at some places can be in any result."""
        known: NDArray[np.bool_] = self.times[places] != UNMATCHABLE
        for s in range(self.plan.m):
            if self.key_sets.n_of_stream[s] and not self.is_chained:
                mine = stream == s
                column = LINKS + LINK_WIDTH * int(self.key_sets.of_stream[s, 0]) + SLOT
                known[mine] = self.rings.records[places[mine], column] != NONE
        return known

    def codes_at(self, places: Int64s) -> Int64s:
        """``[class, tuple]``: codes of the tuples at some places."""
        first = int(self.key_sets.tail[0]) + CODES
        return self.rings.records[places, first : first + len(self.plan.classes)].T


def _pieces(before: list[int], after: list[int]) -> Iterator[tuple[slice, slice]]:
    """Where the tuples of a ring are, and where they belong in another ring, in whole pieces.

    Both rings are rows of a table. A piece ends where either ring starts over.
    """
    at, end = before[FIRST], before[END]
    while at < end:
        rest = [ring[MASK] + 1 - (at & ring[MASK]) for ring in (before, after)]
        n = min(end - at, *rest)
        source, target = (ring[OFFSET] + (at & ring[MASK]) for ring in (before, after))
        yield slice(source, source + n), slice(target, target + n)
        at += n


def tail_column(plan: Plan) -> int:
    """The column of a record after its links."""
    return LINKS + (LINK_WIDTH if plan.counts_by_tree else 1) * len(plan.key_sets)


def _key_set_arrays(plan: Plan) -> KeySets:
    widest = max([1, *(len(key_set) for key_set in plan.key_sets)])
    classes = np.zeros((len(plan.key_sets), widest), dtype=np.int64)
    for at, key_set in enumerate(plan.key_sets):
        classes[at, : len(key_set)] = key_set
    n_of_stream = np.array([len(sets) for sets in plan.key_sets_of], dtype=np.int64)
    of_stream = np.zeros((plan.m, int(n_of_stream.max())), dtype=np.int64)
    for s, sets in enumerate(plan.key_sets_of):
        of_stream[s, : len(sets)] = sets
    return KeySets(
        classes=classes,
        size=np.array([len(key_set) for key_set in plan.key_sets], dtype=np.int64),
        of_stream=of_stream,
        n_of_stream=n_of_stream,
        tail=np.array([tail_column(plan)], dtype=np.int64),
    )


def _empty_rings(plan: Plan, capacity: Int64s, first: Int64s) -> Rings:
    table = np.zeros((plan.m, 6), dtype=np.int64)
    table[1:, OFFSET] = np.cumsum(capacity)[:-1]
    table[:, MASK] = capacity - 1
    table[:, FIRST] = table[:, END] = table[:, SCOPE] = first
    width = tail_column(plan) + CODES + len(plan.classes)
    width += -width % _LINE
    n = int(capacity.sum())
    memory = np.empty(n * width + _LINE, dtype=np.int64)
    start = -(memory.ctypes.data // memory.itemsize) % _LINE
    return Rings(table, memory[start : start + n * width].reshape(n, width))

"""The windows: tuples the join operator has received and may still need, indexed by key.

Each stream has a ring of tuples in the order the join operator received them; a tuple is known by
its *position*, which only grows, so a position is never reused while anything points at it.
Beside the rings stand *slots*, one for each key value of each key set, shared by all streams: a
slot holds for each stream the list of its tuples with that key, in timestamp order. From a tuple
one gets to its partners in another stream without hashing: both know the same slot.

A tuple stays for the retention horizon after it has left its window, because results lost with
a late tuple can only be counted while their other members are known. Leaving the window is lazy:
a slot's list of live tuples is cut back when somebody looks at it.

Tuples and slots are rows of a few wide arrays: what a probe reads of one of them lies together in
memory, and a kernel takes few arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled, inlined
from recalljoin.engine.queues import (
    FRONT_TS,
    Int64s,
    Queues,
    drop_front,
    empty_queues,
    push,
    with_room,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.plan import Plan

NONE = -1
"""No tuple, no slot."""
UNMATCHABLE = np.iinfo(np.int64).max
"""Time, in the column that is scanned, of a tuple that can be in no result."""

# Columns of Windows.rings.table, one row a stream.
OFFSET, MASK, FIRST, END, SCOPE, N_WINDOW = range(6)
# Columns of a tuple's cell. Behind them stands for each key set a link (the slot, the neighbours in
# the slot's list, the next older tuple behind the base time), then the row and the codes of all
# classes. What a walk along a list reads lies in one cache line.
TS, ORDER, BASE, NOW, LINKS = range(5)
SLOT, AFTER, BEFORE, OLDER_RAISER, LINK_WIDTH = range(5)
ROW, CODES = range(2)
_LINE = 8
# Columns of a slot. Behind them stand the codes of its key.
HASH, LINK, N_TUPLES, KEY = range(4)
# Columns of a slot's list, one row a stream.
TAIL, LIVE, N_LIVE, RAISER, LIST_WIDTH = range(5)
# Cells of Slots.state.
NEXT_SLOT, N_FREE, N_BUCKETS_USED = range(3)

_EMPTY_BUCKET, _FORMER_BUCKET = -1, -2


class Sequence(NamedTuple):
    """A stretch of the join sequence, as columns."""

    stream: NDArray[np.int8]
    ts: Int64s
    now: Int64s
    """How far the join had come: the join time after the tuple was received, or for a late tuple
    of tick mode the watermark it missed. Never falls."""
    base: Int64s
    row: Int64s
    late: NDArray[np.bool_]
    joinable: NDArray[np.bool_]
    """False for tuples that can be in no result: a null key, or a condition on them alone fails."""
    codes: Int64s
    """``[class, tuple]``."""

    def part(self, chosen: slice) -> Sequence:
        """A stretch of it."""
        columns: list[Any] = [column[..., chosen] for column in self]
        return Sequence(*columns)


class Rings(NamedTuple):
    """The tuples of all streams.

    A stream's positions live at ``OFFSET + (position & MASK)``. ``FIRST`` is its oldest position
    kept, ``END`` the next one to be given, ``SCOPE`` the first that can still be in the window and
    ``N_WINDOW`` how many are.

    A cell's ``ORDER`` is the tuple's place in the join sequence over all streams, its ``NOW`` how
    far the join had come then. That never falls along a ring, and is the timestamp itself unless
    the tuple was late.
    """

    table: Int64s
    cells: Int64s


class Slots(NamedTuple):
    """The key values in use.

    ``LINK`` is the column of the key set's link in a cell. Of a slot's list for a stream,
    ``TAIL`` is the youngest tuple, ``LIVE`` the oldest in the window as of the last look,
    ``RAISER`` the last received that arrived behind the base time. A slot without tuples is
    given back.
    """

    buckets: Int64s
    state: Int64s
    free: Int64s
    table: Int64s
    lists: Int64s


class KeySets(NamedTuple):
    """The plan's key sets as arrays."""

    classes: Int64s
    """``[key set, i]``: its i-th class."""
    size: Int64s
    of_stream: Int64s
    """``[stream, i]``: its i-th key set."""
    n_of_stream: Int64s
    tail: Int64s
    """One number: the column behind the links, where ``ROW`` and ``CODES`` begin."""


class Windows:
    """All windows of one operator instance.

    Parameters
    ----------
    plan
        Streams, classes and key sets.
    retention
        How long a tuple is kept after it has left its window.
    n_values
        Numeric values kept for each tuple, for conditions that are checked by scanning.
    """

    def __init__(self, plan: Plan, *, retention: int, n_values: int = 0) -> None:
        self.plan = plan
        self.retention = retention
        self.n_values = n_values
        self.sizes = np.array(plan.windows, dtype=np.int64)
        self.key_sets = _key_set_arrays(plan)
        self.rings = _empty_rings(plan, np.full(plan.m, 64), np.zeros(plan.m, dtype=np.int64))
        # Columns apart from the cells, where a scan finds them one after another.
        self.values = np.empty((n_values, len(self.rings.cells)))
        self.times = np.empty(len(self.rings.cells), dtype=np.int64)
        self.slots = _empty_slots(plan, 64)
        # Timestamps of late tuples in the window: they leave it out of turn.
        self.late = empty_queues(plan.m)

    def make_room(self, n_new: Int64s) -> None:
        """Prepare for ``n_new[s]`` more tuples of each stream."""
        table = self.rings.table
        wanted = table[:, END] - table[:, FIRST] + n_new
        if (wanted > table[:, MASK] + 1).any():
            doubled = 2 ** np.ceil(np.log2(np.maximum(1.5 * wanted, 64))).astype(np.int64)
            self._grow(np.maximum(doubled, table[:, MASK] + 1))
        self.late = with_room(self.late, int(n_new.max()))
        self._make_room_for_slots(int((n_new * self.key_sets.n_of_stream).sum()))

    def _grow(self, capacity: Int64s) -> None:
        old, new = self.rings, _empty_rings(self.plan, capacity, self.rings.table[:, FIRST])
        new.table[:, FIRST:] = old.table[:, FIRST:]
        values, times = self.values, self.times
        self.values = np.empty((self.n_values, len(new.cells)))
        self.times = np.empty(len(new.cells), dtype=np.int64)
        for before, after in zip(old.table, new.table, strict=True):
            positions = np.arange(before[FIRST], before[END])
            source = before[OFFSET] + (positions & before[MASK])
            target = after[OFFSET] + (positions & after[MASK])
            new.cells[target] = old.cells[source]
            self.values[:, target] = values[:, source]
            self.times[target] = times[source]
        self.rings = new

    def _make_room_for_slots(self, n_new: int) -> None:
        slots = self.slots
        next_slot, n_free, n_buckets_used = (int(x) for x in slots.state)
        wanted = next_slot - n_free + n_new
        if wanted > len(slots.table):
            grown = _empty_slots(self.plan, 2 * wanted)
            grown.state[:] = slots.state
            grown.free[:n_free] = slots.free[:n_free]
            grown.table[:next_slot] = slots.table[:next_slot]
            grown.lists[:next_slot] = slots.lists[:next_slot]
            _rebuild_buckets(grown)
            self.slots = grown
        elif 2 * (n_buckets_used + n_new) > len(slots.buckets):
            # More than half of the buckets hold or once held something: sweep the former ones.
            _rebuild_buckets(slots)

    def forget(self, now: int) -> None:
        """Drop tuples that nothing can need which comes after ``now``."""
        limits = now - self.sizes
        _forget(self.rings, self.slots, self.key_sets, self.late, limits, self.retention)

    @property
    def n_kept(self) -> int:
        """Tuples in windows and retention horizon."""
        table = self.rings.table
        return int((table[:, END] - table[:, FIRST]).sum())

    def places_of(self, s: int) -> Int64s:
        """Where the cells of a stream's tuples are, in join sequence."""
        row = self.rings.table[s]
        places: Int64s = row[OFFSET] + (np.arange(row[FIRST], row[END]) & row[MASK])
        return places

    def rows_at(self, places: Int64s) -> Int64s:
        """What the caller knows the tuples at some places by."""
        return rows_at(self.rings.cells, int(self.key_sets.tail[0]) + ROW, places)

    def joinable_at(self, stream: NDArray[np.int8], places: Int64s) -> NDArray[np.bool_]:
        """Whether the tuples at some places can be in any result."""
        known: NDArray[np.bool_] = self.times[places] != UNMATCHABLE
        for s in range(self.plan.m):
            if self.key_sets.n_of_stream[s]:
                mine = stream == s
                column = LINKS + LINK_WIDTH * int(self.key_sets.of_stream[s, 0]) + SLOT
                known[mine] = self.rings.cells[places[mine], column] != NONE
        return known

    def codes_at(self, places: Int64s) -> Int64s:
        """``[class, tuple]``: codes of the tuples at some places."""
        first = int(self.key_sets.tail[0]) + CODES
        return self.rings.cells[places, first : first + len(self.plan.classes)].T


def tail_column(plan: Plan) -> int:
    """The column of a cell behind its links."""
    return LINKS + LINK_WIDTH * len(plan.key_sets)


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


def _empty_slots(plan: Plan, capacity: int) -> Slots:
    widest = max(len(key_set) for key_set in plan.key_sets)
    return Slots(
        buckets=np.full(2 ** int(np.ceil(np.log2(capacity * 4))), _EMPTY_BUCKET, dtype=np.int64),
        state=np.zeros(3, dtype=np.int64),
        free=np.empty(capacity, dtype=np.int64),
        table=np.zeros((capacity, KEY + widest), dtype=np.int64),
        lists=np.full((capacity, plan.m, LIST_WIDTH), NONE, dtype=np.int64),
    )


@compiled
def _rebuild_buckets(slots: Slots) -> None:
    buckets, table = slots.buckets, slots.table
    mask = len(buckets) - 1
    buckets[:] = _EMPTY_BUCKET
    used = 0
    for slot in range(slots.state[NEXT_SLOT]):
        if table[slot, N_TUPLES] > 0:
            at = table[slot, HASH] & mask
            while buckets[at] != _EMPTY_BUCKET:
                at = (at + 1) & mask
            buckets[at] = slot
            used += 1
    slots.state[N_BUCKETS_USED] = used


@inlined
def _mix(value: int) -> int:
    """Spread the bits of a key (the finisher of splitmix64)."""
    x = np.uint64(value)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.int64(x ^ (x >> np.uint64(31))))


@compiled
def _slot_for(slots: Slots, sets: KeySets, key_set: int, cells: Int64s, cell: int) -> int:
    """The slot of a tuple's key, made if it is new."""
    buckets, table = slots.buckets, slots.table
    size = sets.size[key_set]
    link = LINKS + LINK_WIDTH * key_set
    codes = sets.tail[0] + CODES
    hashed = key_set
    for i in range(size):
        hashed = _mix(hashed * 31 + cells[cell, codes + sets.classes[key_set, i]])
    mask = len(buckets) - 1
    at = hashed & mask
    reusable = -1
    while buckets[at] != _EMPTY_BUCKET:
        slot: int = buckets[at]
        if slot == _FORMER_BUCKET:
            if reusable < 0:
                reusable = at
        elif table[slot, HASH] == hashed and table[slot, LINK] == link:
            same = True
            for i in range(size):
                same &= table[slot, KEY + i] == cells[cell, codes + sets.classes[key_set, i]]
            if same:
                return slot
        at = (at + 1) & mask
    if reusable >= 0:
        at = reusable
    else:
        slots.state[N_BUCKETS_USED] += 1
    if slots.state[N_FREE] > 0:
        slots.state[N_FREE] -= 1
        slot = slots.free[slots.state[N_FREE]]
    else:
        slot = slots.state[NEXT_SLOT]
        slots.state[NEXT_SLOT] += 1
    buckets[at] = slot
    table[slot, HASH] = hashed
    table[slot, LINK] = link
    table[slot, N_TUPLES] = 0
    for i in range(size):
        table[slot, KEY + i] = cells[cell, codes + sets.classes[key_set, i]]
    for s in range(slots.lists.shape[1]):
        slots.lists[slot, s, TAIL] = NONE
        slots.lists[slot, s, LIVE] = NONE
        slots.lists[slot, s, N_LIVE] = 0
        slots.lists[slot, s, RAISER] = NONE
    return slot


@compiled
def _give_back(slots: Slots, slot: int) -> None:
    mask = len(slots.buckets) - 1
    at = slots.table[slot, HASH] & mask
    while slots.buckets[at] != slot:
        at = (at + 1) & mask
    slots.buckets[at] = _FORMER_BUCKET
    slots.free[slots.state[N_FREE]] = slot
    slots.state[N_FREE] += 1


@compiled
def stage(rings: Rings, slots: Slots, sets: KeySets, sequence: Sequence, i: int, order: int) -> int:
    """Write a tuple into the next cell of its ring and find the slots of its keys.

    Returns the cell. The tuple is in no list yet: a trigger probes before it is inserted.
    """
    table, cells = rings
    s = int(sequence.stream[i])
    cell: int = table[s, OFFSET] + (table[s, END] & table[s, MASK])
    cells[cell, TS] = sequence.ts[i]
    cells[cell, ORDER] = order
    cells[cell, BASE] = sequence.base[i]
    cells[cell, NOW] = sequence.now[i]
    cells[cell, sets.tail[0] + ROW] = sequence.row[i]
    for c in range(len(sequence.codes)):
        cells[cell, sets.tail[0] + CODES + c] = sequence.codes[c, i]
    for j in range(sets.n_of_stream[s]):
        key_set = sets.of_stream[s, j]
        slot = NONE
        if sequence.joinable[i]:
            slot = _slot_for(slots, sets, key_set, cells, cell)
            # Counted at once, so that the slot is not given back while it is used.
            slots.table[slot, N_TUPLES] += 1
        cells[cell, LINKS + LINK_WIDTH * key_set + SLOT] = slot
    return cell


@compiled
def remember(
    sequence: Sequence,
    order: Int64s,
    rings: Rings,
    slots: Slots,
    sets: KeySets,
    late: Queues,
    sizes: Int64s,
) -> Int64s:
    """Put tuples into the windows without joining them, as they were received before.

    Returns their cells.
    """
    cells = np.empty(len(order), dtype=np.int64)
    for i in range(len(order)):
        s = int(sequence.stream[i])
        cells[i] = stage(rings, slots, sets, sequence, i, order[i])
        insert(rings, slots, sets, late, s, cells[i], sequence.now[i] - sizes[s])
    return cells


@compiled
def insert(
    rings: Rings, slots: Slots, sets: KeySets, late: Queues, s: int, cell: int, limit: int
) -> None:
    """Put a staged tuple into its lists; ``limit`` is the oldest timestamp in its window."""
    table, cells = rings
    position = table[s, END]
    table[s, END] = position + 1
    ts = cells[cell, TS]
    if ts >= limit:
        table[s, N_WINDOW] += 1
        if ts < cells[cell, NOW]:
            push(late, s, ts, position)
    for j in range(sets.n_of_stream[s]):
        link = LINKS + LINK_WIDTH * sets.of_stream[s, j]
        slot = cells[cell, link + SLOT]
        if slot == NONE:
            continue
        expire(table, cells, slots.lists, slot, s, link, limit)
        _link(table, cells, slots.lists, slot, s, link, position, cell, ts >= limit)
        if cells[cell, BASE] >= ts:
            cells[cell, link + OLDER_RAISER] = slots.lists[slot, s, RAISER]
            slots.lists[slot, s, RAISER] = position


@compiled
def _link(
    table: Int64s,
    cells: Int64s,
    lists: Int64s,
    slot: int,
    s: int,
    link: int,
    position: int,
    cell: int,
    live: bool,
) -> None:
    offset, mask = table[s, OFFSET], table[s, MASK]
    ts = cells[cell, TS]
    after = NONE
    before = lists[slot, s, TAIL]
    while before != NONE and cells[offset + (before & mask), TS] > ts:
        after = before
        before = cells[offset + (before & mask), link + BEFORE]
    cells[cell, link + BEFORE] = before
    cells[cell, link + AFTER] = after
    if before != NONE:
        cells[offset + (before & mask), link + AFTER] = position
    if after == NONE:
        lists[slot, s, TAIL] = position
    else:
        cells[offset + (after & mask), link + BEFORE] = position
    if live:
        lists[slot, s, N_LIVE] += 1
        if lists[slot, s, LIVE] == after:
            lists[slot, s, LIVE] = position


@inlined
def expire(
    table: Int64s, cells: Int64s, lists: Int64s, slot: int, s: int, link: int, limit: int
) -> None:
    """Cut a slot's live tuples back to those with ``ts >= limit``, which never falls."""
    at = lists[slot, s, LIVE]
    if at == NONE:
        return
    offset, mask = table[s, OFFSET], table[s, MASK]
    n = 0
    while at != NONE and cells[offset + (at & mask), TS] < limit:
        at = cells[offset + (at & mask), link + AFTER]
        n += 1
    if n > 0:
        lists[slot, s, LIVE] = at
        lists[slot, s, N_LIVE] -= n


@inlined
def expire_window(rings: Rings, late: Queues, s: int, limit: int) -> None:
    """Bring the number of tuples in a stream's window up to date."""
    table, cells = rings
    offset, mask = table[s, OFFSET], table[s, MASK]
    position = table[s, SCOPE]
    while position < table[s, END]:
        cell = offset + (position & mask)
        if cells[cell, NOW] >= limit:
            break
        # A late tuple leaves by its own time, which is in the queue.
        if cells[cell, TS] == cells[cell, NOW]:
            table[s, N_WINDOW] -= 1
        position += 1
    table[s, SCOPE] = position
    while late.state[s, FRONT_TS] < limit:
        table[s, N_WINDOW] -= 1
        drop_front(late, s)


@compiled
def _forget(
    rings: Rings, slots: Slots, sets: KeySets, late: Queues, limits: Int64s, retention: int
) -> None:
    table, cells = rings
    for s in range(len(limits)):
        expire_window(rings, late, s, limits[s])
        position = table[s, FIRST]
        # Timestamps may fall along the ring, but how far the join had come does not: going by that,
        # the oldest position is always the next to go.
        while position < table[s, END]:
            cell = table[s, OFFSET] + (position & table[s, MASK])
            if cells[cell, NOW] >= limits[s] - retention:
                break
            for j in range(sets.n_of_stream[s]):
                link = LINKS + LINK_WIDTH * sets.of_stream[s, j]
                _unlink(table, cells, slots, s, link, cell, limits[s])
            position += 1
        table[s, FIRST] = position


@compiled
def _unlink(
    table: Int64s, cells: Int64s, slots: Slots, s: int, link: int, cell: int, limit: int
) -> None:
    slot = cells[cell, link + SLOT]
    if slot == NONE:
        return
    # Once the live tuples are up to date, this one is not among them.
    expire(table, cells, slots.lists, slot, s, link, limit)
    offset, mask = table[s, OFFSET], table[s, MASK]
    before, after = cells[cell, link + BEFORE], cells[cell, link + AFTER]
    if before != NONE:
        cells[offset + (before & mask), link + AFTER] = after
    if after == NONE:
        slots.lists[slot, s, TAIL] = before
    else:
        cells[offset + (after & mask), link + BEFORE] = before
    slots.table[slot, N_TUPLES] -= 1
    if slots.table[slot, N_TUPLES] == 0:
        _give_back(slots, slot)


@compiled
def rows_at(cells: Int64s, column: int, places: Int64s) -> Int64s:
    """One column of the cells at ``[stream, i]`` or ``[i]`` places."""
    flat = places.ravel()
    found = np.empty(len(flat), dtype=np.int64)
    for i in range(len(flat)):
        found[i] = cells[flat[i], column]
    return found.reshape(places.shape)

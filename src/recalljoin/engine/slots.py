"""Slots: the index of the windows where results are counted and not enumerated.

All streams share one slot for each key value of each key set. The slot holds for each stream the
list of its tuples with that key, in timestamp order, and the number of live tuples in the list. The
way from a tuple to its partners in another stream needs no hash: both streams know the same slot.

Tuples leave the window lazily: a slot's list of live tuples is cut back when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled, inlined, lean, prefetch
from recalljoin.engine.queues import Queues, push
from recalljoin.engine.rings import (
    BASE,
    CODES,
    END,
    FIRST,
    LINKS,
    MASK,
    N_WINDOW,
    NONE,
    NOW,
    OFFSET,
    ORDER,
    ROW,
    TS,
    KeySets,
    Rings,
    Sequence,
    expire_window,
    mix,
)

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import Plan

# Columns of a tuple's link: the slot, both neighbours in the slot's list, and the next older tuple
# that arrived behind the base time.
SLOT, AFTER, BEFORE, OLDER_RAISER, LINK_WIDTH = range(5)
# Columns of a slot, before the codes of its key.
HASH, LINK, N_TUPLES, KEY = range(4)
# Columns of a slot's list, one row for each stream.
TAIL, LIVE, N_LIVE, RAISER, LIST_WIDTH = range(5)
# Places in Slots.state.
NEXT_SLOT, N_FREE, N_BUCKETS_USED = range(3)

_EMPTY_BUCKET, _FORMER_BUCKET = -1, -2
AHEAD = 8
"""Number of tuples between two steps of fetching memory ahead of its use."""
_MANY = 1 << 12
"""Fewer slots stay in the cache."""


class Slots(NamedTuple):
    """The key values in use.

    ``LINK`` is the column of the key set's link in a record. Of a slot's list for a stream,
    ``TAIL`` is the youngest tuple, ``LIVE`` the oldest tuple in the window when the list was last
    read, and ``RAISER`` the last received tuple that arrived behind the base time. A slot without
    tuples is given back.
    """

    buckets: Int64s
    state: Int64s
    free: Int64s
    table: Int64s
    lists: Int64s


def roomy_slots(slots: Slots, plan: Plan, n_new: int) -> Slots:
    """The same slots, able to take ``n_new`` more."""
    next_slot, n_free, n_buckets_used = (int(x) for x in slots.state)
    wanted = next_slot - n_free + n_new
    if wanted > len(slots.table):
        grown = empty_slots(plan, 2 * wanted)
        grown.state[:] = slots.state
        grown.free[:n_free] = slots.free[:n_free]
        grown.table[:next_slot] = slots.table[:next_slot]
        grown.lists[:next_slot] = slots.lists[:next_slot]
        _rebuild_buckets(grown)
        return grown
    if 2 * (n_buckets_used + n_new) > len(slots.buckets):
        # More than half of the buckets are or were in use: buckets no longer in use are swept.
        _rebuild_buckets(slots)
    return slots


def empty_slots(plan: Plan, capacity: int) -> Slots:
    """No key values, and room for ``capacity`` of them."""
    widest = max(len(key_set) for key_set in plan.key_sets)
    return Slots(
        buckets=np.full(2 ** int(np.ceil(np.log2(capacity * 4))), _EMPTY_BUCKET, dtype=np.int64),
        state=np.zeros(3, dtype=np.int64),
        free=np.empty(capacity, dtype=np.int64),
        table=np.zeros((capacity, KEY + widest), dtype=np.int64),
        lists=np.full((capacity, plan.m, LIST_WIDTH), NONE, dtype=np.int64),
    )


@lean
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
def _hash(codes: Int64s, i: int, sets: KeySets, key_set: int) -> int:
    hashed = key_set
    for c in range(sets.size[key_set]):
        hashed = mix(hashed * 31 + codes[sets.classes[key_set, c], i])
    return hashed


@lean
def fetch_ahead(rings: Rings, slots: Slots, sets: KeySets, sequence: Sequence, i: int) -> None:
    """Have memory fetched that :func:`stage` and :func:`insert` need for the tuples after ``i``.

    The way from a key to its slot and on to a tuple waits for memory at every step, so each step is
    made for another tuple ahead.
    """
    if slots.state[NEXT_SLOT] < _MANY:
        return
    mask = len(slots.buckets) - 1
    for step in range(1, 4):
        ahead = i + step * AHEAD
        if ahead >= len(sequence.ts):
            return
        s = int(sequence.stream[ahead])
        for j in range(sets.n_of_stream[s]):
            at = _hash(sequence.codes, ahead, sets, sets.of_stream[s, j]) & mask
            if step == 3:
                prefetch(slots.buckets, at)
                continue
            slot = slots.buckets[at]
            if slot < 0:
                continue
            if step == 2:
                prefetch(slots.table, slot)
                prefetch(slots.lists, slot)
                continue
            youngest = slots.lists[slot, s, TAIL]
            prefetch(rings.records, rings.table[s, OFFSET] + (youngest & rings.table[s, MASK]))
            for other in range(len(rings.table)):
                oldest = slots.lists[slot, other, LIVE]
                offset, ring = rings.table[other, OFFSET], rings.table[other, MASK]
                prefetch(rings.records, offset + (oldest & ring))


@lean
def _slot_for(
    slots: Slots, sets: KeySets, key_set: int, hashed: int, records: Int64s, record: int
) -> int:
    """The slot of a tuple's key; a new key gets a new slot."""
    buckets, table = slots.buckets, slots.table
    size = sets.size[key_set]
    link = LINKS + LINK_WIDTH * key_set
    codes = sets.tail[0] + CODES
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
                same &= table[slot, KEY + i] == records[record, codes + sets.classes[key_set, i]]
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
        table[slot, KEY + i] = records[record, codes + sets.classes[key_set, i]]
    for s in range(slots.lists.shape[1]):
        slots.lists[slot, s, TAIL] = NONE
        slots.lists[slot, s, LIVE] = NONE
        slots.lists[slot, s, N_LIVE] = 0
        slots.lists[slot, s, RAISER] = NONE
    return slot


@lean
def _give_back(slots: Slots, slot: int) -> None:
    mask = len(slots.buckets) - 1
    at = slots.table[slot, HASH] & mask
    while slots.buckets[at] != slot:
        at = (at + 1) & mask
    slots.buckets[at] = _FORMER_BUCKET
    slots.free[slots.state[N_FREE]] = slot
    slots.state[N_FREE] += 1


@lean
def stage(rings: Rings, slots: Slots, sets: KeySets, sequence: Sequence, i: int, order: int) -> int:
    """Write a tuple into the next record of its ring and find the slots of its keys.

    Returns the record. The tuple is in no list yet: a trigger probes before it is inserted.
    """
    table, records = rings
    s = int(sequence.stream[i])
    record: int = table[s, OFFSET] + (table[s, END] & table[s, MASK])
    records[record, TS] = sequence.ts[i]
    records[record, ORDER] = order
    records[record, BASE] = sequence.base[i]
    records[record, NOW] = sequence.now[i]
    records[record, sets.tail[0] + ROW] = sequence.row[i]
    for c in range(len(sequence.codes)):
        records[record, sets.tail[0] + CODES + c] = sequence.codes[c, i]
    for j in range(sets.n_of_stream[s]):
        key_set = sets.of_stream[s, j]
        slot = NONE
        if sequence.joinable[i]:
            hashed = _hash(sequence.codes, i, sets, key_set)
            slot = _slot_for(slots, sets, key_set, hashed, records, record)
            # The tuple is counted at once, so that its slot is not given back while in use.
            slots.table[slot, N_TUPLES] += 1
        records[record, LINKS + LINK_WIDTH * key_set + SLOT] = slot
    return record


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

    Returns their records.
    """
    records = np.empty(len(order), dtype=np.int64)
    for i in range(len(order)):
        s = int(sequence.stream[i])
        records[i] = stage(rings, slots, sets, sequence, i, order[i])
        insert(rings, slots, sets, late, s, records[i], sequence.now[i] - sizes[s])
    return records


@lean
def insert(
    rings: Rings, slots: Slots, sets: KeySets, late: Queues, s: int, record: int, limit: int
) -> None:
    """Put a staged tuple into its lists; ``limit`` is the oldest timestamp in its window."""
    table, records = rings
    position = table[s, END]
    table[s, END] = position + 1
    ts = records[record, TS]
    if ts >= limit:
        table[s, N_WINDOW] += 1
        if ts < records[record, NOW]:
            push(late, s, ts, position)
    for j in range(sets.n_of_stream[s]):
        link = LINKS + LINK_WIDTH * sets.of_stream[s, j]
        slot = records[record, link + SLOT]
        if slot == NONE:
            continue
        expire(table, records, slots.lists, slot, s, link, limit)
        _link(table, records, slots.lists, slot, s, link, position, record, ts >= limit)
        if records[record, BASE] >= ts:
            records[record, link + OLDER_RAISER] = slots.lists[slot, s, RAISER]
            slots.lists[slot, s, RAISER] = position


@lean
def _link(
    table: Int64s,
    records: Int64s,
    lists: Int64s,
    slot: int,
    s: int,
    link: int,
    position: int,
    record: int,
    live: bool,
) -> None:
    offset, mask = table[s, OFFSET], table[s, MASK]
    ts = records[record, TS]
    after = NONE
    before = lists[slot, s, TAIL]
    while before != NONE and records[offset + (before & mask), TS] > ts:
        after = before
        before = records[offset + (before & mask), link + BEFORE]
    records[record, link + BEFORE] = before
    records[record, link + AFTER] = after
    if before != NONE:
        records[offset + (before & mask), link + AFTER] = position
    if after == NONE:
        lists[slot, s, TAIL] = position
    else:
        records[offset + (after & mask), link + BEFORE] = position
    if live:
        lists[slot, s, N_LIVE] += 1
        if lists[slot, s, LIVE] == after:
            lists[slot, s, LIVE] = position


@inlined
def expire(
    table: Int64s, records: Int64s, lists: Int64s, slot: int, s: int, link: int, limit: int
) -> None:
    """Cut a slot's live tuples back to ``ts >= limit``; ``limit`` never falls."""
    at = lists[slot, s, LIVE]
    if at == NONE:
        return
    offset, mask = table[s, OFFSET], table[s, MASK]
    n = 0
    while at != NONE and records[offset + (at & mask), TS] < limit:
        at = records[offset + (at & mask), link + AFTER]
        n += 1
    if n > 0:
        lists[slot, s, LIVE] = at
        lists[slot, s, N_LIVE] -= n


@lean
def forget(
    rings: Rings, slots: Slots, sets: KeySets, late: Queues, limits: Int64s, retention: int
) -> None:
    """Drop tuples whose window and retention end before ``limits``."""
    table, records = rings
    for s in range(len(limits)):
        expire_window(rings, late, s, limits[s])
        position = table[s, FIRST]
        # Timestamps may fall along the ring; the join time at which tuples were received does not.
        # By that join time the oldest position is always the next to be dropped.
        while position < table[s, END]:
            record = table[s, OFFSET] + (position & table[s, MASK])
            if records[record, NOW] >= limits[s] - retention:
                break
            for j in range(sets.n_of_stream[s]):
                link = LINKS + LINK_WIDTH * sets.of_stream[s, j]
                _unlink(table, records, slots, s, link, record, limits[s])
            position += 1
        table[s, FIRST] = position


@lean
def _unlink(
    table: Int64s, records: Int64s, slots: Slots, s: int, link: int, record: int, limit: int
) -> None:
    slot = records[record, link + SLOT]
    if slot == NONE:
        return
    # After the live tuples are brought up to date, the dropped tuple is not among them.
    expire(table, records, slots.lists, slot, s, link, limit)
    offset, mask = table[s, OFFSET], table[s, MASK]
    before, after = records[record, link + BEFORE], records[record, link + AFTER]
    if before != NONE:
        records[offset + (before & mask), link + AFTER] = after
    if after == NONE:
        slots.lists[slot, s, TAIL] = before
    else:
        records[offset + (after & mask), link + BEFORE] = before
    slots.table[slot, N_TUPLES] -= 1
    if slots.table[slot, N_TUPLES] == 0:
        _give_back(slots, slot)

"""Tuples of equal key as chains: the index of the windows where results are enumerated.

A chain leads from a stream's youngest tuple with some key to the older ones, in timestamp order.
One hash table knows where chains begin: it has an *entry* for each key value of each key set, with
the youngest tuple of every stream. An arriving tuple therefore finds its own chain and the chains
of its partners in the same line of memory.

A chain ends at the first tuple that its stream still keeps. Forgotten tuples are not taken out of
the chain; the chain is just not followed to them. Forgetting therefore costs nothing. An entry
whose chains are all forgotten is dropped when the table is made anew. A late tuple stands in its
chain where its timestamp belongs. If that is behind a forgotten tuple, the late tuple is too old
for any result.
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
    first_from,
    mix,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import Plan

# Columns of an entry: 0 in a free entry, else the number of the key set plus 1; then the codes of
# the key; then for each stream its youngest tuple.
_USED, _KEY = range(2)
AHEAD = 32
"""Number of tuples whose memory is fetched together, ahead of its use."""


class Chains(NamedTuple):
    """Where chains begin."""

    entries: Int64s
    """A power of two entries, at most half of them in use."""
    state: Int64s
    """One number: entries in use."""
    tails: Int64s
    """One number: the column of an entry in which the first stream's youngest tuple stands."""


def empty_chains(plan: Plan, capacity: int = 32) -> Chains:
    """No chains, and room for ``capacity`` of them."""
    widest = max([1, *(len(key_set) for key_set in plan.key_sets)])
    # An entry lies within one line of memory, if it fits at all.
    width = 2 ** int(np.ceil(np.log2(_KEY + widest + plan.m)))
    n = 2 ** int(np.ceil(np.log2(max(2 * capacity, 64))))
    memory = np.zeros(n * width + width, dtype=np.int64)
    start = -(memory.ctypes.data // memory.itemsize) % min(width, 8)
    entries = memory[start : start + n * width].reshape(n, width)
    state, tails = np.zeros(1, dtype=np.int64), np.array([_KEY + widest])
    return Chains(entries, state, tails)


def roomy_chains(chains: Chains, plan: Plan, rings: Rings, n_new: int) -> Chains:
    """The same chains, able to take ``n_new`` more; forgotten chains may be dropped."""
    if 2 * (int(chains.state[0]) + n_new) <= len(chains.entries):
        return chains
    n_alive = int(_alive(chains, rings).sum())
    roomy = empty_chains(plan, 2 * (n_alive + n_new))
    _refill(chains, _alive(chains, rings), roomy)
    return roomy


def _alive(chains: Chains, rings: Rings) -> NDArray[np.bool_]:
    first = rings.table[:, FIRST]
    begin = int(chains.tails[0])
    tails = chains.entries[:, begin : begin + len(first)]
    used = chains.entries[:, _USED] > 0
    alive: NDArray[np.bool_] = used & (tails >= first).any(axis=1)
    return alive


@compiled
def _refill(old: Chains, alive: NDArray[np.bool_], new: Chains) -> None:
    mask = len(new.entries) - 1
    n_codes = old.tails[0] - _KEY
    for e in range(len(alive)):
        if alive[e]:
            hashed = old.entries[e, _USED]
            for c in range(n_codes):
                hashed = mix(hashed * 31 + old.entries[e, _KEY + c])
            at = hashed & mask
            while new.entries[at, _USED] != 0:
                at = (at + 1) & mask
            new.entries[at] = old.entries[e]
            new.state[0] += 1


@inlined
def _home_of(keys: Int64s, k: int, j: int, key_set: int, mask: int) -> int:
    """Where the entry of the key ``keys[k, j]`` stands unless another entry has that place.

    A key shorter than the widest one is filled up with zeros.
    """
    hashed = key_set + 1
    for c in range(keys.shape[2]):
        hashed = mix(hashed * 31 + keys[k, j, c])
    return hashed & mask


@inlined
def _find(entries: Int64s, home: int, keys: Int64s, k: int, j: int, key_set: int) -> int:
    """The entry of the key ``keys[k, j]``, or the free entry where the key belongs."""
    mask = len(entries) - 1
    at = home
    while entries[at, _USED] != 0:
        same = entries[at, _USED] == key_set + 1
        for c in range(keys.shape[2]):
            same &= entries[at, _KEY + c] == keys[k, j, c]
        if same:
            break
        at = (at + 1) & mask
    return at


@inlined
def entry_of(entries: Int64s, keys: Int64s, key_set: int) -> int:
    """The entry of the key ``keys[0, 0]``, NONE if the key has none."""
    at = _find(entries, _home_of(keys, 0, 0, key_set, len(entries) - 1), keys, 0, 0, key_set)
    return int(at) if entries[at, _USED] != 0 else NONE


@compiled
def admit(  # noqa: PLR0912 - one loop over the tuples, for speed
    sequence: Sequence,
    chosen: Int64s,
    order: Int64s,
    rings: Rings,
    chains: Chains,
    sets: KeySets,
    late_live: Queues,
    sizes: Int64s,
    times: Int64s,
    unmatchable: int,
    n_cross: NDArray[np.float64],
    partner_key_set: Int64s,
    records_out: Int64s,
    entries_out: Int64s,
) -> None:
    """Put tuples into the windows, in the order of the join sequence.

    Parameters
    ----------
    sequence, chosen, order
        The tuples, the numbers of the tuples to be put in, and for each chosen tuple its place in
        the join sequence over all streams.
    times, unmatchable
        The column of times that is scanned, and the time that stands there for a tuple that can be
        in no result.
    n_cross
        Gets the size of the cross join for every tuple in order; may be empty.
    partner_key_set
        ``[s, j]``: by which key set a tuple of stream ``s`` looks up stream ``j``.
    records_out
        Gets each tuple's record.
    entries_out
        ``[j, i]`` gets the entry that leads to each partner's chain; may be empty.
    """
    # The named tuples are unpacked once: each access within the loop would count references.
    stream, all_ts, all_now, all_base, _, all_row, is_late, joinable, codes = sequence
    table, records = rings
    entries, state, first_tail = chains.entries, chains.state, chains.tails[0]
    classes, n_codes, of_stream, n_of_stream, tail_column = sets
    tail = tail_column[0]
    m = len(sizes)
    mask = len(entries) - 1
    widest = classes.shape[1]
    keys = np.zeros((AHEAD, of_stream.shape[1], widest), dtype=np.int64)
    homes = np.zeros((AHEAD, of_stream.shape[1]), dtype=np.int64)
    for begin in range(0, len(chosen), AHEAD):
        end = min(begin + AHEAD, len(chosen))
        # The way from a key to its entry and on to the youngest tuple waits for memory at every
        # step. Each step is made for many tuples at once, so that their waits overlap.
        for n in range(begin, end):
            i = chosen[n]
            s = int(stream[i])
            for j in range(n_of_stream[s]):
                key_set = of_stream[s, j]
                for c in range(n_codes[key_set]):
                    keys[n - begin, j, c] = codes[classes[key_set, c], i]
                for c in range(n_codes[key_set], widest):
                    keys[n - begin, j, c] = 0
                homes[n - begin, j] = _home_of(keys, n - begin, j, key_set, mask)
                prefetch(entries, homes[n - begin, j])
        for n in range(begin, end):
            s = int(stream[chosen[n]])
            for j in range(n_of_stream[s]):
                youngest = entries[homes[n - begin, j], first_tail + s]
                prefetch(records, table[s, OFFSET] + (youngest & table[s, MASK]))
        for n in range(begin, end):
            i = chosen[n]
            s = int(stream[i])
            ts, now = all_ts[i], all_now[i]
            if len(n_cross) and not is_late[i]:
                product = 1.0
                for j in range(m):
                    if j != s:
                        expire_window(rings, late_live, j, ts - sizes[j])
                        product *= table[j, N_WINDOW]
                n_cross[i] = product
            position = table[s, END]
            offset, ring, first = table[s, OFFSET], table[s, MASK], table[s, FIRST]
            record = offset + (position & ring)
            table[s, END] = position + 1
            records_out[i] = record
            records[record, TS] = ts
            records[record, ORDER] = order[n]
            records[record, BASE] = all_base[i]
            records[record, NOW] = now
            records[record, tail + ROW] = all_row[i]
            for c in range(len(codes)):
                records[record, tail + CODES + c] = codes[c, i]
            if ts >= now - sizes[s]:
                table[s, N_WINDOW] += 1
                if ts < now:
                    push(late_live, s, ts, position)
            if not joinable[i]:
                # A tuple that can be in no result must not be met by a scan either.
                times[record] = unmatchable
                continue
            times[record] = ts
            for j in range(n_of_stream[s]):
                key_set = of_stream[s, j]
                e = _find(entries, homes[n - begin, j], keys, n - begin, j, key_set)
                if entries[e, _USED] == 0:
                    entries[e, _USED] = key_set + 1
                    state[0] += 1
                    for c in range(widest):
                        entries[e, _KEY + c] = keys[n - begin, j, c]
                    for p in range(m):
                        entries[e, first_tail + p] = NONE
                if len(entries_out):
                    for p in range(m):
                        if partner_key_set[s, p] == key_set:
                            entries_out[p, i] = e
                after, before = NONE, entries[e, first_tail + s]
                while before >= first and records[offset + (before & ring), TS] > ts:
                    after = before
                    before = records[offset + (before & ring), LINKS + key_set]
                records[record, LINKS + key_set] = before
                if after == NONE:
                    entries[e, first_tail + s] = position
                else:
                    records[offset + (after & ring), LINKS + key_set] = position


@lean
def forget_chained(rings: Rings, late: Queues, limits: Int64s, retention: int) -> None:
    """Drop tuples whose window and retention end before ``limits``."""
    table, records = rings
    for s in range(len(limits)):
        expire_window(rings, late, s, limits[s])
        # Timestamps may fall along the ring; the join time at which tuples were received does not.
        table[s, FIRST] = first_from(table, records, s, NOW, limits[s] - retention)

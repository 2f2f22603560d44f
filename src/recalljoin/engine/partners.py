"""Partners by key: extending partial results along chains.

A step along a chain waits for memory, so some chains are walked at once, and their waits overlap.
Where the tuples of a key are many, they meet the same long chain again and again. A long chain is
therefore copied once, when the first tuple of a stretch asks for it. The copy lies in one piece,
and the tuples that can extend a partial result are a contiguous part of it.

Behind its window a tuple is kept for late tuples only, and for much longer. A chain is therefore
copied as far as tuples in order may need it, and to its end when the first late tuple asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.chains import AHEAD, Chains, entry_of
from recalljoin.engine.compiled import compiled, inlined, lean, prefetch
from recalljoin.engine.rings import CODES, FIRST, LINKS, MASK, NONE, OFFSET, ORDER, TS
from recalljoin.engine.times import NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.probe import Partials
    from recalljoin.engine.rings import KeySets, Rings

ABREAST, BUFFERED = 16, 32
"""Number of chains copied at once, so that waits for memory overlap, and steps along each."""
WALKED = 8
"""Steps along a chain that is not copied: with more partners a chain is long."""

NEIGHBOURHOODS = 1 << 12
"""Number of parts of the hash table by which tuples are sorted."""


# Columns of Copies.chains: the stretch in which the chain was copied, as twice the place of its
# first tuple, and one more if the chain was copied to its end; where the copy begins and ends;
# where the partners of the last partial result that used the chain began.
_STRETCH, _BEGIN, _END, _PLACE, _CHAIN_WIDTH = range(5)
# Columns of Copies.tuples. A fourth column keeps a tuple within a line of memory.
_TS, _ORDER, _RECORD, _TUPLE_WIDTH = 0, 1, 2, 4


class Copies(NamedTuple):
    """Chains of one stream by one key set, after all tuples of a stretch have come in."""

    chains: Int64s
    """A row for each entry of the hash table, kept from stretch to stretch, because a stretch may
    be short and the table large."""
    tuples: Int64s
    """The tuples of each chain, from the youngest to the oldest."""
    used: Int64s
    """One number: tuples copied."""


def fresh_copies(old: Copies | None, chains: Chains, n_tuples: int) -> Copies:
    """Nothing copied yet, and room for ``n_tuples`` tuples."""
    n = len(chains.entries)
    if old is None or len(old.chains) != n:
        table = np.full((n, _CHAIN_WIDTH), NONE, dtype=np.int64)
        old = Copies(table, np.empty((0, _TUPLE_WIDTH), np.int64), np.zeros(1, dtype=np.int64))
    if len(old.tuples) < n_tuples:
        old = old._replace(tuples=np.empty((2 * n_tuples, _TUPLE_WIDTH), dtype=np.int64))
    old.used[0] = 0
    return old


@compiled
def by_entry(entries: Int64s, n_entries: int) -> Int64s:
    """An order of tuples by the part of the hash table their entry is in; stable within it."""
    shift = 0
    while n_entries >> shift > NEIGHBOURHOODS:
        shift += 1
    begins = np.zeros((n_entries >> shift) + 2, dtype=np.int64)
    for entry in entries:
        begins[(max(entry, 0) >> shift) + 1] += 1
    for i in range(1, len(begins)):
        begins[i] += begins[i - 1]
    order = np.empty(len(entries), dtype=np.int64)
    for i in range(len(entries)):
        at = max(entries[i], 0) >> shift
        order[begins[at]] = i
        begins[at] += 1
    return order


@compiled
def extend_by_key(  # noqa: PLR0912 - one loop over the partial results, for speed
    partials: Partials,
    first_order: int,
    cursor: Int64s,
    s: int,
    parent: int,
    key_set: int,
    checks: Int64s,
    from_root: bool,
    now: Int64s,
    root_entries: Int64s,
    rings: Rings,
    chains: Chains,
    copies: Copies,
    sets: KeySets,
    sizes: Int64s,
    oldest_in_order: int,
    are_short: bool,
    places: Int64s,
    found: Int64s,
    found_ts: Int64s,
) -> int:
    """Extend partial results by the tuples of stream ``s`` with the key of their parent.

    ``from_root`` says that the parent is the root, whose entry is in ``root_entries``. ``now`` is
    how far the join had come at each root. ``cursor`` holds the partial result and the copied tuple
    to go on with, and the end of the copy; NONE begins at the first copied tuple. No root in order
    has a partner before ``oldest_in_order``. ``are_short`` says that most chains are short.
    ``places``, ``found`` and ``found_ts`` get the extended partial result, the added record and its
    time.
    """
    # The named tuples are unpacked once: each access within the loop would count references.
    records, first = rings.records, rings.table[s, FIRST]
    members, roots, newest, last_call = partials
    copied, tuples = copies.chains, copies.tuples
    entries, classes, n_codes, tail = chains.entries, sets.classes, sets.size[key_set], sets.tail[0]
    link, youngest_of = LINKS + key_set, chains.tails[0] + s
    key = np.zeros((1, 1, classes.shape[1]), dtype=np.int64)
    entry = np.empty(ABREAST, dtype=np.int64)
    chain = np.empty(ABREAST, dtype=np.int64)
    at = np.empty(ABREAST, dtype=np.int64)
    filled = np.empty(ABREAST, dtype=np.int64)
    buffer = np.empty((ABREAST, BUFFERED), dtype=np.int64)
    # For each root of a block the records walked, how many, and whether the chain goes on.
    walked = np.empty((ABREAST, WALKED), dtype=np.int64)
    n_walked = np.empty(ABREAST, dtype=np.int64)
    is_long = np.ones(ABREAST, dtype=np.bool_)
    oldest_of = np.empty(ABREAST, dtype=np.int64)
    count = 0
    # Chains are copied ahead of their roots, up to ABREAST chains at once.
    ahead = cursor[0]
    for begin in range(cursor[0], len(roots), ABREAST):
        width = min(ABREAST, len(roots) - begin)
        for g in range(width):
            if from_root:
                entry[g] = root_entries[s, roots[begin + g]]
                if begin + g + AHEAD < len(roots):
                    following = root_entries[s, roots[begin + g + AHEAD]]
                    prefetch(entries, following)
                    if not are_short:
                        prefetch(copied, following)
            else:
                record = members[parent, begin + g]
                for c in range(n_codes):
                    key[0, 0, c] = records[record, tail + CODES + classes[key_set, c]]
                entry[g] = entry_of(entries, key, key_set)
        if are_short:
            for g in range(width):
                at[g] = NONE if entry[g] == NONE else entries[entry[g], youngest_of]
                oldest_of[g] = newest[begin + g] - sizes[s]
            _walk(at[:width], oldest_of, s, link, rings, walked, n_walked)
            for g in range(width):
                is_long[g] = at[g] >= first
            ahead = begin
        limit = len(roots) if from_root and not are_short else begin + width
        while ahead < begin + width:
            n_chains = 0
            while n_chains < ABREAST and ahead < limit:
                e = root_entries[s, roots[ahead]] if from_root else entry[ahead - begin]
                to_its_end = newest[ahead] - sizes[s] < oldest_in_order
                wanted = not are_short or is_long[ahead - begin]
                if wanted and e != NONE and copied[e, _STRETCH] < 2 * first_order + to_its_end:
                    copied[e, _STRETCH] = 2 * first_order + to_its_end
                    chain[n_chains] = e
                    oldest_of[n_chains] = NEVER if to_its_end else oldest_in_order
                    n_chains += 1
                ahead += 1
            if n_chains > 0:
                _copy_chains(
                    chain, oldest_of, n_chains, s, key_set, rings, chains, copies, at, filled,
                    buffer,
                )  # fmt: skip
        for g in range(width):
            if is_long[g] and entry[g] != NONE:
                prefetch(tuples, copied[entry[g], _PLACE])
        for g in range(width):
            e = entry[g]
            if e == NONE:
                continue
            i = begin + g
            oldest, youngest, before = newest[i] - sizes[s], last_call[i], first_order + roots[i]
            if not is_long[g]:
                if count + WALKED > len(places):
                    cursor[0] = i
                    return count
                for step in range(n_walked[g]):
                    record = walked[g, step]
                    places[count], found[count] = i, record
                    found_ts[count] = records[record, TS]
                    # Without a branch, as nearly all tuples fit.
                    fits = (records[record, TS] <= youngest) & (records[record, ORDER] < before)
                    for c in range(len(checks)):
                        code = tail + CODES + checks[c, 0]
                        fits &= records[record, code] == records[members[checks[c, 1], i], code]
                    count += fits
                continue
            place, end = cursor[1], cursor[2]
            if place == NONE:
                # A tuple later than the join time at the root was received after the root. The
                # join time never falls, so the place is near the place of the root before.
                place = copied[e, _PLACE]
                while place > copied[e, _BEGIN] and tuples[place - 1, _TS] <= now[roots[i]]:
                    place -= 1
                while place < copied[e, _END] and tuples[place, _TS] > now[roots[i]]:
                    place += 1
                copied[e, _PLACE], end = place, copied[e, _END]
            cursor[1] = NONE
            while place < end and tuples[place, _TS] >= oldest:
                if count == len(places):
                    # By then the chain may have been copied anew, to its end.
                    cursor[0], cursor[1], cursor[2] = i, place, end
                    return count
                places[count], found[count] = i, tuples[place, _RECORD]
                found_ts[count] = tuples[place, _TS]
                fits = (tuples[place, _TS] <= youngest) & (tuples[place, _ORDER] < before)
                for c in range(len(checks)):
                    code = tail + CODES + checks[c, 0]
                    fits &= records[found[count], code] == records[members[checks[c, 1], i], code]
                count += fits
                place += 1
    cursor[0] = len(roots)
    return count


@lean
def _walk(
    at: Int64s,
    oldest: Int64s,
    s: int,
    link: int,
    rings: Rings,
    walked: Int64s,
    n_walked: Int64s,
) -> None:
    """Walk chains from the positions ``at`` on, as far as tuples are not older than ``oldest``.

    Afterwards ``at`` is where a chain goes on that is too long to be walked, else NONE.
    """
    table, records = rings
    offset, mask, first = table[s, OFFSET], table[s, MASK], table[s, FIRST]
    for g in range(len(at)):
        n_walked[g] = 0
        prefetch(records, offset + (at[g] & mask))
    walking, step = True, 0
    while walking and step < WALKED:
        walking = False
        for g in range(len(at)):
            # A chain ends at the first tuple that the stream still keeps.
            if at[g] < first:
                continue
            record = offset + (at[g] & mask)
            if records[record, TS] < oldest[g]:
                at[g] = NONE
                continue
            walked[g, step] = record
            n_walked[g] = step + 1
            at[g] = records[record, link]
            prefetch(records, offset + (at[g] & mask))
            walking = True
        step += 1


@lean
def _copy_chains(
    entry: Int64s,
    oldest: Int64s,
    n: int,
    s: int,
    key_set: int,
    rings: Rings,
    chains: Chains,
    copies: Copies,
    at: Int64s,
    filled: Int64s,
    buffer: Int64s,
) -> None:
    """Copy the chains of the first ``n`` entries, without tuples before ``oldest``."""
    table, records = rings
    offset, mask, first = table[s, OFFSET], table[s, MASK], table[s, FIRST]
    link, column = LINKS + key_set, chains.tails[0] + s
    for g in range(n):
        at[g], filled[g] = chains.entries[entry[g], column], 0
        prefetch(records, offset + (at[g] & mask))
    walking = True
    while walking:
        walking = False
        for g in range(n):
            # A chain ends at the first tuple that the stream still keeps.
            if at[g] >= first and filled[g] < BUFFERED:
                record = offset + (at[g] & mask)
                if records[record, TS] < oldest[g]:
                    at[g] = NONE
                    continue
                buffer[g, filled[g]] = record
                filled[g] += 1
                at[g] = records[record, link]
                prefetch(records, offset + (at[g] & mask))
                walking = True
    for g in range(n):
        e = entry[g]
        copies.chains[e, _BEGIN] = copies.chains[e, _PLACE] = copies.used[0]
        for j in range(filled[g]):
            _copy(copies, records, buffer[g, j])
        while at[g] >= first:
            record = offset + (at[g] & mask)
            if records[record, TS] < oldest[g]:
                break
            _copy(copies, records, record)
            at[g] = records[record, link]
        copies.chains[e, _END] = copies.used[0]


@inlined
def _copy(copies: Copies, records: Int64s, record: int) -> None:
    at = copies.used[0]
    copies.tuples[at, _TS] = records[record, TS]
    copies.tuples[at, _ORDER] = records[record, ORDER]
    copies.tuples[at, _RECORD] = record
    copies.used[0] = at + 1

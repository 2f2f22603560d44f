"""Enumerating candidates: from partial results to longer ones, a bounded chunk at a time.

A partial result is one tuple from each of some streams, beginning with the tuple the join operator
has just received (its *root*). It may be completed to a true result as long as

    max ts of its tuples  <=  min (ts + window) of its tuples

so it carries both sides, and extending it needs no more of its tuples' times. The same rule finds
the results an in-order root produces and those a late root loses: only tuples received before the
root take part, so they are the results whose last member is the root.

Kernels stop when their output is full and say where to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.chains import Chains, youngest_of
from recalljoin.engine.compiled import compiled, inlined, lean
from recalljoin.engine.counting import slack_bin
from recalljoin.engine.program import BLOCK, Code, Float64s, gather, prepare, run_block
from recalljoin.engine.rings import (
    BASE,
    CODES,
    END,
    FIRST,
    LINKS,
    MASK,
    NONE,
    NOW,
    OFFSET,
    ORDER,
    TS,
    KeySets,
    Rings,
    Sequence,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.queues import Int64s


class Partials(NamedTuple):
    """Partial results as columns."""

    members: Int64s
    """``[stream, i]``: the cell of the tuple, where the stream has been visited."""
    root: Int64s
    """Place of the root in the stretch of the join sequence at hand."""
    newest: Int64s
    """Largest timestamp."""
    last_call: Int64s
    """Smallest timestamp plus window: no tuple after it can be added."""

    def select(self, chosen: NDArray[np.bool_] | Int64s) -> Partials:
        """The partial results chosen by a mask or by their places."""
        return Partials(
            self.members[:, chosen], self.root[chosen], self.newest[chosen], self.last_call[chosen]
        )


def empty_partials(m: int, n: int) -> Partials:
    """Room for ``n`` partial results."""
    return Partials(
        np.zeros((m, n), dtype=np.int64), *(np.empty(n, dtype=np.int64) for _ in range(3))
    )


@compiled
def too_old(
    sequence: Sequence, sizes: Int64s, retention: int, beyond: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Late tuples that nothing can need; ``beyond`` gets those whose losses cannot be counted."""
    old = np.empty(len(sequence.ts), dtype=np.bool_)
    for i in range(len(old)):
        ts, horizon = sequence.ts[i], sequence.now[i] - retention
        beyond[i] = sequence.late[i] and ts < horizon
        old[i] = sequence.late[i] and ts < horizon - sizes[sequence.stream[i]]
    return old


ABREAST, BUFFERED = 16, 32
"""Lists walked at once, and how far each is followed."""
LANES = 32
"""Candidates looked at together for whether any passed."""


@compiled
def extend_by_key(
    partials: Partials,
    first_order: int,
    cursor: Int64s,
    s: int,
    parent: int,
    key_set: int,
    checks: Int64s,
    from_root: bool,
    tails: Int64s,
    rings: Rings,
    chains: Chains,
    sets: KeySets,
    sizes: Int64s,
    places: Int64s,
    found: Int64s,
) -> int:
    """Extend partial results by the tuples of stream ``s`` with the key of their parent.

    ``from_root`` says that the parent is the root, so that ``tails`` tells where to begin.
    ``cursor`` holds the partial result and the tuple to go on with, NONE to begin at its first.
    ``places`` and ``found`` get the partial result extended and the cell added.

    A step along a list waits for memory, and the next cannot be begun before it. So several lists
    are walked abreast, each into a small buffer, and written out one after another.
    """
    table, cells = rings
    n = len(partials.root)
    link = LINKS + key_set
    offset, mask, first = table[s, OFFSET], table[s, MASK], table[s, FIRST]
    members, roots, newest, last_call = partials
    entries, column = chains.entries, chains.tails[0] + s
    tail = sets.tail[0]
    key = np.zeros((1, 1, sets.classes.shape[1]), dtype=np.int64)
    at = np.empty(ABREAST, dtype=np.int64)
    filled = np.empty(ABREAST, dtype=np.int64)
    buffer = np.empty((ABREAST, BUFFERED), dtype=np.int64)
    count = 0
    begin = cursor[0]
    while begin < n:
        width = min(ABREAST, n - begin)
        if cursor[1] != NONE:
            # A list that did not fit the output before: on with it alone.
            width = 1
            at[0] = cursor[1]
            cursor[1] = NONE
            filled[0] = 0
        else:
            for g in range(width):
                filled[g] = 0
                i = begin + g
                if from_root:
                    at[g] = tails[s, roots[i]]
                else:
                    cell = members[parent, i]
                    for c in range(sets.size[key_set]):
                        key[0, 0, c] = cells[cell, tail + CODES + sets.classes[key_set, c]]
                    at[g] = youngest_of(entries, key, key_set, column)
            walking = True
            while walking:
                walking = False
                for g in range(width):
                    # A chain ends where what is kept of the stream begins.
                    if at[g] < first or filled[g] == BUFFERED:
                        continue
                    i = begin + g
                    cell = offset + (at[g] & mask)
                    if cells[cell, TS] < newest[i] - sizes[s]:
                        at[g] = NONE
                        continue
                    walking = True
                    at[g] = cells[cell, link]
                    if _fits(members, roots, last_call, i, first_order, cell, cells, checks, tail):
                        buffer[g, filled[g]] = cell
                        filled[g] += 1
        for g in range(width):
            i = begin + g
            if count + filled[g] > len(places):
                cursor[0] = i
                return count
            for j in range(filled[g]):
                places[count] = i
                found[count] = buffer[g, j]
                count += 1
            while at[g] >= first:
                cell = offset + (at[g] & mask)
                if cells[cell, TS] < newest[i] - sizes[s]:
                    break
                if _fits(members, roots, last_call, i, first_order, cell, cells, checks, tail):
                    if count == len(places):
                        cursor[0] = i
                        cursor[1] = at[g]
                        return count
                    places[count] = i
                    found[count] = cell
                    count += 1
                at[g] = cells[cell, link]
        begin += width
    cursor[0] = n
    return count


@inlined
def _fits(
    members: Int64s,
    roots: Int64s,
    last_call: Int64s,
    i: int,
    first_order: int,
    cell: int,
    cells: Int64s,
    checks: Int64s,
    tail: int,
) -> bool:
    """Whether a tuple with the right key, not too old, extends a partial result."""
    if cells[cell, TS] > last_call[i]:
        return False
    if cells[cell, ORDER] >= first_order + roots[i]:
        return False
    for c in range(len(checks)):
        column = tail + CODES + checks[c, 0]
        if cells[cell, column] != cells[members[checks[c, 1], i], column]:
            return False
    return True


@lean
def _first_in_scope(table: Int64s, cells: Int64s, s: int, limit: int) -> int:
    """The first position received when the join had come to ``limit``.

    Whatever came before is older than ``limit``.
    """
    offset, mask = table[s, OFFSET], table[s, MASK]
    low: int = table[s, FIRST]
    high: int = table[s, END]
    while low < high:
        middle = (low + high) >> 1
        if cells[offset + (middle & mask), NOW] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def _end_before(table: Int64s, cells: Int64s, s: int, order: int) -> int:
    """The position behind the last one received before ``order``."""
    offset, mask = table[s, OFFSET], table[s, MASK]
    low: int = table[s, FIRST]
    high: int = table[s, END]
    while low < high:
        middle = (low + high) >> 1
        if cells[offset + (middle & mask), ORDER] < order:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def _hits(
    passed: Float64s,
    first: int,
    i: int,
    oldest: int,
    youngest: int,
    times: Int64s,
    places: Int64s,
    found: Int64s,
    count: int,
) -> int:
    """List the candidates of a block that passed and lie within their windows."""
    n = len(passed)
    for begin in range(0, n, LANES):
        end = min(n, begin + LANES)
        total = 0
        for j in range(begin, end):
            total += passed[j] != 0.0
        # Few candidates pass: most groups are done with at this sum, which has no branches.
        if total == 0:
            continue
        for j in range(begin, end):
            if passed[j] != 0.0:
                ts = times[first + j]
                if oldest <= ts <= youngest:
                    places[count] = i
                    found[count] = first + j
                    count += 1
    return count


@compiled
def extend_by_scan(
    partials: Partials,
    first_order: int,
    cursor: Int64s,
    s: int,
    with_code: bool,
    code: Code,
    rings: Rings,
    sizes: Int64s,
    values: Float64s,
    times: Int64s,
    places: Int64s,
    found: Int64s,
) -> int:
    """Extend partial results by all tuples of stream ``s`` that satisfy the code, if there is any.

    Like :func:`extend_by_key` otherwise; the output must have room for at least one block.
    """
    table, cells = rings
    offset, mask = table[s, OFFSET], table[s, MASK]
    count = 0
    for i in range(cursor[0], len(partials.root)):
        oldest = partials.newest[i] - sizes[s]
        youngest = partials.last_call[i]
        at = cursor[1]
        cursor[1] = NONE
        if at == NONE:
            at = _first_in_scope(table, cells, s, oldest)
        end = _end_before(table, cells, s, first_order + partials.root[i])
        if at < end and with_code:
            prepare(code, partials.members, i, values)
        while at < end:
            if count + BLOCK > len(places):
                cursor[0] = i
                cursor[1] = at
                return count
            first = offset + (at & mask)
            # A block ends where the ring starts over.
            n = min(BLOCK, end - at, offset + mask + 1 - first)
            if with_code:
                passed = run_block(code, values, first, n)
                count = _hits(passed, first, i, oldest, youngest, times, places, found, count)
            else:
                for j in range(n):
                    places[count] = i
                    found[count] = first + j
                    count += oldest <= times[first + j] <= youngest
            at += n
    cursor[0] = len(partials.root)
    return count


@compiled
def filter_by_code(
    code: Code, members: Int64s, values: Float64s, chosen: NDArray[np.bool_]
) -> None:
    """Check a program on candidates listed one by one."""
    for begin in range(0, len(chosen), BLOCK):
        n = min(BLOCK, len(chosen) - begin)
        gather(code, members, begin, n, values)
        passed = run_block(code, values, 0, n)
        for j in range(n):
            chosen[begin + j] = passed[j] != 0.0


@compiled
def extended(
    partials: Partials, places: Int64s, found: Int64s, s: int, size: int, cells: Int64s
) -> Partials:
    """The partial results at ``places``, each with a tuple of stream ``s`` added."""
    n = len(places)
    m = len(partials.members)
    members = np.empty((m, n), dtype=np.int64)
    root = np.empty(n, dtype=np.int64)
    newest = np.empty(n, dtype=np.int64)
    last_call = np.empty(n, dtype=np.int64)
    for j in range(m):
        for i in range(n):
            members[j, i] = partials.members[j, places[i]]
    for i in range(n):
        ts = cells[found[i], TS]
        members[s, i] = found[i]
        root[i] = partials.root[places[i]]
        newest[i] = max(partials.newest[places[i]], ts)
        last_call[i] = min(partials.last_call[places[i]], ts + size)
    return Partials(members, root, newest, last_call)


@compiled
def merged(one: Partials, begin: int, end: int, other: Partials) -> Partials:
    """Stretch ``begin`` to ``end`` of one chunk and all of another, in the order of their roots."""
    n_one, n_other = end - begin, len(other.root)
    n = n_one + n_other
    m = len(one.members)
    result = Partials(
        np.empty((m, n), dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
    )
    i, j = begin, 0
    for at in range(n):
        if j == n_other or (i < end and one.root[i] <= other.root[j]):
            for s in range(m):
                result.members[s, at] = one.members[s, i]
            result.root[at] = one.root[i]
            result.newest[at] = one.newest[i]
            result.last_call[at] = one.last_call[i]
            i += 1
        else:
            for s in range(m):
                result.members[s, at] = other.members[s, j]
            result.root[at] = other.root[j]
            result.newest[at] = other.newest[j]
            result.last_call[at] = other.last_call[j]
            j += 1
    return result


@lean
def account(
    results: Partials,
    late: NDArray[np.bool_],
    root_cells: Int64s,
    cells: Int64s,
    g: int,
    n_join: Int64s,
    slack: Int64s,
) -> int:
    """Count complete results with their roots and by required slack; return how many are lost."""
    n_lost = 0
    for i in range(len(results.root)):
        root = results.root[i]
        n_join[root] += 1
        n_lost += late[root]
        if g > 0:
            base = cells[root_cells[root], BASE]
            if not late[root]:
                for s in range(len(results.members)):
                    base = max(base, cells[results.members[s, i], BASE])
            at = slack_bin(base, results.newest[i], g)
            slack[np.int64(late[root]), min(at, slack.shape[1] - 1)] += 1
    return n_lost

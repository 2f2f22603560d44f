"""Enumerating candidates: from partial results to longer ones, a bounded chunk at a time.

A partial result is one tuple from each of some streams, beginning with the tuple the join operator
has just received (its *root*). It may be completed to a true result as long as

    max ts of its tuples  <=  min (ts + window) of its tuples

A partial result carries both sides, so that extending it needs no other times of its tuples. The
same rule finds the results that an in-order root produces and the results lost with a late root:
only tuples received before the root take part, which makes the root the last member.

Kernels stop when their output is full and say where to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.block_machine import BLOCK, Code, gather, prepare, run_block
from recalljoin.engine.compiled import compiled, inlined, lean
from recalljoin.engine.rings import (
    BASE,
    MASK,
    NONE,
    NOW,
    OFFSET,
    ORDER,
    Rings,
    Sequence,
    first_from,
)
from recalljoin.engine.slack_bins import slack_bin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s


class Partials(NamedTuple):
    """Partial results as columns."""

    members: Int64s
    """``[stream, i]``: the record of the tuple, where the stream has been visited."""
    root: Int64s
    """Place of the root in the stretch of the join sequence at hand."""
    newest: Int64s
    """Largest timestamp."""
    last_call: Int64s
    """Smallest timestamp plus window: no tuple after this time can be added."""

    def select(self, chosen: NDArray[np.bool_] | Int64s) -> Partials:
        """The partial results chosen by a mask or by their places."""
        return Partials(
            self.members[:, chosen], self.root[chosen], self.newest[chosen], self.last_call[chosen]
        )


def empty_partials(m: int, n: int) -> Partials:
    """Room for ``n`` partial results."""
    return Partials(
        np.empty((m, n), dtype=np.int64), *(np.empty(n, dtype=np.int64) for _ in range(3))
    )


@compiled
def too_old(
    sequence: Sequence, sizes: Int64s, retention: int, since: int, beyond: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Late tuples that no result needs; ``beyond`` gets tuples whose losses cannot be counted."""
    old = np.empty(len(sequence.ts), dtype=np.bool_)
    for i in range(len(old)):
        ts, horizon = sequence.ts[i], sequence.now[i] - retention
        beyond[i] = sequence.late[i] and ts < max(since, horizon)
        old[i] = sequence.late[i] and ts < horizon - sizes[sequence.stream[i]]
    return old


LANES = 32
"""Number of candidates for which one test tells whether any of them passed."""


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
    found_ts: Int64s,
    count: int,
) -> int:
    """List the candidates of a block that passed and lie within their windows."""
    n = len(passed)
    for begin in range(0, n, LANES):
        end = min(n, begin + LANES)
        total = 0
        for j in range(begin, end):
            total += passed[j] != 0.0
        # Few candidates pass, so that this sum without branches settles most groups.
        if total == 0:
            continue
        for j in range(begin, end):
            if passed[j] != 0.0:
                ts = times[first + j]
                if oldest <= ts <= youngest:
                    places[count] = i
                    found[count] = first + j
                    found_ts[count] = ts
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
    found_ts: Int64s,
) -> int:
    """Extend partial results by all tuples of stream ``s`` that satisfy the code, if any is given.

    Otherwise like :func:`extend_by_key`. The output must have room for at least one block.
    """
    table, records = rings
    offset, mask = table[s, OFFSET], table[s, MASK]
    count = 0
    for i in range(cursor[0], len(partials.root)):
        oldest = partials.newest[i] - sizes[s]
        youngest = partials.last_call[i]
        at = cursor[1]
        cursor[1] = NONE
        if at == NONE:
            at = first_from(table, records, s, NOW, oldest)
        # Only tuples received before the root take part.
        end = first_from(table, records, s, ORDER, first_order + partials.root[i])
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
                count = _hits(
                    passed, first, i, oldest, youngest, times, places, found, found_ts, count
                )
            else:
                for j in range(n):
                    places[count] = i
                    found[count] = first + j
                    found_ts[count] = times[first + j]
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


def extended(
    partials: Partials, places: Int64s, found: Int64s, found_ts: Int64s, s: int, size: int
) -> Partials:
    """The partial results at ``places``, each with a tuple of stream ``s`` added."""
    longer = empty_partials(len(partials.members), len(places))
    _extend(partials, places, found, found_ts, s, size, longer)
    return longer


@lean
def _extend(
    partials: Partials,
    places: Int64s,
    found: Int64s,
    found_ts: Int64s,
    s: int,
    size: int,
    longer: Partials,
) -> None:
    for j in range(len(partials.members)):
        if j != s:
            for i in range(len(places)):
                longer.members[j, i] = partials.members[j, places[i]]
    for i in range(len(places)):
        longer.members[s, i] = found[i]
        longer.root[i] = partials.root[places[i]]
        longer.newest[i] = max(partials.newest[places[i]], found_ts[i])
        longer.last_call[i] = min(partials.last_call[places[i]], found_ts[i] + size)


def merged(one: Partials, begin: int, end: int, other: Partials) -> Partials:
    """Stretch ``begin`` to ``end`` of one chunk and all of another, in the order of their roots."""
    result = empty_partials(len(one.members), end - begin + len(other.root))
    _merge(one, begin, end, other, result)
    return result


@lean
def _merge(one: Partials, begin: int, end: int, other: Partials, result: Partials) -> None:
    i, j, at = begin, 0, 0
    while at < len(result.root):
        # The results of a root stand together, and roots of one stream often do, so whole runs are
        # copied.
        run = i
        while run < end and (j == len(other.root) or one.root[run] <= other.root[j]):
            run += 1
        _copy(one, i, run, result, at)
        at += run - i
        i = run
        run = j
        while run < len(other.root) and (i == end or other.root[run] < one.root[i]):
            run += 1
        _copy(other, j, run, result, at)
        at += run - j
        j = run


@inlined
def _copy(source: Partials, begin: int, end: int, target: Partials, at: int) -> None:
    for s in range(len(source.members)):
        for i in range(end - begin):
            target.members[s, at + i] = source.members[s, begin + i]
    for i in range(end - begin):
        target.root[at + i] = source.root[begin + i]
    for i in range(end - begin):
        target.newest[at + i] = source.newest[begin + i]
    for i in range(end - begin):
        target.last_call[at + i] = source.last_call[begin + i]


@lean
def account(
    results: Partials,
    late: NDArray[np.bool_],
    lost_base: Int64s,
    records: Int64s,
    with_slack: bool,
    n_join: Int64s,
    slack: Int64s,
) -> int:
    """Count complete results with their roots and by required slack; return how many are lost."""
    n_lost = 0
    for i in range(len(results.root)):
        root = results.root[i]
        n_join[root] += 1
        n_lost += late[root]
        if with_slack:
            if late[root]:
                base = lost_base[root]
            else:
                base = records[results.members[0, i], BASE]
                for s in range(1, len(results.members)):
                    base = max(base, records[results.members[s, i], BASE])
            slack[np.int64(late[root]), slack_bin(base, results.newest[i])] += 1
    return n_lost

"""Which slots a tuple reaches along a join tree.

Counting visits every slot once, level by level from the tuple at the root. Visited slots are listed
as *entries* in working memory, and all sums over the tree share the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled, lean
from recalljoin.engine.rings import LINKS, MASK, NONE, OFFSET, ORDER, TS
from recalljoin.engine.slots import BEFORE, LINK_WIDTH, SLOT, TAIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import TreeArrays
    from recalljoin.engine.rings import Rings

VECTOR = 128
"""Number of levels or result times handled at once, which bounds the memory of one trigger."""
_ROOM = 1 << 18


class Scratch(NamedTuple):
    """Working memory of one call; entries are the slots visited for one trigger."""

    entry_of: Int64s
    """``[slot, stream]``: the entry, valid if stamped with the present trigger."""
    stamp: Int64s
    slot: Int64s
    node: Int64s
    points: Int64s
    """Slack levels or result times of the present trigger."""
    sums: Int64s
    """Per entry its vector; vectors are cut into parts where they do not all fit."""
    product: Int64s
    """One vector, and the same for ``result``."""
    result: Int64s
    varies: NDArray[np.bool_]
    """Per entry: whether its vector holds different numbers."""
    bounds: NDArray[np.float64]
    """Per entry: number of results as a floating-point number, where 64 bits may not hold it."""


def new_scratch(n_slots: int, m: int, n_kept: int) -> Scratch:
    """Working memory for windows of ``n_kept`` tuples with ``n_slots`` slots."""
    n_entries = n_slots * m
    return Scratch(
        entry_of=np.empty((n_slots, m), dtype=np.int64),
        stamp=np.full((n_slots, m), -1, dtype=np.int64),
        slot=np.empty(n_entries, dtype=np.int64),
        node=np.empty(n_entries, dtype=np.int64),
        points=np.empty(n_kept + 1, dtype=np.int64),
        # At least two numbers for every entry.
        sums=np.empty(max(_ROOM, 2 * n_entries), dtype=np.int64),
        product=np.empty(2 * VECTOR, dtype=np.int64),
        result=np.empty(2 * VECTOR, dtype=np.int64),
        varies=np.empty(n_entries, dtype=np.bool_),
        bounds=np.empty(n_entries),
    )


@lean
def visit(
    root: int,
    record: int,
    oldest_by: int,
    youngest: int,
    rings: Rings,
    lists: Int64s,
    sizes: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> int:
    """List the slots a tuple reaches, level by level; 0 if some stream has no partner at all.

    Members may be as old as ``oldest_by`` less their window and as young as ``youngest``.
    """
    table, records = rings
    order = records[record, ORDER]
    n_entries = 0
    for i in range(tree.n_children[root, 0]):
        node = tree.children[root, 0, i]
        slot = records[record, LINKS + LINK_WIDTH * tree.key_set[root, node] + SLOT]
        if lists[slot, tree.stream[root, node], TAIL] == NONE:
            return 0
        scratch.slot[n_entries] = slot
        scratch.node[n_entries] = node
        n_entries += 1
    entry = 0
    while entry < n_entries:
        node = scratch.node[entry]
        n_children = tree.n_children[root, node]
        if n_children:
            s = tree.stream[root, node]
            offset, mask = table[s, OFFSET], table[s, MASK]
            link = LINKS + LINK_WIDTH * tree.key_set[root, node]
            at = lists[scratch.slot[entry], s, TAIL]
            while at != NONE:
                member = offset + (at & mask)
                if records[member, TS] < oldest_by - sizes[s]:
                    break
                at = records[member, link + BEFORE]
                if records[member, TS] > youngest:
                    continue
                for i in range(n_children):
                    child = tree.children[root, node, i]
                    t = tree.stream[root, child]
                    slot = records[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
                    if scratch.stamp[slot, t] != order:
                        scratch.stamp[slot, t] = order
                        scratch.entry_of[slot, t] = n_entries
                        scratch.slot[n_entries] = slot
                        scratch.node[n_entries] = child
                        n_entries += 1
        entry += 1
    return n_entries


@lean
def most_results(
    root: int,
    n_entries: int,
    oldest_by: int,
    youngest: int,
    rings: Rings,
    lists: Int64s,
    sizes: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> float:
    """How many results the slots visited lead to at most, in floating-point numbers."""
    table, records = rings
    result = 1.0
    for entry in range(n_entries - 1, -1, -1):
        node = scratch.node[entry]
        s = tree.stream[root, node]
        link = LINKS + LINK_WIDTH * tree.key_set[root, node]
        total = 0.0
        at = lists[scratch.slot[entry], s, TAIL]
        while at != NONE:
            member = table[s, OFFSET] + (at & table[s, MASK])
            if records[member, TS] < oldest_by - sizes[s]:
                break
            at = records[member, link + BEFORE]
            if records[member, TS] > youngest:
                continue
            product = 1.0
            for i in range(tree.n_children[root, node]):
                child = tree.children[root, node, i]
                slot = records[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
                product *= scratch.bounds[scratch.entry_of[slot, tree.stream[root, child]]]
            total += product
        scratch.bounds[entry] = total
        if tree.parent[root, node] == 0:
            result *= total
    return result


@compiled
def sort_distinct(points: Int64s, n: int) -> int:
    """Sort the first ``n`` points and drop repetitions; return how many are left."""
    points[:n].sort()
    count = 1
    for i in range(1, n):
        if points[i] != points[count - 1]:
            points[count] = points[i]
            count += 1
    return count

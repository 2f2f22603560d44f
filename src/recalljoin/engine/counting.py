"""Counting join results without enumerating them.

For a query whose equalities form join trees and that has no other condition, the number of
results of a trigger is a sum of products along the tree rooted at its stream: a leaf contributes
how many live tuples its slot holds, an inner node the sum over its tuples of the product of its
children. Only slots reached by keys from the trigger are visited, each once.

Two refinements are vectors instead of numbers, combined in the same way:

* *slack levels*: the required slack of a result is set by the member with the largest base time.
  Counting the results whose members all lie at or below a level, for each level in sight, gives the
  histogram. Members that arrived ahead of the base time cannot raise it, so levels are few.
* *result times*: a late tuple completes results of many timestamps. With ``t`` one of them, the
  results at ``t`` are those with all members in ``[t - W, t]`` less those in ``[t - W, t)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled, lean
from recalljoin.engine.limits import MOST, TOO_MANY
from recalljoin.engine.rings import (
    BASE,
    END,
    FIRST,
    LINKS,
    MASK,
    N_WINDOW,
    NONE,
    OFFSET,
    ORDER,
    TS,
    KeySets,
    Rings,
    Sequence,
    expire_window,
)
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.slots import (
    AFTER,
    BEFORE,
    LINK,
    LINK_WIDTH,
    LIVE,
    N_LIVE,
    OLDER_RAISER,
    RAISER,
    SLOT,
    TAIL,
    Slots,
    expire,
    insert,
    stage,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.plan import TreeArrays
    from recalljoin.engine.queues import Int64s, Queues

VECTOR = 128
"""Levels or result times handled at once: bounds the memory of one trigger."""
_ROOM = 1 << 18


class Scratch(NamedTuple):
    """Working memory of one call; entries are the slots visited for one trigger."""

    entry_of: Int64s
    """``[slot, stream]``: its entry, if stamped with the present trigger."""
    stamp: Int64s
    slot: Int64s
    node: Int64s
    points: Int64s
    """Slack levels or result times in sight."""
    sums: Int64s
    """Per entry its vector; where they do not all fit, vectors are cut into parts."""
    product: Int64s
    """One vector, and the same for ``result``."""
    result: Int64s
    varies: NDArray[np.bool_]
    """Per entry: whether its vector holds different numbers."""
    bounds: NDArray[np.float64]
    """Per entry: its results as a floating-point number, where there may be too many."""


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


class Tally(NamedTuple):
    """Where a call leaves its counts."""

    n_join: Int64s
    """Per tuple: results produced, or lost if it is late; TOO_MANY if 64 bits do not hold them."""
    n_cross: NDArray[np.float64]
    """Per in-order tuple: results of the cross join."""
    slack: Int64s
    """``[produced or lost, bin]``, with every bin there is if slacks are counted."""
    lost_ts: Int64s
    lost_n: Int64s
    """Lost results by their timestamp, in the order they were found."""
    beyond: NDArray[np.bool_]
    """Per late tuple: older than the retention horizon, so that its losses are not known."""


@lean
def count_sequence(
    sequence: Sequence,
    start: int,
    first_order: int,
    rings: Rings,
    slots: Slots,
    sets: KeySets,
    late_live: Queues,
    sizes: Int64s,
    retention: int,
    since: int,
    tree: TreeArrays,
    with_lost: bool,
    with_slack: bool,
    scratch: Scratch,
    tally: Tally,
    n_lost: int,
) -> tuple[int, int]:
    """Run Alg. 2 from ``start`` on; return where it stopped and how many lost entries there are.

    It stops early only when there may not be room for the losses of the next late tuple.
    """
    table = rings.table
    m = len(sizes)
    for i in range(start, len(sequence.ts)):
        s = int(sequence.stream[i])
        ts = sequence.ts[i]
        now = sequence.now[i]
        late = sequence.late[i]
        tally.n_join[i] = 0
        tally.n_cross[i] = 0.0
        tally.beyond[i] = False
        n_cross = 1.0
        if late:
            if n_lost + len(scratch.points) > len(tally.lost_ts):
                return i, n_lost
            tally.beyond[i] = ts < max(since, now - retention)
            if ts < now - sizes[s] - retention:
                continue
        else:
            for j in range(m):
                if j != s:
                    expire_window(rings, late_live, j, ts - sizes[j])
                    n_cross *= table[j, N_WINDOW]
            tally.n_cross[i] = n_cross
        cell = stage(rings, slots, sets, sequence, i, first_order + i)
        if sequence.joinable[i]:
            if not late:
                if n_cross > 0:
                    tally.n_join[i] = _count_produced(
                        s,
                        cell,
                        n_cross,
                        rings,
                        slots,
                        sizes,
                        tree,
                        with_slack,
                        scratch,
                        tally.slack,
                    )
            elif with_lost and not tally.beyond[i]:
                n_lost = _count_lost(
                    i, s, cell, now, sequence.lost_base[i], rings, slots, sizes, tree, with_slack,
                    scratch, tally, n_lost,
                )  # fmt: skip
        insert(rings, slots, sets, late_live, s, cell, now - sizes[s])
    return len(sequence.ts), n_lost


@lean
def _count_produced(
    root: int,
    cell: int,
    n_cross: float,
    rings: Rings,
    slots: Slots,
    sizes: Int64s,
    tree: TreeArrays,
    with_slack: bool,
    scratch: Scratch,
    slack: Int64s,
) -> int:
    table, cells = rings
    lists = slots.lists
    m = len(sizes)
    ts = cells[cell, TS]
    lowest = slack_bin(cells[cell, BASE], ts) if with_slack else 0
    product, bound = 1, 1.0
    raised = False
    for node in range(1, m):
        if tree.parent[root, node] == 0:
            s = tree.stream[root, node]
            link = LINKS + LINK_WIDTH * tree.key_set[root, node]
            slot = cells[cell, link + SLOT]
            expire(table, cells, lists, slot, s, link, ts - sizes[s])
            product *= lists[slot, s, N_LIVE]
            bound *= lists[slot, s, N_LIVE]
            if bound == 0.0:
                return 0
            raised |= lists[slot, s, RAISER] != NONE
    if tree.flat[root] and bound > MOST:
        return TOO_MANY
    if tree.flat[root] and not (with_slack and raised):
        if with_slack:
            slack[0, lowest] += product
        return product
    n_entries = _visit(root, cell, ts, ts, rings, lists, sizes, tree, scratch)
    # No condition gives more results than the cross join has.
    if (
        n_cross > MOST
        and _bound(root, n_entries, ts, ts, rings, lists, sizes, tree, scratch) > MOST
    ):
        return TOO_MANY
    scratch.points[0] = lowest
    n_points = 1
    if with_slack:
        for entry in range(n_entries):
            n_points = _raised_levels(
                scratch.slot[entry], tree.stream[root, scratch.node[entry]], ts, lowest, rings,
                slots, sizes, scratch.points, n_points,
            )  # fmt: skip
    if n_points > 1:
        n_points = _sort_distinct(scratch.points, n_points)
    width = min(VECTOR, len(scratch.sums) // max(1, n_entries))
    below = 0
    for begin in range(0, n_points, width):
        block = scratch.points[begin : min(n_points, begin + width)]
        _sum_products_by_level(
            root, n_entries, ts, block, with_slack, rings, lists, sizes, tree, scratch
        )
        for k in range(len(block)):
            if with_slack:
                slack[0, block[k]] += scratch.result[k] - below
            below = scratch.result[k]
    return below


@compiled
def _sort_distinct(points: Int64s, n: int) -> int:
    """Sort the first ``n`` points and drop repetitions; return how many are left."""
    points[:n].sort()
    count = 1
    for i in range(1, n):
        if points[i] != points[count - 1]:
            points[count] = points[i]
            count += 1
    return count


@lean
def _visit(
    root: int,
    cell: int,
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
    table, cells = rings
    order = cells[cell, ORDER]
    n_entries = 0
    for i in range(tree.n_children[root, 0]):
        node = tree.children[root, 0, i]
        slot = cells[cell, LINKS + LINK_WIDTH * tree.key_set[root, node] + SLOT]
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
                if cells[member, TS] < oldest_by - sizes[s]:
                    break
                at = cells[member, link + BEFORE]
                if cells[member, TS] > youngest:
                    continue
                for i in range(n_children):
                    child = tree.children[root, node, i]
                    t = tree.stream[root, child]
                    slot = cells[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
                    if scratch.stamp[slot, t] != order:
                        scratch.stamp[slot, t] = order
                        scratch.entry_of[slot, t] = n_entries
                        scratch.slot[n_entries] = slot
                        scratch.node[n_entries] = child
                        n_entries += 1
        entry += 1
    return n_entries


@lean
def _bound(
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
    table, cells = rings
    result = 1.0
    for entry in range(n_entries - 1, -1, -1):
        node = scratch.node[entry]
        s = tree.stream[root, node]
        link = LINKS + LINK_WIDTH * tree.key_set[root, node]
        total = 0.0
        at = lists[scratch.slot[entry], s, TAIL]
        while at != NONE:
            member = table[s, OFFSET] + (at & table[s, MASK])
            if cells[member, TS] < oldest_by - sizes[s]:
                break
            at = cells[member, link + BEFORE]
            if cells[member, TS] > youngest:
                continue
            product = 1.0
            for i in range(tree.n_children[root, node]):
                child = tree.children[root, node, i]
                slot = cells[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
                product *= scratch.bounds[scratch.entry_of[slot, tree.stream[root, child]]]
            total += product
        scratch.bounds[entry] = total
        if tree.parent[root, node] == 0:
            result *= total
    return result


@lean
def _raised_levels(
    slot: int,
    s: int,
    ts: int,
    lowest: int,
    rings: Rings,
    slots: Slots,
    sizes: Int64s,
    points: Int64s,
    n_points: int,
) -> int:
    """Collect the slack levels above ``lowest`` of a slot's tuples; drop those out of the game."""
    table, cells = rings
    at = slots.lists[slot, s, RAISER]
    if at == NONE:
        return n_points
    column = slots.table[slot, LINK] + OLDER_RAISER
    offset, mask = table[s, OFFSET], table[s, MASK]
    kept = NONE
    while at >= table[s, FIRST]:
        cell = offset + (at & mask)
        older = cells[cell, column]
        if cells[cell, BASE] >= ts and cells[cell, TS] >= ts - sizes[s]:
            if kept == NONE:
                slots.lists[slot, s, RAISER] = at
            else:
                cells[kept, column] = at
            kept = cell
            level = slack_bin(cells[cell, BASE], ts)
            if level > lowest:
                points[n_points] = level
                n_points += 1
        at = older
    # Trigger times only grow: what was passed over can never raise a slack again, and what is
    # older than the first position kept has been forgotten.
    if kept == NONE:
        slots.lists[slot, s, RAISER] = NONE
    else:
        cells[kept, column] = NONE
    return n_points


@lean
def _sum_products_by_level(
    root: int,
    n_entries: int,
    ts: int,
    levels: Int64s,
    with_slack: bool,
    rings: Rings,
    lists: Int64s,
    sizes: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> None:
    """For each level, the results whose members all lie at or below it."""
    table, cells = rings
    n = len(levels)
    sums = scratch.sums
    product = scratch.product[:n]
    for entry in range(n_entries - 1, -1, -1):
        node = scratch.node[entry]
        slot = scratch.slot[entry]
        s = tree.stream[root, node]
        link = LINKS + LINK_WIDTH * tree.key_set[root, node]
        offset, mask = table[s, OFFSET], table[s, MASK]
        expire(table, cells, lists, slot, s, link, ts - sizes[s])
        begin = entry * n
        varies = False
        if tree.n_children[root, node] == 0:
            same = lists[slot, s, N_LIVE]
            at = lists[slot, s, RAISER] if with_slack else NONE
            if at != NONE:
                varies = True
                sums[begin : begin + n] = 0
            while at != NONE:
                raiser = offset + (at & mask)
                level = slack_bin(cells[raiser, BASE], ts)
                for k in range(n):
                    sums[begin + k] -= level > levels[k]
                at = cells[raiser, link + OLDER_RAISER]
        else:
            # Most members lie at the lowest level with all they lead to: they count for every
            # level alike, and one number does.
            same = 0
            at = lists[slot, s, LIVE]
            while at != NONE:
                member = offset + (at & mask)
                at = cells[member, link + AFTER]
                level = slack_bin(cells[member, BASE], ts) if with_slack else 0
                common = 1
                member_varies = level > levels[0]
                for i in range(tree.n_children[root, node]):
                    child = tree.children[root, node, i]
                    below = cells[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
                    other = scratch.entry_of[below, tree.stream[root, child]]
                    member_varies |= scratch.varies[other]
                    common *= sums[other * n]
                if not member_varies:
                    same += common
                    continue
                if not varies:
                    varies = True
                    sums[begin : begin + n] = 0
                for k in range(n):
                    product[k] = level <= levels[k]
                _times_children(root, node, member, product, sums, cells, tree, scratch)
                for k in range(n):
                    sums[begin + k] += product[k]
        scratch.varies[entry] = varies
        if varies:
            for k in range(n):
                sums[begin + k] += same
        else:
            sums[begin : begin + n] = same
    _product_at_root(root, n_entries, n, tree, scratch)


@lean
def _times_children(
    root: int,
    node: int,
    member: int,
    product: Int64s,
    sums: Int64s,
    cells: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> None:
    n = len(product)
    for i in range(tree.n_children[root, node]):
        child = tree.children[root, node, i]
        slot = cells[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
        begin = n * scratch.entry_of[slot, tree.stream[root, child]]
        for k in range(n):
            product[k] *= sums[begin + k]


@lean
def _product_at_root(root: int, n_entries: int, n: int, tree: TreeArrays, scratch: Scratch) -> None:
    scratch.result[:n] = 1
    for entry in range(n_entries):
        if tree.parent[root, scratch.node[entry]] == 0:
            for k in range(n):
                scratch.result[k] *= scratch.sums[entry * n + k]


@lean
def _count_lost(
    i: int,
    root: int,
    cell: int,
    now: int,
    base: int,
    rings: Rings,
    slots: Slots,
    sizes: Int64s,
    tree: TreeArrays,
    with_slack: bool,
    scratch: Scratch,
    tally: Tally,
    n_lost: int,
) -> int:
    """Count the true results a late tuple completes: they can never be produced.

    Their required slack is counted from ``base``.
    """
    table, cells = rings
    lists = slots.lists
    ts = cells[cell, TS]
    youngest = min(now, ts + sizes[root])
    n_entries = _visit(root, cell, ts, youngest, rings, lists, sizes, tree, scratch)
    if n_entries == 0:
        return n_lost
    n_cross = 1.0
    for s in range(len(sizes)):
        if s != root:
            n_cross *= table[s, END] - table[s, FIRST]
    if (
        n_cross > MOST
        and _bound(root, n_entries, ts, youngest, rings, lists, sizes, tree, scratch) > MOST
    ):
        tally.n_join[i] = TOO_MANY
        return n_lost
    scratch.points[0] = ts
    n_points = 1
    for entry in range(n_entries):
        s = tree.stream[root, scratch.node[entry]]
        link = LINKS + LINK_WIDTH * tree.key_set[root, scratch.node[entry]]
        at = lists[scratch.slot[entry], s, TAIL]
        while at != NONE:
            member = table[s, OFFSET] + (at & table[s, MASK])
            if cells[member, TS] <= ts:
                break
            if cells[member, TS] <= youngest:
                scratch.points[n_points] = cells[member, TS]
                n_points += 1
            at = cells[member, link + BEFORE]
    if n_points > 1:
        n_points = _sort_distinct(scratch.points, n_points)
    sums = scratch.result
    width = min(VECTOR, len(scratch.sums) // (2 * n_entries))
    for begin in range(0, n_points, width):
        block = scratch.points[begin : min(n_points, begin + width)]
        n = len(block)
        _sum_products_by_time(root, n_entries, ts, now, block, rings, lists, sizes, tree, scratch)
        for k in range(n):
            # At the late tuple's own time every result is new: it is itself at that time.
            lost = sums[k] if begin + k == 0 else sums[k] - sums[n + k]
            if lost > 0:
                tally.n_join[i] += lost
                tally.lost_ts[n_lost] = block[k]
                tally.lost_n[n_lost] = lost
                n_lost += 1
                if with_slack:
                    tally.slack[1, slack_bin(base, block[k])] += lost
    return n_lost


@lean
def _sum_products_by_time(
    root: int,
    n_entries: int,
    ts: int,
    now: int,
    times: Int64s,
    rings: Rings,
    lists: Int64s,
    sizes: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> None:
    """For each result time ``t``, the results within ``[t - W, t]``, then within ``[t - W, t)``."""
    table, cells = rings
    n = len(times)
    width = 2 * n
    sums = scratch.sums
    product = scratch.product[:width]
    for entry in range(n_entries - 1, -1, -1):
        node = scratch.node[entry]
        slot = scratch.slot[entry]
        s = tree.stream[root, node]
        link = LINKS + LINK_WIDTH * tree.key_set[root, node]
        own = sums[entry * width : (entry + 1) * width]
        if tree.n_children[root, node] == 0:
            _live_at(slot, s, link, now, times, table, cells, lists, sizes[s], own)
            continue
        own[:] = 0
        at = lists[slot, s, TAIL]
        while at != NONE:
            member = table[s, OFFSET] + (at & table[s, MASK])
            member_ts = cells[member, TS]
            if member_ts < ts - sizes[s]:
                break
            at = cells[member, link + BEFORE]
            if member_ts > times[n - 1]:
                continue
            for k in range(n):
                within = times[k] <= member_ts + sizes[s]
                product[k] = within and member_ts <= times[k]
                product[n + k] = within and member_ts < times[k]
            _times_children(root, node, member, product, sums, cells, tree, scratch)
            for k in range(width):
                own[k] += product[k]
    _product_at_root(root, n_entries, width, tree, scratch)


@lean
def _live_at(
    slot: int,
    s: int,
    link: int,
    now: int,
    times: Int64s,
    table: Int64s,
    cells: Int64s,
    lists: Int64s,
    size: int,
    counts: Int64s,
) -> None:
    """Tuples of a slot within ``[t - W, t]`` (first half) and ``[t - W, t)`` (second half).

    Instead of walking the window, start from the number of live tuples: those younger than ``t``
    are too many, and those that have left the window since are missing.
    """
    n = len(times)
    offset, mask = table[s, OFFSET], table[s, MASK]
    expire(table, cells, lists, slot, s, link, now - size)
    counts[:] = lists[slot, s, N_LIVE]
    at = lists[slot, s, TAIL]
    while at != NONE:
        member = offset + (at & mask)
        ts = cells[member, TS]
        if ts < times[0]:
            break
        for k in range(n):
            counts[k] -= ts > times[k]
            counts[n + k] -= ts >= times[k]
        at = cells[member, link + BEFORE]
    at = lists[slot, s, LIVE]
    if at == NONE:
        at = lists[slot, s, TAIL]
    else:
        at = cells[offset + (at & mask), link + BEFORE]
    while at != NONE:
        member = offset + (at & mask)
        ts = cells[member, TS]
        if ts < times[0] - size:
            break
        for k in range(n):
            counts[k] += ts >= times[k] - size
            counts[n + k] += ts >= times[k] - size
        at = cells[member, link + BEFORE]

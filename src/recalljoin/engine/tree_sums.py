"""Sums of products along a join tree, for many slack levels or result times at once.

A leaf contributes the number of live tuples in its slot, an inner node the sum over its tuples of
the product of its children. Each sum is a vector with a number for every level, or for every time:

* *slack levels*: the results whose members all lie at or below a level;
* *result times*: the results with all members in ``[t - W, t]``, and with all members in
  ``[t - W, t)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.engine.compiled import lean
from recalljoin.engine.rings import BASE, FIRST, LINKS, MASK, NONE, OFFSET, TS
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
    expire,
)

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import TreeArrays
    from recalljoin.engine.rings import Rings
    from recalljoin.engine.slots import Slots
    from recalljoin.engine.tree_visits import Scratch


@lean
def raised_levels(
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
    """Collect the slack levels above ``lowest`` of a slot's tuples; drop tuples that raise none."""
    table, records = rings
    at = slots.lists[slot, s, RAISER]
    if at == NONE:
        return n_points
    column = slots.table[slot, LINK] + OLDER_RAISER
    offset, mask = table[s, OFFSET], table[s, MASK]
    kept = NONE
    while at >= table[s, FIRST]:
        record = offset + (at & mask)
        older = records[record, column]
        if records[record, BASE] >= ts and records[record, TS] >= ts - sizes[s]:
            if kept == NONE:
                slots.lists[slot, s, RAISER] = at
            else:
                records[kept, column] = at
            kept = record
            level = slack_bin(records[record, BASE], ts)
            if level > lowest:
                points[n_points] = level
                n_points += 1
        at = older
    # Trigger times only grow, so that a tuple that was passed over can never raise a slack again.
    # A tuple older than the first position kept has been forgotten.
    if kept == NONE:
        slots.lists[slot, s, RAISER] = NONE
    else:
        records[kept, column] = NONE
    return n_points


@lean
def sum_products_by_level(
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
    table, records = rings
    n = len(levels)
    sums = scratch.sums
    product = scratch.product[:n]
    for entry in range(n_entries - 1, -1, -1):
        node = scratch.node[entry]
        slot = scratch.slot[entry]
        s = tree.stream[root, node]
        link = LINKS + LINK_WIDTH * tree.key_set[root, node]
        offset, mask = table[s, OFFSET], table[s, MASK]
        expire(table, records, lists, slot, s, link, ts - sizes[s])
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
                level = slack_bin(records[raiser, BASE], ts)
                for k in range(n):
                    sums[begin + k] -= level > levels[k]
                at = records[raiser, link + OLDER_RAISER]
        else:
            # Most members lie at the lowest level, with all tuples reached through them. Such
            # members count for every level alike, and one number is enough.
            same = 0
            at = lists[slot, s, LIVE]
            while at != NONE:
                member = offset + (at & mask)
                at = records[member, link + AFTER]
                level = slack_bin(records[member, BASE], ts) if with_slack else 0
                common = 1
                member_varies = level > levels[0]
                for i in range(tree.n_children[root, node]):
                    child = tree.children[root, node, i]
                    below = records[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
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
                _times_children(root, node, member, product, sums, records, tree, scratch)
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
def sum_products_by_time(
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
    table, records = rings
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
            _live_at(slot, s, link, now, times, table, records, lists, sizes[s], own)
            continue
        own[:] = 0
        at = lists[slot, s, TAIL]
        while at != NONE:
            member = table[s, OFFSET] + (at & table[s, MASK])
            member_ts = records[member, TS]
            if member_ts < ts - sizes[s]:
                break
            at = records[member, link + BEFORE]
            if member_ts > times[n - 1]:
                continue
            for k in range(n):
                within = times[k] <= member_ts + sizes[s]
                product[k] = within and member_ts <= times[k]
                product[n + k] = within and member_ts < times[k]
            _times_children(root, node, member, product, sums, records, tree, scratch)
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
    records: Int64s,
    lists: Int64s,
    size: int,
    counts: Int64s,
) -> None:
    """Tuples of a slot within ``[t - W, t]`` (first half) and ``[t - W, t)`` (second half).

    The count does not walk the window. It starts from the number of live tuples, subtracts tuples
    younger than ``t``, and adds tuples that have left the window since.
    """
    n = len(times)
    offset, mask = table[s, OFFSET], table[s, MASK]
    expire(table, records, lists, slot, s, link, now - size)
    counts[:] = lists[slot, s, N_LIVE]
    at = lists[slot, s, TAIL]
    while at != NONE:
        member = offset + (at & mask)
        ts = records[member, TS]
        if ts < times[0]:
            break
        for k in range(n):
            counts[k] -= ts > times[k]
            counts[n + k] -= ts >= times[k]
        at = records[member, link + BEFORE]
    at = lists[slot, s, LIVE]
    if at == NONE:
        at = lists[slot, s, TAIL]
    else:
        at = records[offset + (at & mask), link + BEFORE]
    while at != NONE:
        member = offset + (at & mask)
        ts = records[member, TS]
        if ts < times[0] - size:
            break
        for k in range(n):
            counts[k] += ts >= times[k] - size
            counts[n + k] += ts >= times[k] - size
        at = records[member, link + BEFORE]


@lean
def _times_children(
    root: int,
    node: int,
    member: int,
    product: Int64s,
    sums: Int64s,
    records: Int64s,
    tree: TreeArrays,
    scratch: Scratch,
) -> None:
    n = len(product)
    for i in range(tree.n_children[root, node]):
        child = tree.children[root, node, i]
        slot = records[member, LINKS + LINK_WIDTH * tree.key_set[root, child] + SLOT]
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

"""Counting join results without enumerating them.

For a query whose equalities form join trees and that has no other condition, the number of
results of a trigger is a sum of products along the tree rooted at its stream: a leaf contributes
the number of live tuples in its slot, an inner node the sum over its tuples of the product of its
children. Only slots reached by keys from the trigger are visited, each once.

Two refinements compute vectors instead of numbers, along the same tree:

* *slack levels*: the required slack of a result is set by the member with the largest base time.
  Counting the results whose members all lie at or below a level, for each level in sight, gives the
  histogram. A member that arrived ahead of the base time cannot raise the required slack, which
  keeps levels few.
* *result times*: a late tuple completes results of many timestamps. The number of results at a
  timestamp ``t`` is the number with all members in ``[t - W, t]`` less the number with all members
  in ``[t - W, t)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from recalljoin.engine.compiled import lean
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
    TS,
    expire_window,
)
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.slots import (
    BEFORE,
    LINK_WIDTH,
    N_LIVE,
    RAISER,
    SLOT,
    TAIL,
    expire,
    fetch_ahead,
    insert,
    stage,
)
from recalljoin.engine.tree_sums import raised_levels, sum_products_by_level, sum_products_by_time
from recalljoin.engine.tree_visits import VECTOR, most_results, sort_distinct, visit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.plan import TreeArrays
    from recalljoin.engine.queues import Queues
    from recalljoin.engine.rings import KeySets, Rings, Sequence
    from recalljoin.engine.slots import Slots
    from recalljoin.engine.tree_visits import Scratch


class Counts(NamedTuple):
    """Where a call leaves its counts."""

    n_join: Int64s
    """Per tuple: number of results produced, or lost with a late tuple; or TOO_MANY."""
    n_cross: NDArray[np.float64]
    """Per in-order tuple: results of the cross join."""
    slack: Int64s
    """``[produced or lost, bin]``, with all bins if slacks are counted."""
    lost_ts: Int64s
    lost_n: Int64s
    """Lost results by their timestamp, in the order they were found."""
    beyond: NDArray[np.bool_]
    """Per late tuple: beyond the retention horizon, so that results lost with it are not known."""


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
    tally: Counts,
    n_lost: int,
) -> tuple[int, int]:
    """Run Alg. 2 from ``start`` on; return where the run stopped and the number of lost entries.

    The run stops early only when the losses of the next late tuple may not have room.
    """
    table = rings.table
    m = len(sizes)
    for i in range(start, len(sequence.ts)):
        fetch_ahead(rings, slots, sets, sequence, i)
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
        record = stage(rings, slots, sets, sequence, i, first_order + i)
        if sequence.joinable[i]:
            if not late:
                if n_cross > 0:
                    tally.n_join[i] = _count_produced(
                        s,
                        record,
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
                    i, s, record, now, sequence.lost_base[i], rings, slots, sizes, tree, with_slack,
                    scratch, tally, n_lost,
                )  # fmt: skip
        insert(rings, slots, sets, late_live, s, record, now - sizes[s])
    return len(sequence.ts), n_lost


@lean
def _count_produced(
    root: int,
    record: int,
    n_cross: float,
    rings: Rings,
    slots: Slots,
    sizes: Int64s,
    tree: TreeArrays,
    with_slack: bool,
    scratch: Scratch,
    slack: Int64s,
) -> int:
    table, records = rings
    lists = slots.lists
    m = len(sizes)
    ts = records[record, TS]
    lowest = slack_bin(records[record, BASE], ts) if with_slack else 0
    product, bound = 1, 1.0
    raised = False
    for node in range(1, m):
        if tree.parent[root, node] == 0:
            s = tree.stream[root, node]
            link = LINKS + LINK_WIDTH * tree.key_set[root, node]
            slot = records[record, link + SLOT]
            expire(table, records, lists, slot, s, link, ts - sizes[s])
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
    n_entries = visit(root, record, ts, ts, rings, lists, sizes, tree, scratch)
    # No condition gives more results than the cross join has.
    if (
        n_cross > MOST
        and most_results(root, n_entries, ts, ts, rings, lists, sizes, tree, scratch) > MOST
    ):
        return TOO_MANY
    scratch.points[0] = lowest
    n_points = 1
    if with_slack:
        for entry in range(n_entries):
            n_points = raised_levels(
                scratch.slot[entry], tree.stream[root, scratch.node[entry]], ts, lowest, rings,
                slots, sizes, scratch.points, n_points,
            )  # fmt: skip
    if n_points > 1:
        n_points = sort_distinct(scratch.points, n_points)
    width = min(VECTOR, len(scratch.sums) // max(1, n_entries))
    below = 0
    for begin in range(0, n_points, width):
        block = scratch.points[begin : min(n_points, begin + width)]
        sum_products_by_level(
            root, n_entries, ts, block, with_slack, rings, lists, sizes, tree, scratch
        )
        for k in range(len(block)):
            if with_slack:
                slack[0, block[k]] += scratch.result[k] - below
            below = scratch.result[k]
    return below


@lean
def _count_lost(
    i: int,
    root: int,
    record: int,
    now: int,
    base: int,
    rings: Rings,
    slots: Slots,
    sizes: Int64s,
    tree: TreeArrays,
    with_slack: bool,
    scratch: Scratch,
    tally: Counts,
    n_lost: int,
) -> int:
    """Count the true results that a late tuple completes, which can never be produced.

    The required slack of these results is counted from ``base``.
    """
    table, records = rings
    lists = slots.lists
    ts = records[record, TS]
    youngest = min(now, ts + sizes[root])
    n_entries = visit(root, record, ts, youngest, rings, lists, sizes, tree, scratch)
    if n_entries == 0:
        return n_lost
    n_cross = 1.0
    for s in range(len(sizes)):
        if s != root:
            n_cross *= table[s, END] - table[s, FIRST]
    if (
        n_cross > MOST
        and most_results(root, n_entries, ts, youngest, rings, lists, sizes, tree, scratch) > MOST
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
            if records[member, TS] <= ts:
                break
            if records[member, TS] <= youngest:
                scratch.points[n_points] = records[member, TS]
                n_points += 1
            at = records[member, link + BEFORE]
    if n_points > 1:
        n_points = sort_distinct(scratch.points, n_points)
    sums = scratch.result
    width = min(VECTOR, len(scratch.sums) // (2 * n_entries))
    for begin in range(0, n_points, width):
        block = scratch.points[begin : min(n_points, begin + width)]
        n = len(block)
        sum_products_by_time(root, n_entries, ts, now, block, rings, lists, sizes, tree, scratch)
        for k in range(n):
            # Every result has the late tuple as a member: none is before the late tuple's time.
            lost = sums[k] if begin + k == 0 else sums[k] - sums[n + k]
            if lost > 0:
                tally.n_join[i] += lost
                tally.lost_ts[n_lost] = block[k]
                tally.lost_n[n_lost] = lost
                n_lost += 1
                if with_slack:
                    tally.slack[1, slack_bin(base, block[k])] += lost
    return n_lost

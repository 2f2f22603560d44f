"""The loops of verdicts: what is noted of each tuple when results are found, and what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.engine.compiled import lean
from recalljoin.engine.queues import EMPTY, FRONT_ID, FRONT_TS, Queues, drop_front
from recalljoin.engine.queues import push as put
from recalljoin.engine.rings import BASE, MASK, OFFSET, TS, Rings
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.windows import FATE, NEED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.probe import Partials

# What is noted of a tuple's fate: a partner came before the verdict; the first partner came after
# it; the tuple itself came after it; the verdict has been counted; a semi row has left.
MATCHED, REFUTED, TOO_LATE, TOLD, SHOWN = (1 << bit for bit in range(5))

UNMATCHED, LATER, OWN = range(3)
"""Rows of the histogram that tells what each K would have given, all by base time at an arrival
less the time of the verdict: tuples without a partner, by their own arrival; and tuples whose first
partner came after them, by the partner's arrival and by their own. With a constant K, a tuple
with a later partner leaves in error if K is larger than its own number and not larger than its
partner's."""


@lean
def await_verdicts(due: Queues, s: int, ts: Int64s, places: Int64s, position: Int64s) -> None:
    """Queue tuples by the times of their verdicts."""
    for i in places:
        put(due, s, ts[i], position[i])


@lean
def take_due(due: Queues, s: int, limit: int, rings: Rings, decided: Int64s) -> int:
    """Take the tuples whose verdicts are due; returns how many ``decided`` has got."""
    table = rings.table
    n = 0
    while due.state[s, FRONT_TS] != EMPTY and due.state[s, FRONT_TS] <= limit:
        decided[n] = table[s, OFFSET] + (due.state[s, FRONT_ID] & table[s, MASK])
        n += 1
        drop_front(due, s)
    return n


@lean
def judge_pairs(
    results: Partials,
    lost: NDArray[np.bool_],
    now: Int64s,
    root_records: Int64s,
    records: Int64s,
    notes: Int64s,
    sizes: Int64s,
    streams: Int64s,
    refuted: Int64s,
) -> int:
    """Note the partners of tuples; ``refuted`` gets tuples of which something else was said."""
    n = 0
    for i in range(len(results.root)):
        root = results.root[i]
        for s in streams:
            e = results.members[s, i]
            fate = notes[FATE, e]
            v = records[e, TS] + sizes[s]
            place = 1 + slack_bin(records[results.members[1 - s, i], BASE], v)
            if notes[NEED, e] == 0 or place < notes[NEED, e]:
                notes[NEED, e] = place
            if not (lost[i] and now[root] >= v):
                notes[FATE, e] = fate | MATCHED
            elif fate & (MATCHED | REFUTED) == 0:
                notes[FATE, e] = fate | REFUTED
                # A tuple that comes after its own verdict has not left.
                if e != root_records[root]:
                    refuted[0, n] = s
                    refuted[1, n] = e
                    n += 1
    return n


@lean
def judge_semi(
    results: Partials,
    lost: NDArray[np.bool_],
    base: Int64s,
    notes: Int64s,
    with_slack: bool,
    slack: Int64s,
    shown: Int64s,
    late: Int64s,
    counts: Int64s,
) -> None:
    """Note the least slack that a tuple needs; ``shown`` and ``late`` get tuples to be told of."""
    for i in range(len(results.root)):
        e = results.members[0, i]
        fate, need = notes[FATE, e], notes[NEED, e]
        place = 1 + slack_bin(base[results.root[i]], results.newest[i])
        if need == 0 or place < need:
            if need != 0 and fate & TOLD and with_slack:
                at = 0 if fate & SHOWN else 1
                slack[at, need - 1] -= 1
                slack[at, place - 1] += 1
            notes[NEED, e] = place
        if lost[i]:
            # After the verdict nobody else counts the tuple.
            if need == 0 and fate & TOLD and not fate & SHOWN:
                late[counts[1]] = e
                counts[1] += 1
        elif not fate & SHOWN:
            notes[FATE, e] = fate | SHOWN
            shown[counts[0]] = e
            counts[0] += 1


@lean
def count_later(base: Int64s, v: Int64s, first: Int64s, needs: Int64s) -> None:
    """Count tuples by their first partner's arrival and by their own, if that came before."""
    for i in range(len(v)):
        own = slack_bin(base[i], v[i])
        if first[i] - 1 > own:
            needs[LATER, first[i] - 1] += 1
            needs[OWN, own] += 1


@lean
def count_bins(base: Int64s, v: Int64s, sign: int, slack: Int64s, needs: Int64s) -> None:
    """Count tuples by the base time at their arrival less the time of their verdict."""
    for i in range(len(v)):
        place = slack_bin(base[i], v[i])
        slack[place] += sign
        needs[place] += sign

"""Clocks of the sources inside the streams: how far the slowest source that matters has come.

A source (a sensor, a device, a partition) is mostly in order by itself, and disorder comes from
sources that are not equally far. A source that falls silent announces that its tuples will come
late. So each source has a clock, the largest timestamp that has arrived from it, and the slowest of
them says how far all sources have come.

A source matters by its weight, the number of tuples it has sent in this *epoch* and the one before.
The slowest sources are passed over as long as their weights add up to no more than a share of all
weight: one device of ten thousand does not hold the join up, a tenth of them do. A source without a
tuple in two epochs weighs nothing: it no longer holds anybody up, and its clock is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.compiled import inlined, lean
from recalljoin.engine.rings import mix
from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

MOST = 1 << 14
"""Sources with a clock of their own; the other sources share one clock."""
POOL = 0
"""Place of the clock that all sources without a clock of their own share."""

# Rows of the table of sources: who it is, its clock, and its tuples in this epoch and the last one.
_ID, _CLOCK, _NOW, _BEFORE = range(4)
# What is known besides: number of places in use, and when the epoch ends.
_N, _END = range(2)


class SourceClocks:
    """Clocks of the sources of all streams.

    Parameters
    ----------
    epoch
        A source that has sent nothing for two epochs, by the clock of the slowest stream, holds
        nobody up. A source that dies holds the join up for at least one and at most two epochs.
    spare
        Share of all tuples whose sources need not be waited for.
    most
        Number of sources with a clock of their own.
    """

    def __init__(self, *, epoch: int, spare: float, most: int = MOST) -> None:
        self.epoch, self.spare, self.most = epoch, spare, most
        self._sources = np.zeros((4, most + 1), dtype=np.int64)
        self._sources[_CLOCK] = NEVER
        # Places by hash of the source, each plus one; 0 where there is none.
        self._table = np.zeros(1 << (4 * most).bit_length(), dtype=np.int64)
        self._state = np.array([1, NEVER], dtype=np.int64)

    def advance(
        self, tick: Int64s, source: Int64s, ts: Int64s, count: Int64s, fronts: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Let ticks pass.

        Parameters
        ----------
        tick, source, ts, count
            The tuples: tick, counted from 0 and never falling, number of the source, time, and for
            how many tuples of the source, none of them later, this one stands.
        fronts
            The clock of the slowest stream after each tick.

        Returns
        -------
        tuple
            For each tick the clock of the slowest source that matters, NEVER if there is none; and
            the number of that source, 0 for those that share a clock.
        """
        slowest = np.full(len(fronts), NEVER, dtype=np.int64)
        holder = np.zeros(len(fronts), dtype=np.int64)
        _follow(
            tick, source, ts, count, fronts, self.spare, self.epoch, self._sources, self._table,
            self._state, slowest, holder,
        )  # fmt: skip
        return slowest, holder

    @property
    def n_sources(self) -> int:
        """Sources that have a clock of their own now."""
        return int(self._state[_N]) - 1

    @property
    def numbers(self) -> Int64s:
        """Numbers of the sources that have a clock of their own."""
        return self._sources[_ID, 1 : int(self._state[_N])]

    def snapshot(self) -> dict[str, Any]:
        """Everything it remembers, as values that JSON can hold."""
        n, end = self._state.tolist()
        return {"end": end, "sources": self._sources[:, :n].tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        sources = np.array(state["sources"], dtype=np.int64)
        n = sources.shape[1]
        self._sources[:, :n] = sources
        self._state[:] = n, state["end"]
        _index(self._sources, self._table, n)


@lean
def _follow(
    tick: Int64s,
    source: Int64s,
    ts: Int64s,
    count: Int64s,
    fronts: Int64s,
    spare: float,
    epoch: int,
    sources: Int64s,
    table: Int64s,
    state: Int64s,
    slowest: Int64s,
    holder: Int64s,
) -> None:
    i = 0
    for n in range(len(fronts)):
        while i < len(ts) and tick[i] == n:
            place = _place_of(source[i], sources, table, state)
            sources[_CLOCK, place] = max(sources[_CLOCK, place], ts[i])
            sources[_NOW, place] += count[i]
            i += 1
        if fronts[n] != NEVER:
            if state[_END] == NEVER:
                state[_END] = fronts[n] + epoch
            elif fronts[n] >= state[_END]:
                # A tick begins one epoch at most: what a long tick holds has just come.
                state[_END] = fronts[n] + epoch
                _begin_epoch(sources, table, state)
        place = _slowest(sources, state[_N], spare)
        if place >= 0:
            slowest[n] = sources[_CLOCK, place]
            holder[n] = sources[_ID, place]


@inlined
def _place_of(source: int, sources: Int64s, table: Int64s, state: Int64s) -> int:
    mask = len(table) - 1
    at = mix(source) & mask
    while table[at] != 0:
        if sources[_ID, table[at] - 1] == source:
            return int(table[at] - 1)
        at = (at + 1) & mask
    n = state[_N]
    if n == sources.shape[1]:
        return POOL
    sources[_ID, n] = source
    sources[_CLOCK, n] = NEVER
    sources[_NOW, n] = 0
    sources[_BEFORE, n] = 0
    table[at] = n + 1
    state[_N] = n + 1
    return int(n)


@lean
def _begin_epoch(sources: Int64s, table: Int64s, state: Int64s) -> None:
    kept = 1
    for place in range(state[_N]):
        if place == POOL or sources[_NOW, place] > 0:
            to = POOL if place == POOL else kept
            sources[_ID, to] = sources[_ID, place]
            sources[_CLOCK, to] = sources[_CLOCK, place]
            sources[_BEFORE, to] = sources[_NOW, place]
            sources[_NOW, to] = 0
            kept += place != POOL
    state[_N] = kept
    _index(sources, table, kept)


@lean
def _index(sources: Int64s, table: Int64s, n: int) -> None:
    table[:] = 0
    mask = len(table) - 1
    for place in range(1, n):
        at = mix(sources[_ID, place]) & mask
        while table[at] != 0:
            at = (at + 1) & mask
        table[at] = place + 1


@lean
def _slowest(sources: Int64s, n: int, spare: float) -> int:
    """Place of the first source that cannot be passed over, by clock; -1 if no source matters."""
    total, first, last, found = 0, FOREVER, NEVER, -1
    for place in range(n):
        weight = sources[_NOW, place] + sources[_BEFORE, place]
        if weight > 0:
            total += weight
            last = max(last, sources[_CLOCK, place])
            if sources[_CLOCK, place] < first:
                first, found = sources[_CLOCK, place], place
    if found < 0:
        return found
    budget = int(spare * total)
    if sources[_NOW, found] + sources[_BEFORE, found] > budget:
        return found
    # The smallest clock up to which sources weigh more than may be passed over.
    while first < last:
        middle = first + (last - first) // 2
        passed = 0
        for place in range(n):
            if sources[_CLOCK, place] <= middle:
                passed += sources[_NOW, place] + sources[_BEFORE, place]
        if passed > budget:
            last = middle
        else:
            first = middle + 1
    for place in range(n):
        if sources[_CLOCK, place] == first and sources[_NOW, place] + sources[_BEFORE, place] > 0:
            return place
    return found

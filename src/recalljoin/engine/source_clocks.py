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
from recalljoin.engine.times import NEVER

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
        # Where the slowest source is looked for first: between two clocks; and the last front.
        self._guess = np.full(3, NEVER, dtype=np.int64)
        # Room for the search.
        self._places = np.empty(most + 1, dtype=np.int64)

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
            self._state, slowest, holder, self._guess, self._places,
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

    def furthest_behind(self, most: int) -> tuple[Int64s, Int64s]:
        """Numbers and clocks of the sources with the smallest clocks, the smallest first.

        Sources that share a clock are left out, and so are those that weigh nothing.
        """
        numbers, clocks, now, before = self._sources[:, 1 : int(self._state[_N])]
        (weighty,) = np.nonzero(now + before)
        first = weighty[np.lexsort((numbers[weighty], clocks[weighty]))[:most]]
        return numbers[first], clocks[first]

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
    guess: Int64s,
    places: Int64s,
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
        place = _slowest(sources, state[_N], spare, guess, places)
        if place >= 0:
            slowest[n] = sources[_CLOCK, place]
            holder[n] = sources[_ID, place]
            # In the next tick it has hardly moved on by more than twice as far as in this one.
            if fronts[n] != NEVER:
                step = max(fronts[n] - guess[2], 1) if guess[2] != NEVER else 1
                guess[0], guess[1] = slowest[n], slowest[n] + 2 * step
                guess[2] = fronts[n]


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
def _slowest(sources: Int64s, n: int, spare: float, guess: Int64s, places: Int64s) -> int:
    """Place of the first source that cannot be passed over, by clock; -1 if no source matters.

    Parameters
    ----------
    guess
        Two clocks between which that of the source is expected. If it is there, the sources are
        looked through once; wherever it is, it is found.
    places
        Room for the places of sources.
    """
    total, below, between, n_between = 0, 0, 0, 0
    for place in range(n):
        weight = sources[_NOW, place] + sources[_BEFORE, place]
        clock = sources[_CLOCK, place]
        total += weight
        if clock < guess[0]:
            below += weight
        elif clock <= guess[1] and weight > 0:
            between += weight
            places[n_between] = place
            n_between += 1
    if total == 0:
        return -1
    budget = min(int(spare * total), total - 1)
    if below <= budget < below + between:
        return _first_beyond(sources, budget - below, places, n_between)
    n_all = 0
    for place in range(n):
        if sources[_NOW, place] + sources[_BEFORE, place] > 0:
            places[n_all] = place
            n_all += 1
    return _first_beyond(sources, budget, places, n_all)


@lean
def _first_beyond(sources: Int64s, budget: int, places: Int64s, n: int) -> int:
    """Of some places, the first by clock up to which sources weigh more than a budget.

    The places are split by the clock of one of them, again and again, and the part that cannot have
    the source is left out: all steps together look at each place a few times. Among sources with
    the same clock it is the one with the smallest place.
    """
    begin, end = 0, n
    while True:
        clock = sources[_CLOCK, places[(begin + end) // 2]]
        # Before `low` clocks are smaller, from `high` on they are larger.
        low, high, at = begin, end, begin
        smaller, equal = 0, 0
        while at < high:
            place = places[at]
            weight = sources[_NOW, place] + sources[_BEFORE, place]
            if sources[_CLOCK, place] < clock:
                smaller += weight
                places[at], places[low] = places[low], place
                low += 1
                at += 1
            elif sources[_CLOCK, place] > clock:
                high -= 1
                places[at], places[high] = places[high], place
            else:
                equal += weight
                at += 1
        if smaller > budget:
            end = low
        elif smaller + equal > budget:
            first = places[low]
            for at in range(low, high):
                first = min(first, places[at])
            return int(first)
        else:
            budget -= smaller + equal
            begin = high

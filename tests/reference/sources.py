"""Clocks of the sources inside the streams, one dictionary each.

``docs/semantics.md``, "Sources".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.reference.model import MINUS_INFINITY, PLUS_INFINITY, Instant

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.reference.model import StreamTuple


class Sources:
    """Clocks and weights of all sources.

    Parameters
    ----------
    epoch
        A source without a tuple in two epochs is forgotten.
    spare
        Share of the weight that may be passed over.
    """

    def __init__(self, *, epoch: int, spare: float) -> None:
        self.epoch, self.spare = epoch, spare
        self.clocks: dict[int, int] = {}
        self.now: Counter[int] = Counter()
        self.before: Counter[int] = Counter()
        self.ends: Instant = MINUS_INFINITY

    def step(self, tuples: Collection[StreamTuple], front: Instant) -> Instant:
        """One tick: returns the clock of the slowest source that matters.

        ``front`` is the clock of the slowest stream after the tick.
        """
        for e in tuples:
            self.clocks[e.source] = max(self.clocks.get(e.source, e.ts), e.ts)
            self.now[e.source] += 1
        if front > MINUS_INFINITY:
            if front >= self.ends > MINUS_INFINITY:
                self.before, self.now = self.now, Counter()
                self.clocks = {s: t for s, t in self.clocks.items() if self.before[s]}
                self.ends = front + self.epoch
            elif self.ends == MINUS_INFINITY:
                self.ends = front + self.epoch
        weight = self.now + self.before
        left = int(self.spare * weight.total())
        for source in sorted(self.clocks, key=lambda s: self.clocks[s]):
            # Sources at the same time are passed over together, or not at all.
            clock = self.clocks[source]
            left_there = sum(weight[s] for s in weight if self.clocks[s] <= clock)
            if left_there > left:
                return clock
        return MINUS_INFINITY


def held_back(front: Instant, slowest: Instant, lead: Instant) -> Instant:
    """The base time that a tick would have on its own."""
    if slowest == MINUS_INFINITY or lead == PLUS_INFINITY:
        return front
    return min(front, slowest + lead)

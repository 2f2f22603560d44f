"""What delays alone say about K: enough before there are results to go by, and the most needed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile

ENOUGH_ARRIVALS = 100
"""Fewest tuples from which it can be said how late tuples are."""
SHORTEST_PART = 1 / 16
"""Smallest part of the time for which a delay is taken to have been visible."""


class LatestDelays:
    """The largest delay of tuples that arrived lately.

    While a stream is idle, or too many tuples wait for it, the base time goes on without it. When
    the stream returns, its tuples are late by that as well, however orderly they are.

    Parameters
    ----------
    horizon
        How long a tuple counts, by the largest timestamp of any stream. Where hardly any tuples
        arrive, the newest tuples count however old they are.
    """

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._stretches: deque[tuple[int, int, int]] = deque()
        self._first: int | None = None
        self.span = 0
        """Event time over which delays were seen: a larger delay could not have been seen."""
        # Base time after the last interval.
        self._base = NEVER

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        largest = profile.largest_delay + self._left_behind(profile)
        self._base = max(self._base, profile.base_time)
        if not profile.n_arrived:
            return
        clock = int(profile.ends.max())
        self._first = clock if self._first is None else self._first
        self.span = max(self.span, clock - self._first)
        self._stretches.append((clock, profile.n_arrived, largest))
        n_others = sum(n for _, n, _ in self._stretches) - self._stretches[0][1]
        while self._stretches[0][0] <= clock - self.horizon and n_others >= ENOUGH_ARRIVALS:
            self._stretches.popleft()
            n_others -= self._stretches[0][1]

    def _left_behind(self, profile: Profile) -> int:
        """How far the base time was ahead of any stream that has tuples now."""
        came = profile.delays.any(axis=1) & (profile.begins != NEVER)
        if self._base == NEVER or not came.any():
            return 0
        return max(0, self._base - int(profile.begins[came].min()))

    @property
    def largest(self) -> int | None:
        """The largest delay; None before enough tuples have arrived."""
        if sum(n for _, n, _ in self._stretches) < ENOUGH_ARRIVALS:
            return None
        return max(largest for _, _, largest in self._stretches)

    def snapshot(self) -> State:
        """Everything it remembers."""
        stretches = [list(stretch) for stretch in self._stretches]
        return {
            "stretches": stretches,
            "first": self._first,
            "span": self.span,
            "base": self._base,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._stretches = deque(tuple(stretch) for stretch in state["stretches"])
        self._first, self.span = state["first"], state["span"]
        # Earlier releases did not note the base time.
        self._base = state.get("base", NEVER)


class WaitByDelays:
    """The K with which all members of enough results are in time.

    A result is surely produced if each of its members arrives within K. If the delays of its
    members are independent, the share of results with all members in time is the product, over the
    streams, of the share of tuples that arrive within K. Results with a late member are produced as
    well if that member is not the last to be waited for, so this K is rather too large. It is known
    as soon as tuples have arrived, when results say little yet.

    K is counted from the slowest stream, and another stream may be ahead of it. A tuple that is
    behind such a stream, and yet not behind the slowest one, needs no wait. So delays count from
    the slowest stream.

    At first, long delays cannot have been seen. A delay of a minute takes a minute to be seen at
    all, so the shorter the time in which a delay could be seen, the more it counts. A K is trusted
    when delays were looked at for twice as long as K.

    Parameters
    ----------
    recall
        Γ, the recall wanted. Only half the loss it allows is used: periods differ from the average.
    """

    def __init__(self, recall: float) -> None:
        self.recall = 1 - (1 - recall) / 2
        self._delays: Float64s | None = None
        self._granularity = 1
        self._first: int | None = None
        # Base time after the last interval.
        self._base = NEVER
        self.clock_span = 0
        """Event time over which delays were seen: no delay can be larger than that yet."""
        self.k: int | None = None
        """The smallest K that is enough, in steps of the profiles' granularity; None at first."""

    @property
    def is_short(self) -> bool:
        """Whether delays were looked at for too short a time to trust this K."""
        return self.k is not None and self.k > self.clock_span // 2

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        delays = profile.delays
        clock = int(profile.ends.max())
        if clock != NEVER:
            self._first = clock if self._first is None else self._first
            self.clock_span = max(self.clock_span, clock - self._first)
        self._granularity = profile.granularity
        if self._delays is None:
            self._delays = np.zeros(delays.shape)
        missing = delays.shape[1] - self._delays.shape[1]
        if missing > 0:
            self._delays = np.pad(self._delays, ((0, 0), (0, missing)))
        for s, row in enumerate(delays if delays.shape[1] else ()):
            # Delays that are no larger than the lead are none.
            lead = min(self._lead(profile, s) // self._granularity, len(row) - 1)
            self._delays[s, 0] += row[: lead + 1].sum()
            self._delays[s, 1 : len(row) - lead] += row[lead + 1 :]
        self._base = max(self._base, profile.base_time)
        self.k = self._smallest(self._delays)

    def _lead(self, profile: Profile, s: int) -> int:
        """How far a stream was ahead of the slowest one, all through an interval."""
        begin, end = int(profile.begins[s]), int(profile.ends[s])
        if begin == FOREVER or NEVER in (begin, end, self._base, profile.base_time):
            return 0
        return max(0, min(begin - self._base, end - profile.base_time))

    def _smallest(self, delays: Float64s) -> int | None:
        if (delays.sum(axis=1) < ENOUGH_ARRIVALS).any():
            return None
        # For each delay, the part of the time in which a delay of this length could be seen.
        could_be = 1 - np.arange(delays.shape[1]) * self._granularity / max(1, self.clock_span)
        until = (delays / np.maximum(could_be, SHORTEST_PART)).cumsum(axis=1)
        in_time = (until / until[:, -1:]).prod(axis=0)
        return int(np.argmax(in_time >= self.recall - 1e-12)) * self._granularity

    def snapshot(self) -> State:
        """Everything it remembers."""
        delays = [] if self._delays is None else self._delays.tolist()
        return {
            "delays": delays,
            "granularity": self._granularity,
            "first": self._first,
            "base": self._base,
            "span": self.clock_span,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        # Earlier releases did not note the base time.
        self._base = state.get("base", NEVER)
        self._delays = np.array(state["delays"]) if state["delays"] else None
        self._granularity = state["granularity"]
        self._first, self.clock_span = state["first"], state["span"]
        self.k = None if self._delays is None else self._smallest(self._delays)

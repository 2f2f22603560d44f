"""What tuples beyond the retention horizon may have cost.

A tuple beyond the horizon came when its partners had been forgotten, so nobody can say which
results the tuple would have completed. Two things can be said. An *estimate*: if being late has
nothing to do with the key, the share of results that are known is the product, over the streams,
of the share of tuples that were not beyond the horizon. And a *bound*: every result that the tuple
completes has all its members near the tuple's own time.

    member of stream j     [ts - W_j ........ ts ........ ts + W_i]
                                              |
    the tuple, of stream i                    ts
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.tally import Tally

_MOST_PERIODS = 4096
"""How many periods of event time have their tuples counted."""
_BLOCKS = 32
"""Tuples are counted by arrival in this many blocks per period."""


@dataclass(frozen=True, eq=False)
class Running:
    """Running sums of a tally, from which any stretch of buckets can be counted."""

    keys: Int64s
    until: Float64s
    """``until[i]``: sum of the counts of the first ``i`` keys."""

    @classmethod
    def of(cls, tally: Tally, weights: Float64s | None = None) -> Running:
        """From a tally, with its counts replaced by ``weights`` if given."""
        until = np.zeros(len(tally.keys) + 1)
        np.cumsum(tally.counts if weights is None else weights, out=until[1:])
        return cls(tally.keys, until)

    def between(self, first: Int64s, last: Int64s) -> Float64s:
        """How many lie in the buckets from ``first`` to ``last``, for many stretches at once."""
        begin = np.searchsorted(self.keys, first, side="left")
        end = np.searchsorted(self.keys, last, side="right")
        return self.until[end] - self.until[begin]


def most_completed(
    beyond: Sequence[Tally],
    received: Sequence[Tally],
    *,
    windows: Sequence[int],
    bucket: int,
) -> list[Float64s]:
    """For each stream and bucket, the results its tuples beyond the horizon complete at most.

    A result with a tuple of stream i at ts has its members of stream j in [ts - W_j, ts + W_i]. So
    there are at most as many results as combinations of the tuples received in these ranges.

    Parameters
    ----------
    beyond, received
        Tuples beyond the horizon, and all tuples, of each stream by bucket of time.
    windows
        Window sizes.
    bucket
        Width of a bucket. Buckets at the edges count as a whole.
    """
    running = [Running.of(tally) for tally in received]
    found = []
    for i, late in enumerate(beyond):
        ts = late.keys * bucket
        product = late.counts.astype(np.float64)
        for j, others in enumerate(running):
            if j != i and len(ts):
                first = (ts - windows[j]) // bucket
                last = (ts + bucket - 1 + windows[i]) // bucket
                product *= others.between(first, last)
        found.append(product)
    return found


class BeyondShares:
    """For each stream the share of tuples that come beyond the horizon, going by recent tuples.

    The share among tuples that arrived lately is expected of future tuples as well. But when old
    tuples come in a burst, as from files that are read once more, nearly all arriving tuples are
    beyond the horizon. Compared with all tuples of the same event time they are few. So the
    expected share is at most the largest share that any period of event time has.

    Parameters
    ----------
    period
        Length of a period; tuples of the last two periods count as recent.
    m
        Number of streams.
    """

    def __init__(self, period: int, m: int) -> None:
        self.period, self.m = period, m
        self._lately: deque[tuple[int, Int64s, Float64s]] = deque()
        # By number of the period: for each stream, tuples received, and tuples beyond the horizon.
        self._by_time: dict[int, Int64s] = {}

    def observe(self, profile: Profile) -> None:
        """Take in a stretch of time."""
        clock = int(profile.ends.max())
        if clock == NEVER:
            return
        n = np.array([tally.total for tally in profile.received], dtype=np.int64)
        if self._lately and clock < self._lately[-1][0] + self.period // _BLOCKS:
            begin, before, unknown = self._lately.pop()
            self._lately.append((begin, before + n, unknown + profile.unknown))
        else:
            self._lately.append((clock, n, profile.unknown))
        while self._lately[0][0] <= clock - 2 * self.period:
            self._lately.popleft()
        for row, tallies in enumerate((profile.received, profile.beyond)):
            for s, tally in enumerate(tallies):
                numbers = tally.keys * profile.bucket // self.period
                for number in np.unique(numbers).tolist():
                    counts = self._by_time.setdefault(number, np.zeros((2, self.m), dtype=np.int64))
                    counts[row, s] += tally.counts[numbers == number].sum()
        if len(self._by_time) > _MOST_PERIODS:
            newest = sorted(self._by_time)[-_MOST_PERIODS:]
            self._by_time = {number: self._by_time[number] for number in newest}

    @property
    def shares(self) -> Float64s:
        """For each stream, the share of future tuples expected to come beyond the horizon."""
        if not any(unknown.any() for _, _, unknown in self._lately):
            return np.zeros(self.m)
        latest = self._lately[-1][0]
        # When tuples begin to come beyond the horizon, the last period shows it sooner than two.
        shares = np.maximum(self._since(latest - self.period), self._since(NEVER))
        received, beyond = np.array(list(self._by_time.values())).transpose(1, 2, 0)
        at_most: Float64s = (beyond / np.maximum(received, 1)).max(axis=1)
        return np.minimum(shares, at_most)

    def _since(self, clock: int) -> Float64s:
        """Shares among the tuples that arrived after some time."""
        n, unknown = np.zeros(self.m), np.zeros(self.m)
        for at, received, of_them in self._lately:
            if at > clock:
                n += received
                unknown += of_them
        shares: Float64s = unknown / np.maximum(n, 1)
        return shares

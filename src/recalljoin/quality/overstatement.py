"""By how much recall was overstated, as is known of periods that are over.

The estimate of recall allows for results that have not come to light yet. It goes by what came to
light before, and may be wrong. Some time later nearly all results of the same period are known.
Estimates of the last periods, each beside what became of it, say how wrong an estimate may be:

    estimate of the period up to now                 its results, as they are known later
    produced / (produced + lost + still to come)     produced / (produced + lost)

The *excess* is by what part the results of a period turned out to be more than was estimated. The
worst of n periods is exceeded by the next one with probability 1/(n + 1), so the worst of the last
20 is the *margin*: the recall of the newest period is at least the estimate divided by 1 + margin,
in 20 of 21 periods, as long as disorder changes no more than it did in these periods. While fewer
periods are over, the margin is up to three times the worst excess.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.quality.beyond_horizon import Running

if TYPE_CHECKING:
    from recalljoin.quality.tally import Tally

IN_A_PERIOD = 16
"""At most so many estimates of a period are remembered."""
PERIODS = 20
"""So many periods are remembered, once they are over."""
AT_MOST = 3.0
"""How many times the worst excess the margin is at most, while few periods are over."""
OVER = 3
"""Periods after which the results of a period are taken to be known, whatever the horizon."""
AT_FIRST = 2
"""Periods at the start whose estimates are not remembered: before late tuples have come, nothing
could be known of them."""
FEWEST = 3
"""With fewer excesses no margin is known."""


class _Estimate(NamedTuple):
    begin: int
    """The last bucket before the period."""
    end: int
    """The last bucket of the period."""
    true: float
    """Results of the period, as estimated."""
    known: int
    """Results of the period, as known by now."""


class Overstatement:
    """Remembers estimates, and compares them with what became of them.

    Parameters
    ----------
    length
        Length of a period, in buckets.
    """

    def __init__(self, length: int) -> None:
        self._length = max(1, length)
        self._open: deque[_Estimate] = deque()
        self._next: int | None = None
        self._excesses: deque[float] = deque(maxlen=PERIODS * IN_A_PERIOD)
        self._ends: deque[int] = deque(maxlen=PERIODS * IN_A_PERIOD)

    def lose(self, lost: Tally) -> None:
        """Count losses with the periods they belong to."""
        if not self._open or not len(lost.keys):
            return
        begins, ends = np.array([each[:2] for each in self._open], dtype=np.int64).T
        found = Running.of(lost).between(begins + 1, ends)
        self._open = deque(
            each._replace(known=each.known + int(more))
            for each, more in zip(self._open, found, strict=True)
        )

    def is_due(self, end: int) -> bool:
        """Whether an estimate of the period up to a bucket is to be remembered."""
        if self._next is None:
            self._next = end + AT_FIRST * self._length
        return end >= self._next

    def estimate(self, begin: int, end: int, *, true: float, known: int) -> None:
        """Remember an estimate: of a period, its results, of which some are known."""
        self._open.append(_Estimate(begin, end, true, known))
        self._next = end + -(-self._length // IN_A_PERIOD)

    def settle(self, join: int, counted_since: int) -> None:
        """Compare the estimates of periods whose results are known by now.

        Parameters
        ----------
        join
            The bucket that the join has come to.
        counted_since
            The bucket from which on losses are counted: none is found of earlier periods any more.
        """
        while self._open and self._open[0].end < max(counted_since, join - OVER * self._length):
            over = self._open.popleft()
            self._excesses.append(over.known / over.true - 1)
            self._ends.append(over.end)

    @property
    def margin(self) -> float | None:
        """The margin; None before a period's estimates are over."""
        if len(self._excesses) < FEWEST:
            return None
        n_periods = (self._ends[-1] - self._ends[0]) / self._length + 1 / IN_A_PERIOD
        # A batch may be longer than a period.
        n_periods = min(n_periods, len(self._ends))
        if n_periods < 1:
            return None
        return max(0.0, *self._excesses) * min(max(1.0, PERIODS / n_periods), AT_MOST)

"""The K that each period would have needed.

With the required slack of all results known, the recall a period would have had is a function of K
alone, and the smallest K that reaches the target is one number a period. Looked at after every
interval, these numbers say how K would have done in all the periods a user might measure: the K
that is enough for 97 % of them meets the target in 97 % of the measurements, as long as things stay
as they are.

They do not always. A need far above all that were seen, or a long run of needs far below what K is
chosen for, means that the disorder has changed; what was seen before is then forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.policy import State

SURGE = 2.0
"""A need this many times the largest one seen over stretches of the same length is a change."""
RELIEF = 3.0
"""Needs this many times smaller than those remembered are a change."""


class PeriodNeeds:
    """Needs of the periods seen, in steps of g.

    Parameters
    ----------
    recall
        Γ.
    n_intervals
        Intervals in a period.
    memory
        How many needs are remembered.
    """

    def __init__(self, *, recall: float, n_intervals: int, memory: int) -> None:
        self.recall = recall
        self.n_intervals = n_intervals
        self.n_short = max(1, n_intervals // 6)
        """Intervals after which a change is noticed."""
        self.needed: deque[int] = deque(maxlen=memory)
        self.short: deque[int] = deque(maxlen=memory)
        """The same for stretches of :attr:`n_short` intervals."""
        self._recent: deque[Int64s] = deque(maxlen=n_intervals)

    def observe(self, bins: Int64s) -> bool:
        """Take in an interval's slack histogram; return whether the disorder has changed."""
        self._recent.append(bins)
        changed = False
        short = self._need(self.n_short)
        if short is not None:
            if len(self.short) >= self.n_intervals and short > SURGE * max(1, *self.short):
                self._forget()
                changed = True
            self.short.append(short)
        need = self._need(self.n_intervals)
        if need is not None:
            self.needed.append(need)
        return self._relieved() or changed

    def enough_for(self, share: float) -> int:
        """The smallest K that would have done for a share of the periods; there must be one."""
        ordered = np.sort(np.fromiter(self.needed, dtype=np.int64))
        return int(ordered[min(len(ordered) - 1, int(np.ceil(share * len(ordered))) - 1)])

    def _need(self, n: int) -> int | None:
        """The K the last ``n`` intervals would have needed; None if they are not known or empty."""
        if len(self._recent) < n:
            return None
        last = list(self._recent)[-n:]
        total = np.zeros(max(len(bins) for bins in last))
        for bins in last:
            total[: len(bins)] += bins
        within = np.cumsum(total)
        if not within[-1]:
            return None
        return int(np.searchsorted(within, self.recall * within[-1]))

    def _relieved(self) -> bool:
        """Whether needs have fallen for good; if so, what was needed before is forgotten."""
        run = max(2, 5 * self.n_intervals // 6)
        if len(self.needed) < run + self.n_intervals:
            return False
        latest = list(self.needed)[-run:]
        if RELIEF * max(1, *latest) >= self.enough_for(0.9):
            return False
        self.needed.clear()
        self.needed.extend(latest)
        self.short.clear()
        return True

    def _forget(self) -> None:
        """A surge: only the intervals that showed it still count."""
        last = list(self._recent)[-self.n_short :]
        self._recent.clear()
        self._recent.extend(last)
        self.needed.clear()
        self.short.clear()

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "needed": list(self.needed),
            "short": list(self.short),
            "recent": [sparse(bins) for bins in self._recent],
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        for name in ("needed", "short"):
            remembered: deque[int] = getattr(self, name)
            remembered.clear()
            remembered.extend(state[name])
        self._recent.clear()
        self._recent.extend(unsparse(content) for content in state["recent"])


def sparse(bins: Int64s) -> State:
    """A histogram without its empty bins."""
    return {"bins": np.flatnonzero(bins).tolist(), "counts": bins[bins != 0].tolist()}


def unsparse(content: State) -> Int64s:
    """The histogram of :func:`sparse`."""
    bins = np.zeros(max(content["bins"], default=0) + 1, dtype=np.int64)
    bins[content["bins"]] = content["counts"]
    return bins

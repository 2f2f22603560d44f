"""The K that each stretch of time would have needed.

With the required slack of all results known, the recall of a stretch is a function of K alone, and
the smallest K that reaches the target is one number, the *need* of the stretch. A stretch ends with
every slot; the needs of all stretches together say how often any K would have reached the target.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.slack_by_time import SlackByTime

OPEN = 120
"""A stretch is looked at for the last time this many slots after its end: two periods, in which
nearly all losses have come to light."""


class Needs:
    """Needs of all stretches of one length, each a K.

    Parameters
    ----------
    recall
        Γ, the recall wanted.
    length
        Length of a stretch, in slots.
    memory
        How many stretches are remembered.
    """

    def __init__(self, *, recall: float, length: int, memory: int) -> None:
        self.recall, self.length = recall, length
        self.settled: deque[int] = deque(maxlen=memory)
        self.open: Int64s = np.empty(0, dtype=np.int64)
        """Needs of the newest stretches, computed again each time; -1 where there was no result."""
        self._since: int | None = None
        self._settled_until: int | None = None
        self._open_from = 0

    def update(self, slack: SlackByTime) -> None:
        """Compute the needs of stretches that may have changed, and of new stretches."""
        if slack.first is None:
            return
        first = slack.first if self._since is None else max(slack.first, self._since)
        # A stretch can be looked at only if all its slots are kept.
        begin = max(first, slack.oldest) + self.length - 1
        if self._settled_until is not None:
            begin = max(begin, self._settled_until + 1)
        # After a leap in time, the newest stretches from before it cannot be looked at again.
        gone = self.open[: max(0, begin - self._open_from)]
        self.settled.extend(need for need in gone.tolist() if need >= 0)
        needs = slack.needs(self.length, range(begin, slack.last + 1), recall=self.recall)
        n_settled = max(0, len(needs) - OPEN)
        if n_settled:
            self.settled.extend(need for need in needs[:n_settled].tolist() if need >= 0)
            self._settled_until = begin + n_settled - 1
        self.open = needs[n_settled:]
        self._open_from = begin + n_settled

    def learn(self, needs: Int64s) -> None:
        """Take over what stretches of an earlier run needed."""
        self.settled.extend(needs.tolist())

    @property
    def known(self) -> Int64s:
        """All needs remembered, oldest first."""
        settled = np.fromiter(self.settled, dtype=np.int64, count=len(self.settled))
        return np.concatenate((settled, self.open[self.open >= 0]))

    @property
    def n_known(self) -> int:
        """How many needs are remembered."""
        return len(self.settled) + int((self.open >= 0).sum())

    def latest(self, n: int) -> Int64s:
        """Needs of the newest ``n`` stretches, without stretches that had no result."""
        needs = self.open[len(self.open) - min(n, len(self.open)) :]
        return needs[needs >= 0]

    def one_after_another(self, n: int) -> Int64s | None:
        """Needs of the newest ``n`` stretches that do not overlap; None if not all are known."""
        needs = self.open[::-1][: 1 + self.length * (n - 1) : self.length]
        return needs if len(needs) == n and (needs >= 0).all() else None

    def forget_before(self, slot: int) -> None:
        """Forget the needs of stretches that begin before ``slot``."""
        self._since = slot
        self.settled.clear()
        self.open = np.empty(0, dtype=np.int64)

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "settled": list(self.settled),
            "open": self.open.tolist(),
            "since": self._since,
            "settled_until": self._settled_until,
            "open_from": self._open_from,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.settled.clear()
        self.settled.extend(state["settled"])
        self.open = np.array(state["open"], dtype=np.int64)
        self._since, self._settled_until = state["since"], state["settled_until"]
        self._open_from = state["open_from"]


def enough_for(needs: Int64s, share: float) -> int:
    """The smallest K that is enough for a share of the needs; there must be at least one need.

    Examples
    --------
    >>> enough_for(np.array([5, 1, 9, 2]), 0.75)
    5
    """
    ordered = np.sort(needs)
    return int(ordered[min(len(ordered) - 1, max(0, int(np.ceil(share * len(ordered))) - 1))])

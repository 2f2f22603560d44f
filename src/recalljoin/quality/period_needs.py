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
        self.recall, self.length, self.memory = recall, length, memory
        self.settled: deque[int] = deque(maxlen=memory)
        self.open: Int64s = np.empty(0, dtype=np.int64)
        """Needs of the newest stretches, computed again each time; -1 where there was no result."""
        self._since: int | None = None
        self._settled_until: int | None = None
        self._open_from = 0
        self._n_forgotten = 0
        # All needs in one array, which many ask for after every slot; None after a change.
        self._all: Int64s | None = None

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
        self._settle(gone)
        needs = slack.needs(self.length, range(begin, slack.last + 1), recall=self.recall)
        n_settled = max(0, len(needs) - OPEN)
        if n_settled:
            self._settle(needs[:n_settled])
            self._settled_until = begin + n_settled - 1
        self.open = needs[n_settled:]
        self._open_from = begin + n_settled
        self._all = None

    def learn(self, earlier: State) -> None:
        """Take over what stretches of an earlier run needed, from its snapshot."""
        # Earlier releases dropped what they forgot.
        self._n_forgotten = earlier.get("n_forgotten", 0)
        self._settle(np.array(earlier["settled"], dtype=np.int64))
        self._settle(np.array(earlier["open"], dtype=np.int64))

    def _settle(self, needs: Int64s) -> None:
        """Take in needs that are not computed again; the oldest leave a full memory."""
        known = needs[needs >= 0].tolist()
        n_leaving = max(0, len(self.settled) + len(known) - self.memory)
        self._n_forgotten = max(0, self._n_forgotten - n_leaving)
        self.settled.extend(known)
        self._all = None

    @property
    def remembered(self) -> Int64s:
        """All needs, oldest first, forgotten or not: what is no longer usual may come back."""
        if self._all is None:
            settled = np.fromiter(self.settled, dtype=np.int64, count=len(self.settled))
            self._all = np.concatenate((settled, self.open[self.open >= 0]))
        return self._all

    @property
    def known(self) -> Int64s:
        """All needs that are not forgotten, oldest first."""
        return self.remembered[self._n_forgotten :]

    @property
    def n_known(self) -> int:
        """How many needs are known."""
        return len(self.settled) - self._n_forgotten + int((self.open >= 0).sum())

    def latest(self, n: int) -> Int64s:
        """Needs of the newest ``n`` stretches, without stretches that had no result."""
        needs = self.open[len(self.open) - min(n, len(self.open)) :]
        return needs[needs >= 0]

    def one_after_another(self, n: int) -> Int64s | None:
        """Needs of the newest ``n`` stretches that do not overlap; None if not all are known."""
        needs = self.open[::-1][: 1 + self.length * (n - 1) : self.length]
        return needs if len(needs) == n and (needs >= 0).all() else None

    def forget_before(self, slot: int) -> None:
        """Forget the needs of stretches that begin before ``slot``; they are remembered only."""
        self._since = slot
        n_gone = max(0, slot + self.length - 1 - self._open_from)
        self._settle(self.open[:n_gone])
        self.open = self.open[n_gone:]
        self._open_from += n_gone
        self._n_forgotten = len(self.settled)

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "settled": list(self.settled),
            "open": self.open.tolist(),
            "since": self._since,
            "settled_until": self._settled_until,
            "open_from": self._open_from,
            "n_forgotten": self._n_forgotten,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.settled.clear()
        self.settled.extend(state["settled"])
        self.open = np.array(state["open"], dtype=np.int64)
        self._since, self._settled_until = state["since"], state["settled_until"]
        self._open_from = state["open_from"]
        self._n_forgotten = state.get("n_forgotten", 0)
        self._all = None


def enough_for(needs: Int64s, share: float) -> int:
    """The smallest K that is enough for a share of the needs; there must be at least one need.

    Examples
    --------
    >>> enough_for(np.array([5, 1, 9, 2]), 0.75)
    5
    """
    ordered = np.sort(needs)
    return int(ordered[min(len(ordered) - 1, max(0, int(np.ceil(share * len(ordered))) - 1))])

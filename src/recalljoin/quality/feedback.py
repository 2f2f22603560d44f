"""What is measured beats what is modelled: K is corrected by the recall that it gave.

A policy says what K was enough so far. If the measured recall is lower than expected, because the
future is not like the past or because the policy does not see everything, K is made larger than
the policy says, by two factors:

* the *margin* follows how often the target was missed. It grows with every period that misses the
  target and shrinks with every other one. So it settles where as many periods miss the target as
  are allowed to. It adds at most half of K.
* the *push* is for a target that stays missed. After half a period below the target, and while the
  newest results are below the target as well, K grows by half, again and again, until the recall
  is back or K is as large as the largest delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.delays import LatestDelays
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile

SLOTS = 60
"""Slots, parts of a period, in which results are counted."""
NEWEST = SLOTS // 6
"""Slots whose results count as the newest."""
MARGIN, GROWTH = 1.5, 0.04
"""Largest margin, and by how much of itself it grows in a 60th of a period that ends in a miss."""
MAY_MISS, MAY_MISS_MOST, MOST = 0.05, 0.1, 0.995
"""Share of the periods that may miss the target, and the recall above which it is the larger."""
PUSH = 1.5
"""Factor of one push."""
PUSH_AFTER = SLOTS // 2
"""K is pushed when recall was below the target for this many slots."""
PUSH_EVERY = NEWEST // 2
"""Slots between two pushes: results must first show what the last push has changed."""
LEAST = 0.002
"""A push begins from this part of the largest delay at least, so that K does not stay near 0."""


def may_miss(recall: float) -> float:
    """Share of the periods that may miss a target."""
    return MAY_MISS_MOST if recall > MOST else MAY_MISS


class Feedback:
    """Corrects the K of a policy by measured recall, and keeps it below the largest delay.

    Parameters
    ----------
    recall
        Γ, the share of results to be produced.
    period
        P, over which recall is measured.
    """

    def __init__(self, recall: float, period: int) -> None:
        self.recall, self.period = recall, period
        self.width = -(-period // SLOTS)
        self.margin, self.push = 1.0, 1.0
        self.latest_delays = LatestDelays(period)
        # Rings by number of the slot: results produced and lost.
        self._counts = np.zeros((2, 2 * SLOTS))
        self._first: int | None = None
        self._newest = NEVER
        self._judged = NEVER
        self._below_since: int | None = None
        self._pushed = NEVER

    def observe(self, profile: Profile, *, tells_delays: bool) -> None:
        """Take in an interval; its delays count only if ``tells_delays``."""
        if tells_delays:
            self.latest_delays.observe(profile)
        if not FOREVER > profile.join_time > NEVER:
            return
        newest = (profile.join_time + 1) // self.width - 1
        if self._first is None:
            self._first = self._newest = newest
        self._advance(newest)
        for row, tally in enumerate((profile.produced, profile.lost)):
            # Results from before all slots are counted in the oldest slot, results of a slot that
            # is not over yet in the newest: without them recall would seem better, or worse.
            slots = tally.keys * profile.bucket // self.width
            oldest = max(self._first, self._newest - self._counts.shape[1] + 1)
            places = np.clip(slots, oldest, self._newest) % self._counts.shape[1]
            np.add.at(self._counts[row], places, tally.counts)
        self._judge()

    def _advance(self, slot: int) -> None:
        if slot > self._newest:
            n = self._counts.shape[1]
            passed = min(slot - self._newest, n)
            self._counts[:, np.arange(slot - passed + 1, slot + 1) % n] = 0
            self._newest = slot

    def measured(self, n_slots: int) -> float | None:
        """Recall over the newest slots, by the losses found so far; None without any result."""
        if self._first is None:
            return None
        n_slots = min(n_slots, self._newest - self._first + 1)
        slots = np.arange(self._newest - n_slots + 1, self._newest + 1) % self._counts.shape[1]
        produced, lost = self._counts[:, slots].sum(axis=1)
        return float(produced / (produced + lost)) if produced + lost else None

    def _judge(self) -> None:
        """Judge the recall of the newest period, once a whole period has been seen."""
        assert self._first is not None
        n_new = self._newest - max(self._judged, self._first + SLOTS - 2)
        if n_new <= 0:
            return
        self._judged = self._newest
        recall = self.measured(SLOTS)
        if recall is None:
            return
        share = may_miss(self.recall)
        if recall >= self.recall:
            self._below_since = None
            self.push = max(1.0, self.push * PUSH ** (-n_new / PUSH_EVERY))
            shrinking = 1 - GROWTH * share / (1 - share)
            self.margin = max(1.0, self.margin * shrinking**n_new)
            return
        # After a night without tuples there are so many new slots that the power would overflow.
        self.margin = min(MARGIN, self.margin * (1 + GROWTH) ** min(n_new, SLOTS))
        if self._below_since is None:
            self._below_since = self._newest
        of_newest = self.measured(NEWEST)
        if (
            self._newest - self._below_since >= PUSH_AFTER
            and self._newest - self._pushed >= PUSH_EVERY
            and of_newest is not None
            and of_newest < self.recall
        ):
            self.push = min(self.push * PUSH, float(MAX_TIME))
            self._pushed = self._newest

    def corrected(self, k: int, kept: int = 0) -> int:
        """A policy's K, made larger if K was not enough, but no larger than the largest delay.

        ``kept`` is a K that is allowed whatever the largest delay: one for delays that are expected
        back.
        """
        largest = self.latest_delays.largest
        wanted = k * self.margin
        if self.push > 1:
            least = 0 if largest is None else LEAST * largest
            wanted = max(wanted, least, 1) * self.push
        # No result needs more slack than its latest member has delay.
        return round(wanted if largest is None else min(wanted, max(largest + 1, kept)))

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "margin": self.margin,
            "push": self.push,
            "latest_delays": self.latest_delays.snapshot(),
            "counts": self._counts.tolist(),
            "first": self._first,
            "newest": self._newest,
            "judged": self._judged,
            "below_since": self._below_since,
            "pushed": self._pushed,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.margin, self.push = state["margin"], state["push"]
        self.latest_delays.restore(state["latest_delays"])
        self._counts = np.array(state["counts"])
        self._first, self._newest = state["first"], state["newest"]
        self._judged, self._below_since = state["judged"], state["below_since"]
        self._pushed = state["pushed"]

"""Required slack of the results, by the time of the results.

An interval tells of two kinds of results: those just produced, which lie near the join time, and
those found lost, which may lie anywhere before it. Recall over a period is about the results *of*
the period, so the lost ones are put back to where they belong. Their slack tells where: it is the
base time at which the loss was found, less the time of the result.

    results by time     [ slot ][ slot ] ... [ slot ][ slot ]      a slot is a 60th of a period
    produced now                                      ======
    found lost now          ==     =            ==
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import compiled
from recalljoin.engine.disorder import FOREVER, NEVER
from recalljoin.quality.policy import Forecast

if TYPE_CHECKING:
    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Float64s, Profile

SLOTS_PER_PERIOD = 60
"""Finer slots would tell more of when results were lost, and nothing more of a period's recall."""

_EXACT, _GROWTH, _LARGEST = 200, 0.005, 1 << 40


def _make_steps() -> Int64s:
    steps = list(range(_EXACT + 1))
    while steps[-1] < _LARGEST:
        steps.append(steps[-1] + max(1, round(_GROWTH * steps[-1])))
    return np.array(steps, dtype=np.int64)


STEPS = _make_steps()
"""The K there are to choose from, in steps of g: all of them up to 200 g, then half a per cent
apart. What is kept of a slot, and the cost of looking at it, are thus small for any g and delay."""


def slot_width(period: int, granularity: int) -> int:
    """Length of a slot: a 60th of a period, rounded up to whole steps of g.

    So it is the same length of time in every unit, and so is what is learnt from it.

    Examples
    --------
    >>> slot_width(60_000, 10), slot_width(1000, 10), slot_width(1_000_000, 10_000)
    (1000, 20, 20000)
    """
    return -(-period // (SLOTS_PER_PERIOD * granularity)) * granularity


class SlackByTime:
    """Histograms of required slack, one for each of the newest slots of result time.

    Parameters
    ----------
    width
        Length of a slot, in the query's unit.
    granularity
        g.
    n_slots
        How many slots are kept. Losses of older results count in the oldest slot kept.
    """

    def __init__(self, *, width: int, granularity: int, n_slots: int) -> None:
        self.width, self.granularity, self.n_slots = width, granularity, n_slots
        self.first: int | None = None
        """Number of the first slot there is anything known of."""
        self.last = NEVER
        """Number of the newest slot that the join time has left behind."""
        self._base = NEVER
        # [slot modulo their number, place in STEPS]: results that need this K.
        self._results = np.zeros((n_slots, 1))
        self._newest = NEVER

    @property
    def oldest(self) -> int:
        """Number of the oldest slot kept."""
        assert self.first is not None
        return max(self.first, self._newest - self.n_slots + 1)

    def observe(self, profile: Profile) -> None:
        """Take in what an interval has shown."""
        produced, lost = profile.slack
        slots = profile.produced.keys * profile.bucket // self.width
        reached = slots[[0, -1]].tolist() if len(slots) else []
        if FOREVER > profile.join_time > NEVER:
            reached.append(profile.join_time // self.width)
        if not reached:
            return
        if self.first is None:
            self.first = self._newest = min(reached)
        self._advance(max(reached))
        self._add_produced(produced, slots, profile.produced.counts)
        self._add_lost(lost, profile.base_time)
        if FOREVER > profile.join_time > NEVER:
            self.last = max(self.last, (profile.join_time + 1) // self.width - 1)

    def _advance(self, slot: int) -> None:
        if slot > self._newest:
            passed = min(slot - self._newest, self.n_slots)
            self._results[np.arange(slot - passed + 1, slot + 1) % self.n_slots] = 0
            self._newest = slot

    def _add_produced(self, bins: Int64s, slots: Int64s, counts: Int64s) -> None:
        (used,) = np.nonzero(bins)
        if not len(used) or not len(slots):
            return
        # Usually one or two slots; how slack is spread is taken to be the same in each of them.
        places, n = np.unique(np.maximum(slots, self.oldest), return_inverse=True)
        shares = np.bincount(n, weights=counts) / counts.sum()
        needed = np.bincount(self._places(used), weights=bins[used])
        self._results[places % self.n_slots, : len(needed)] += np.outer(shares, needed)

    def _add_lost(self, bins: Int64s, base: int) -> None:
        if base in (NEVER, FOREVER):
            return
        before = base if self._base == NEVER else self._base
        self._base = base
        (used,) = np.nonzero(bins)
        if not len(used):
            return
        # Losses were found while the base time went from `before` to `base`.
        middle = before + (base - before) // 2
        ts = middle - (used - 1) * self.granularity
        slots = np.clip(ts // self.width, self.oldest, self._newest)
        places = self._places(used)
        np.add.at(self._results, (slots % self.n_slots, places), bins[used])

    def _places(self, bins: Int64s) -> Int64s:
        places = np.searchsorted(STEPS, bins)
        missing = int(places[-1]) + 1 - self._results.shape[1]
        if missing > 0:
            self._results = np.pad(self._results, ((0, 0), (0, missing)))
        return places

    def within(self, begin: int, end: int) -> Float64s:
        """How many results of slots ``begin`` to ``end`` each K of STEPS would have produced."""
        wanted = np.arange(begin, end + 1) % self.n_slots
        return np.cumsum(self._results[wanted].sum(axis=0))

    def forecast(self) -> Forecast | None:
        """Recall that each K would have had over the last period; None if it had no result."""
        if self.first is None or self.last < self.oldest:
            return None
        begin = max(self.oldest, self.last - SLOTS_PER_PERIOD + 1)
        within = self.within(begin, self.last)
        if within[-1] < 0.5:
            return None
        return Forecast(STEPS[: len(within)] * self.granularity, within / within[-1])

    def needs(self, n: int, ends: range, *, recall: float) -> Int64s:
        """The K, in steps of g, that stretches of ``n`` slots needed to reach a recall.

        ``ends`` are the numbers of their last slots. Where there was no result, -1.
        """
        places = np.empty(len(ends), dtype=np.int64)
        if len(ends):
            _first_enough(self._results, n, ends[0], recall, places)
        return np.where(places >= 0, STEPS[places], -1)

    def snapshot(self) -> State:
        """Everything it remembers."""
        slots, places = np.nonzero(self._results)
        return {
            "first": self.first,
            "last": self.last,
            "newest": self._newest,
            "base": self._base,
            "slots": slots.tolist(),
            "places": places.tolist(),
            "results": self._results[slots, places].tolist(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.first, self.last = state["first"], state["last"]
        self._newest, self._base = state["newest"], state["base"]
        self._results = np.zeros((self.n_slots, 1 + max(state["places"], default=0)))
        self._results[state["slots"], state["places"]] = state["results"]


@compiled
def _first_enough(results: Float64s, n: int, end: int, recall: float, out: Int64s) -> None:
    """For stretches of ``n`` slots, the first of which ends with slot ``end``, where they reach it.

    One stretch is the one before it, and a slot more and a slot less.
    """
    n_slots, width = results.shape
    stretch = np.zeros(width)
    for slot in range(end - n + 1, end):
        stretch += results[slot % n_slots]
    for i in range(len(out)):
        newest, total = results[(end + i) % n_slots], 0.0
        for place in range(width):
            stretch[place] += newest[place]
            total += stretch[place]
        # Shares of results are added and taken away: what is left of none is a rounding error.
        # Nor must such an error make a need one step larger.
        wanted, reached, at = (recall - 1e-12) * total, 0.0, -1
        if total > 0.5:
            for place in range(width):
                reached += stretch[place]
                if reached >= wanted:
                    at = place
                    break
        out[i] = at
        oldest = results[(end + i - n + 1) % n_slots]
        for place in range(width):
            stretch[place] -= oldest[place]

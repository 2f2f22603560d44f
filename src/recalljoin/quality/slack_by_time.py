"""Required slack of the results, by the time of the results.

An interval tells of two kinds of results: results just produced, whose times are near the join
time, and results found to be lost, whose times may be anywhere before the join time. Recall over a
period is about the results *of* the period, so each lost result is counted at its own time. Its
required slack tells that time: the slack is the base time at which the loss was found, less the
time of the result.

    results by time     [ slot ][ slot ] ... [ slot ][ slot ]      a slot is a 60th of a period
    produced now                                      ======
    found lost now          ==     =            ==

A loss that is found so late that nobody looks at its slot any more is counted in the newest slot.
There it says as much about the K that would have been enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import compiled
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.policy import Forecast

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile

BLOCK = 32
"""Bins that are summed up together."""
SLOTS_PER_PERIOD = 60
"""Finer slots would tell more of when results were lost, and nothing more of a period's recall."""


def slot_width(period: int) -> int:
    """Length of a slot: a 60th of a period, rounded up to whole units of time.

    Examples
    --------
    >>> slot_width(60_000), slot_width(1000), slot_width(1)
    (1000, 17, 1)
    """
    return -(-period // SLOTS_PER_PERIOD)


class SlackByTime:
    """Histograms of required slack, one for each of the newest slots of result time.

    Parameters
    ----------
    width
        Length of a slot, in the query's unit.
    n_slots
        How many slots are kept.
    n_open
        How many of the newest slots are still looked at. Losses of older results count in the
        newest slot.
    """

    def __init__(self, *, width: int, n_slots: int, n_open: int) -> None:
        self.width, self.n_slots, self.n_open = width, n_slots, n_open
        self.first: int | None = None
        """Number of the first slot with any results."""
        self.last = NEVER
        """Number of the newest slot that the join time has left behind."""
        self._base = NEVER
        # [slot number modulo number of slots, bin]: results by the slack they require.
        self._results = np.zeros((n_slots, BLOCK))
        # [the same, block of bins]: sums over blocks, so that not every bin must be looked at.
        self._blocks = np.zeros((n_slots, 1))
        # Slots whose produced results say nothing about slack: losses alone would ask for too much.
        self._left_out = np.zeros(n_slots, dtype=np.bool_)
        self._newest = NEVER

    @property
    def oldest(self) -> int:
        """Number of the oldest slot kept."""
        assert self.first is not None
        return max(self.first, self._newest - self.n_slots + 1)

    def observe(
        self, profile: Profile, *, unseen: Float64s | None = None, tells_delays: bool = True
    ) -> None:
        """Take in what an interval has shown.

        Parameters
        ----------
        profile
            The profile of the interval.
        unseen
            Estimated losses that nobody could count, by required slack.
        tells_delays
            Whether the slack of the produced results means anything; if not, their slots are left
            out, together with losses found in these slots later.
        """
        produced, lost = profile.slack
        if unseen is not None:
            lost = _sum_of(lost, unseen)
        slots = profile.produced.keys * profile.bucket // self.width
        reached = slots[[0, -1]].tolist() if len(slots) else []
        if FOREVER > profile.join_time > NEVER:
            reached.append(profile.join_time // self.width)
        if not reached:
            return
        if self.first is None:
            self.first = self._newest = min(reached)
        self._advance(max(reached))
        self._widen(max(len(produced), len(lost)))
        if tells_delays:
            self._add_produced(produced, slots, profile.produced.counts)
        else:
            self._left_out[np.maximum(slots, self.oldest) % self.n_slots] = True
        self._add_lost(lost, profile.base_time, profile.tick_span)
        self._results[self._left_out] = 0
        self._blocks[self._left_out] = 0
        if FOREVER > profile.join_time > NEVER:
            self.last = max(self.last, (profile.join_time + 1) // self.width - 1)

    def _advance(self, slot: int) -> None:
        if slot > self._newest:
            passed = min(slot - self._newest, self.n_slots)
            reused = np.arange(slot - passed + 1, slot + 1) % self.n_slots
            self._results[reused] = 0
            self._blocks[reused] = 0
            self._left_out[reused] = False
            self._newest = slot

    def _widen(self, n_bins: int) -> None:
        missing = -(-n_bins // BLOCK) - self._blocks.shape[1]
        if missing > 0:
            self._results = np.pad(self._results, ((0, 0), (0, missing * BLOCK)))
            self._blocks = np.pad(self._blocks, ((0, 0), (0, missing)))

    def _sum_up(self, places: Int64s) -> None:
        bins = self._results[places]
        self._blocks[places] = bins.reshape(len(places), -1, BLOCK).sum(axis=2)

    def _add_produced(self, bins: Int64s, slots: Int64s, counts: Int64s) -> None:
        if not bins.any() or counts.sum() <= 0:
            return
        # Usually one or two slots; the slack is taken to be spread in the same way in each slot.
        places, n = np.unique(np.maximum(slots, self.oldest), return_inverse=True)
        shares = np.bincount(n, weights=counts) / counts.sum()
        places %= self.n_slots
        self._results[places, : len(bins)] += np.outer(shares, bins)
        self._sum_up(places)

    def _add_lost(self, bins: Int64s | Float64s, base: int, tick_span: int) -> None:
        if base in (NEVER, FOREVER):
            return
        before = base if self._base == NEVER else self._base
        self._base = base
        (used,) = np.nonzero(bins)
        if not len(used):
            return
        # Losses were found while the base time went from `before` to `base`; the losses of a tick
        # were found at the base time before the tick.
        middle = before + max(0, base - before - tick_span) // 2
        # The smallest slack of a bin is the K that is enough for the bin before it.
        ts = middle - ENOUGH[np.maximum(used - 1, 0)]
        slots = np.minimum(ts // self.width, self._newest)
        open_ones = slots > max(self.oldest - 1, self._newest - self.n_open)
        places = np.where(open_ones, slots, self._newest) % self.n_slots
        np.add.at(self._results, (places, used), bins[used])
        self._sum_up(np.unique(places))

    def within(self, begin: int, end: int) -> Float64s:
        """How many results of slots ``begin`` to ``end`` each K of ENOUGH would have produced."""
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
        return Forecast(ENOUGH[: len(within)], within / within[-1])

    def needs(self, n: int, ends: range, *, recall: float) -> Int64s:
        """The K that stretches of ``n`` slots needed to reach a recall.

        ``ends`` are the numbers of the last slots of the stretches. The need of a stretch without
        results is -1.
        """
        places = np.empty(len(ends), dtype=np.int64)
        if len(ends):
            _first_enough(self._results, self._blocks, n, ends[0], recall, places)
        return np.where(places >= 0, ENOUGH[places], -1)

    def snapshot(self) -> State:
        """Everything it remembers."""
        slots, bins = np.nonzero(self._results)
        return {
            "first": self.first,
            "last": self.last,
            "newest": self._newest,
            "base": self._base,
            "slots": slots.tolist(),
            "bins": bins.tolist(),
            "results": self._results[slots, bins].tolist(),
            "left_out": np.flatnonzero(self._left_out).tolist(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.first, self.last = state["first"], state["last"]
        self._newest, self._base = state["newest"], state["base"]
        self._results, self._blocks = np.zeros((self.n_slots, BLOCK)), np.zeros((self.n_slots, 1))
        self._widen(1 + max(state["bins"], default=0))
        self._results[state["slots"], state["bins"]] = state["results"]
        self._sum_up(np.arange(self.n_slots))
        self._left_out[:] = False
        self._left_out[state["left_out"]] = True


def _sum_of(one: Int64s, other: Float64s) -> Float64s:
    """Two histograms of any lengths, added."""
    total = np.zeros(max(len(one), len(other)))
    total[: len(one)] += one
    total[: len(other)] += other
    return total


@compiled
def _first_enough(  # noqa: PLR0917 - a kernel takes its arrays one by one
    results: Float64s, blocks: Float64s, n: int, end: int, recall: float, out: Int64s
) -> None:
    """The bin at which each stretch of ``n`` slots reaches the recall; the first ends at ``end``.

    Whole blocks of bins are looked at first, and single bins only in the block that matters.
    """
    n_slots, n_blocks = blocks.shape
    by_block, by_bin = np.empty(n_blocks), np.empty(BLOCK)
    for i in range(len(out)):
        out[i] = -1
        slots = [slot % n_slots for slot in range(end + i - n + 1, end + i + 1)]
        by_block[:] = 0.0
        for slot in slots:
            by_block += blocks[slot]
        total = by_block.sum()
        # Results are whole; less than half of one is none.
        if total < 0.5:
            continue
        # Sums of fractions are not exact, and a rounding error must not make a need one bin larger.
        # The sum over a block's bins may differ from the block's stored sum in the same way.
        wanted, block, before = (recall - 1e-12) * total, 0, 0.0
        while before + by_block[block] < wanted:
            before += by_block[block]
            block += 1
        by_bin[:] = 0.0
        for slot in slots:
            by_bin += results[slot, block * BLOCK : (block + 1) * BLOCK]
        at = 0
        while at < BLOCK - 1 and before + by_bin[at] < wanted - 1e-12 * total:
            before += by_bin[at]
            at += 1
        out[i] = block * BLOCK + at

"""Chooses the lead: how far the base time may be ahead of the slowest source.

With a small lead the join stands still as soon as a source falls silent, and little slack is needed
besides; with a large one it stands still for long silences only; with an endless one it waits for
no source. How long it stands still follows from the clocks of sources alone. The slack that a lead
needs besides is modelled from tuples: a late tuple loses the results that it would have completed.

From a high recall on, single silences decide, and to stand still is an insurance against the next
one. Then the slack is that of the worst period remembered, K is never below it, and of the leads
with nearly the shortest wait the smallest is taken. Below a high recall a silent source is seldom
worth waiting for, and sources are waited for only where that makes the wait much shorter.

An insurance must be cheap or pay off: where sources are irregular, a silence says little. Then K
alone is the insurance, and while few periods are remembered it covers worse ones. The largest of n
bursts is exceeded by the next one with probability 1/(n + 1). Where sizes of bursts have the heavy
tail of Zipf's law, the size exceeded with probability p is 1/(p (n + 1)) times the largest one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.compiled import lean
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.feedback import may_miss
from recalljoin.quality.period_needs import enough_for
from recalljoin.quality.source_lags import PER_OCTAVE, ROW, bins_of, lengths_of
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

STRETCHES = 6
"""Stretches in a period, after each of which the lead is chosen."""
MEMORY = 20 * STRETCHES
"""Stretches that are remembered."""
HIGH = 0.99
"""A high recall: from here on single silences decide."""
NEARLY, OF_PERIOD = 1.1, 1 / 3000
"""At a high recall a wait is nearly the shortest if it is at most so many times as long, or longer
by this part of a period: 20 ms of a minute."""
FAIR = 0.5
"""To stand still for longer is worth it only if the wait becomes this part of what it would be
without sources. If it costs little, so many periods must need this part of their slack at most."""
USUAL, MUCH = 0.9, 0.25
"""Below a high recall the slack is what was enough for this share of the periods, and sources are
waited for if the wait becomes this part of what it is."""
CHANGE = 1.25
"""A lead is kept until another one is so many times as large, or as small."""
PATIENCE = 3
"""Sources that are further apart than ever are waited for over so many periods at most, backlogs
not counted."""
MOST_LEADS = 32
"""Leads that are compared."""


class Leads:
    """Finds the lead.

    Parameters
    ----------
    settings
        Recall, period and windows.
    """

    def __init__(self, settings: PolicySettings) -> None:
        self.recall, self.windows = settings.recall, settings.windows
        self.is_high = settings.recall >= HIGH
        self.takes_leads = settings.takes_leads
        self.little = OF_PERIOD * settings.period
        self.width = -(-settings.period // STRETCHES)
        self.period = settings.period
        self.lead = FOREVER
        """The lead in force; FOREVER: sources are not waited for."""
        self.slack = 0
        """The smallest K that covers what is insured; 0 below a high recall."""
        self.is_apart = False
        """Whether sources are further apart than ever, in a backlog or by more than a period."""
        self._stretches: deque[tuple[int, Tally, Tally]] = deque(maxlen=MEMORY)
        self._open: tuple[int, Tally, Tally] = (0, Tally.empty(), Tally.empty())
        self._ends = NEVER
        self._is_due = False
        self._apart_since = NEVER

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        if not len(profile.gaps.keys):
            return
        clock = int(profile.ends.max())
        if self._ends == NEVER:
            # The first stretch is left out: while sources are new, nobody sees that one is silent.
            self._ends = clock + 2 * self.width
        if clock < self._ends - self.width:
            return
        n, lags, gaps = self._open
        self._open = (n + profile.n_arrived, lags + profile.lags, gaps + profile.gaps)
        if clock >= self._ends:
            self._stretches.append(self._open)
            self._open = (0, Tally.empty(), Tally.empty())
            self._ends = clock + self.width
            self._is_due = True

    def look(self, profile: Profile, *, is_backlog: bool) -> None:
        """See whether sources run apart, as partitions of a backlog do after a stop.

        That is no delay to learn from, and whoever reads a backlog waits for its slowest part.
        They run apart until the slowest source is as close as it has been before; if it has not
        come closer for some periods, that is usual from now on.
        """
        if not len(profile.gaps.keys):
            return
        known = [gaps.keys.max(initial=0) for _, _, gaps in self._stretches]
        usual = max(known) if known else bins_of(np.array([self.width]))[0]
        far = 0 if is_backlog or self.is_apart else self._far
        self.is_apart = bool(profile.gaps.keys.max() > max(usual + PER_OCTAVE // 2, far))
        clock = int(profile.ends.max())
        if not self.is_apart or is_backlog:
            self._apart_since = clock
        elif clock - self._apart_since > PATIENCE * self.period:
            self.is_apart = False

    def choose(self, needs: Int64s) -> int:
        """Choose the lead.

        ``needs`` are the slacks that periods needed with the lead in force, as results have shown.
        """
        if not self._is_due or not self.takes_leads:
            return self.lead
        self._is_due = False
        leads, needed, standing, unseen = self.modelled()
        share = 1.0 if self.is_high else USUAL
        waits = standing + np.array([enough_for(each, share) for each in needed])
        if self.is_high:
            # Where sources are irregular, their silence means nothing: to stand still costs much,
            # and a lead for which it costs little is of no use.
            helped = (needed <= FAIR * needed[-1]) | (needed[-1] <= self.little)
            fair = (standing <= self.little) & (helped.mean(axis=1) >= FAIR)
            fair |= waits <= FAIR * waits[-1]
            fair[-1] = True
            shortest = waits[fair].min()
            nearly = max(NEARLY * shortest, shortest + self.little)
            self._take(float(leads[np.argmax(fair & (waits <= nearly))]))
            is_waited_for = self.lead < FOREVER
            in_force = np.argmin(np.abs(leads - self.lead))
            self.slack = int(needed[in_force].max()) if is_waited_for else unseen
        elif self.lead < FOREVER:
            if waits[-1] < waits[:-1].min(initial=np.inf):
                self._take(np.inf)
        elif len(needs) and waits.min() < MUCH * min(waits[-1], enough_for(needs, USUAL)):
            self._take(float(leads[np.argmin(waits)]))
        return self.lead

    def _take(self, lead: float) -> None:
        if not self.lead / CHANGE < lead < self.lead * CHANGE:
            self.lead = FOREVER if np.isinf(lead) else round(lead)

    def modelled(self) -> tuple[Float64s, Int64s, Float64s, int]:
        """Leads, the slack that each period needs with each, and how long the join stands still.

        The last lead is endless. The last number is the slack that covers, with an endless lead,
        periods worse than those remembered.
        """
        gaps = Tally.sum_of([gaps for _, _, gaps in self._stretches])
        lags = Tally.sum_of([lags for _, lags, _ in self._stretches])
        lengths = lengths_of(gaps.keys)
        leads = np.append(_thinned(lengths), np.inf)
        source, own = lengths_of(lags.keys // ROW), lengths_of(lags.keys % ROW)
        periods, n_tuples = self._periods(lags.keys)
        slacks = np.append(0.0, lengths_of(np.arange((lags.keys % ROW).max(initial=0) + 1)) + 1)
        needed = np.zeros((len(leads), len(n_tuples)), dtype=np.int64)
        # With the largest slack nothing is lost.
        allowed = (1 - self.recall) * n_tuples
        for at, lead in enumerate(leads):
            lost = self._lost(own - np.maximum(source - lead, 0), periods, slacks)
            needed[at] = slacks[np.argmax(lost <= allowed, axis=0)]
        covers = self._larger * self._lost(own, periods, slacks) <= allowed
        unseen = int(slacks[np.argmax(covers, axis=0)].max())
        standing = np.maximum(lengths - leads[:, np.newaxis], 0) @ gaps.counts / gaps.total
        return leads, needed, standing, unseen

    @property
    def _far(self) -> float:
        """Bin of the distance at which sources run apart although no backlog is read.

        To fall silent is no sign of a backlog. Who does not wait for silent sources does not wait
        for those that are silent for long either.
        """
        return float(bins_of(np.array([self.period]))[0]) if self.takes_leads else np.inf

    @property
    def _larger(self) -> float:
        """How many times as much as any period remembered the next one may lose."""
        n_periods = len(self._stretches) / STRETCHES
        return max(1.0, 1 / (may_miss(self.recall) * (n_periods + 1)))

    def _periods(self, keys: Int64s) -> tuple[Float64s, Float64s]:
        """For each period that ends with a stretch, in columns: tuples by key, and their number."""
        columns = np.zeros((len(keys), len(self._stretches)))
        for at, (_, lags, _) in enumerate(self._stretches):
            columns[np.searchsorted(keys, lags.keys), at] = lags.counts
        n = np.array([n for n, _, _ in self._stretches], dtype=np.float64)
        sums = np.cumsum(np.hstack((np.zeros((len(keys), 1)), columns)), axis=1)
        totals = np.cumsum(np.append(0.0, n))
        length = min(STRETCHES, len(n))
        return sums[:, length:] - sums[:, :-length], np.maximum(
            totals[length:] - totals[:-length], 1
        )

    def _lost(self, late: Float64s, periods: Float64s, slacks: Float64s) -> Float64s:
        """What each slack loses in each period, as a multiple of all results over all tuples.

        A tuple that the watermark has passed by ``late`` is still met by tuples that come later
        within its window. It loses what it would have triggered itself, and what triggers before
        the watermark would have made of it: from the first, a part that grows with how late it is,
        up to all of them when it is later than a window.
        """
        m = len(self.windows)
        window = max(1.0, sum(self.windows) / m)
        # The latest tuples first.
        order = np.argsort(-late, kind="stable")
        early = -late[order]
        begin = np.searchsorted(early, -slacks, side="right")
        full = np.searchsorted(early, -(slacks + window), side="right")
        ends = np.sort(np.concatenate((begin, full)))
        n, sums = found = np.empty((2, len(ends), periods.shape[1]))
        _add_up(periods, order, late, ends, found)
        begin, full = np.searchsorted(ends, begin), np.searchsorted(ends, full)
        between = sums[begin] - sums[full] - slacks[:, np.newaxis] * (n[begin] - n[full])
        lost: Float64s = n[begin] + (m - 1) * (n[full] + between / window)
        return lost

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "lead": self.lead,
            "slack": self.slack,
            "ends": self._ends,
            "is_due": self._is_due,
            "is_apart": self.is_apart,
            "apart_since": self._apart_since,
            "stretches": [_to_json(each) for each in (*self._stretches, self._open)],
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.lead, self._ends, self._is_due = state["lead"], state["ends"], state["is_due"]
        # What an earlier release has learnt says nothing of sources that run apart, and of slack.
        self.slack = state.get("slack", 0)
        self.is_apart = state.get("is_apart", False)
        self._apart_since = state.get("apart_since", NEVER)
        *stretches, self._open = (_from_json(each) for each in state["stretches"])
        self._stretches = deque(stretches, maxlen=MEMORY)


@lean
def _add_up(counts: Float64s, order: Int64s, late: Float64s, ends: Int64s, found: Float64s) -> None:
    """Of the rows before each end, in an order: their sum, and that of how late they are in all."""
    at = 0
    for j in range(len(ends)):
        for column in range(counts.shape[1]):
            found[0, j, column] = found[0, j - 1, column] if j else 0.0
            found[1, j, column] = found[1, j - 1, column] if j else 0.0
        while at < ends[j]:
            row = order[at]
            for column in range(counts.shape[1]):
                found[0, j, column] += counts[row, column]
                found[1, j, column] += counts[row, column] * late[row]
            at += 1


def _thinned(lengths: Float64s) -> Float64s:
    """Some of the lengths, evenly spread over them."""
    if len(lengths) <= MOST_LEADS:
        return lengths
    chosen: Float64s = lengths[np.linspace(0, len(lengths) - 1, MOST_LEADS).astype(np.int64)]
    return chosen


def _to_json(stretch: tuple[int, Tally, Tally]) -> list[Any]:
    n, lags, gaps = stretch
    return [n, lags.to_json(), gaps.to_json()]


def _from_json(content: list[Any]) -> tuple[int, Tally, Tally]:
    n, lags, gaps = content
    return n, Tally.from_json(lags), Tally.from_json(gaps)

"""How many of the results of some age have come to light.

A result is known of, produced or lost, once its last member has arrived. That is when the base
time has gone beyond its own time by the slack it requires. So of results of some age, those that
require less slack than that are known, and the histogram of required slack says what share of
all that is.

Where tuples arrive in ticks, results come to light at the end of a tick, and all of some time have
the same age then. What is missing at this age is what ticks find at this age, at this age and one
tick, and so on:

    results found, by slack     | . .
                                |  .   .
                                |_____._____.____________.___
    missing at age a                a     a + T      a + 2 T

Where ticks are short, that is everything found beyond a. Where they are long, most results come
with the tick they belong to, and only those near its end may be missing, but then many of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.slack_bins import ENOUGH, N_BINS
from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile


SHORTEST = 1 / 16
"""A bin that could be found for a shorter part of the time than this counts as if it was this long:
from so little, no rate can be told."""
_TICKS = 4
"""Ticks of which it matters at what age they find results."""
_PART = 1 / 16
"""Results of one age are those within this part of a tick, if many results are known."""
_PLENTY = 512
"""With fewer results than this, all results within a whole tick count as being of one age: what
single results say about single ages is chance."""


class Shown:
    """The share of results known of, by their age; goes by the results found lately.

    How many results of some slack were found depends on how long they could be: none that require
    a minute are found in the first minute, nor as long as the horizon is shorter than that. So
    every bin has an *exposure*, the time in which its results would have been found, and counts
    by its rate.

    Parameters
    ----------
    memory
        How long a result counts for half, by the base time. Shorter follows changes sooner.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._results = np.zeros(N_BINS)
        self._exposure = np.zeros(N_BINS)
        # Found since the base time last moved: they count when it moves on, and time has passed.
        self._waiting = np.zeros(N_BINS)
        self._n_ticks = 0.0
        self._base = self._first = NEVER

    def observe(self, profile: Profile) -> None:
        """Take in a stretch of time."""
        base = profile.base_time
        if base in (NEVER, FOREVER):
            return
        if self._base == NEVER:
            oldest = profile.produced.keys[:1] * profile.bucket
            self._first = self._base = min(base - 1, int(oldest.min(initial=base)))
        found = profile.slack.sum(axis=0)
        self._waiting[: len(found)] += found
        advance = base - self._base
        if advance <= 0:
            return
        self._base = base
        left = 0.5 ** (advance / self.memory)
        self._results *= left
        self._exposure *= left
        self._n_ticks *= left
        self._n_ticks += advance / max(1, profile.tick_span)
        self._results += self._waiting
        self._waiting[:] = 0
        # Losses are counted of results from here on, as far as there were any. One that requires
        # some slack is found when the base time is so much further.
        since = max(self._first, profile.counted_since)
        self._exposure += np.clip(max(0, base - since) - ENOUGH, 0, advance)

    def share(self, age: Int64s) -> Float64s:
        """Share of the results of some age that is known by now; 1 where nothing was found."""
        if self._results.sum() < 1:
            return np.ones(len(age))
        exposure = np.maximum(self._exposure, SHORTEST * self._exposure[0])
        until = np.cumsum(self._results / np.maximum(exposure, 1))
        # Results of a bin are all known at the age that would be slack enough for each.
        until /= until[-1]
        tick = self._exposure[0] / self._n_ticks
        part = max(1.0, tick * min(1.0, max(_PART, _PLENTY / self._results.sum())))
        missing = 1 - np.interp(age + _TICKS * tick, ENOUGH, until)
        for n in range(_TICKS):
            begin = age + n * tick
            found = np.interp(begin + part, ENOUGH, until) - np.interp(begin, ENOUGH, until)
            missing += tick / part * found
        # A delay that many tuples share may lie between the ages looked at. Without a look at all
        # later ages together it would not be missed, and recall would seem better than it is.
        missing = np.maximum(missing, 1 - np.interp(age, ENOUGH, until))
        # What was never seen may still be: no share is taken for nothing.
        share: Float64s = np.maximum(1 - missing, 1 / (1 + self._results.sum()))
        return share

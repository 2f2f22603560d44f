"""What share of the results of some age has come to light.

A result is known, as produced or lost, once its last member has arrived. That is when the base time
has gone beyond the result's time by the slack that the result requires. The *age* of a result is
how far the base time is beyond the result's time. So a result of some age is known if it requires
less slack than the age, and the histogram of required slack says what share of all results is.

Where tuples arrive in ticks, results come to light at the end of a tick, and all results of one
time have the same age then. The results missing at age a are found by later ticks at the ages a,
a + T, a + 2 T and so on, where T is the length of a tick:

    results found, by slack     | . .
                                |  .   .
                                |_____._____.____________.___
    missing at age a                a     a + T      a + 2 T

Where ticks are short, that is everything found beyond a. Where ticks are long, most results come
with the tick of their own time; only results near the end of the tick may be missing, but then
many may be.
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
"""Smallest part of the time for which results of a bin are taken to have been visible: from a
shorter part, no rate can be told."""
_TICKS = 4
"""How many ticks are looked at one by one, each at its own age; later ticks are taken together."""
_PART = 1 / 16
"""If many results are known, results count as being of one age within this part of a tick."""
_PLENTY = 512
"""With fewer results than this, all results within a whole tick count as being of one age: what
single results say about single ages is chance."""


class Shown:
    """The share of results that are known, by their age, going by the results found lately.

    How many results of some slack were found depends on how long they could be found: results that
    require a minute of slack are not found in the first minute, nor while the horizon is shorter
    than a minute. So every bin has an *exposure*, the time in which its results would have been
    found, and the bin counts by its rate: results per time of exposure.

    Parameters
    ----------
    memory
        Base time after which a result counts for half. A shorter memory follows changes sooner.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._results = np.zeros(N_BINS)
        self._exposure = np.zeros(N_BINS)
        # Results found since the base time last moved; they fade once the base time moves on.
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
        # Losses are counted for results from this time on. A result that requires some slack is
        # found when the base time is that much beyond the result's time.
        since = max(self._first, profile.counted_since)
        self._exposure += np.clip(max(0, base - since) - ENOUGH, 0, advance)

    def share(self, age: Int64s) -> Float64s:
        """Share of the results of each age that is known by now; 1 where nothing was found."""
        exposure = np.maximum(self._exposure, SHORTEST * self._exposure[0])
        # While the base time stands still, results of the past that need more slack still come: of
        # each bin as many as belong to a time as long as the slack. More than these count at once.
        # There may be many of them: a tuple of each stream whose time is far ahead makes all others
        # late, and no time passes.
        to_come = self._results / np.maximum(exposure, 1) * ENOUGH
        results = self._results + np.maximum(0, self._waiting - to_come)
        if results.sum() < 1:
            return np.ones(len(age))
        until = np.cumsum(results / np.maximum(exposure, 1))
        # All results of a bin are known at the age that is as large as the bin's largest slack.
        until /= until[-1]
        tick = self._exposure[0] / self._n_ticks
        part = max(1.0, tick * min(1.0, max(_PART, _PLENTY / results.sum())))
        missing = 1 - np.interp(age + _TICKS * tick, ENOUGH, until)
        for n in range(_TICKS):
            begin = age + n * tick
            found = np.interp(begin + part, ENOUGH, until) - np.interp(begin, ENOUGH, until)
            missing += tick / part * found
        # A delay that many tuples share may lie between the ages looked at. So the results found
        # at all later ages together are looked at as well; or recall would seem too good.
        missing = np.maximum(missing, 1 - np.interp(age, ENOUGH, until))
        # Results may be known although none was ever seen at this age: no share is taken to be 0.
        share: Float64s = np.maximum(1 - missing, 1 / (1 + results.sum()))
        return share

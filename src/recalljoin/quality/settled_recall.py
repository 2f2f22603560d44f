"""Recall of periods that are over, from everything that was logged during and after the period.

While the join runs, what is known of a period grows: losses are found, and tuples come that nobody
waited for. Whoever reads the whole log afterwards knows all losses, and measures the recall of
every period, whichever moment it ends at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.beyond_horizon import Running, most_completed
from recalljoin.quality.recall import MOSTLY
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile

_FEW = 1 << 14
"""Up to so many ends of periods, all are looked at; if there are more, only ends where a count
changes."""


class Recalls(NamedTuple):
    """Recall over several periods; not a number where there was no result to measure it by."""

    recall: Float64s
    """Estimated recall."""
    at_least: Float64s
    at_most: Float64s


class Lowest(NamedTuple):
    """The lowest recall of several periods; None where there was no result to measure it by."""

    recall: float | None
    at_least: float | None
    at_most: float | None


class SettledRecall:
    """Counts of a whole run, by the time of results and tuples.

    Parameters
    ----------
    profiles
        The profiles of the whole run, all with the same buckets.
    period
        P, in the query's unit.
    windows
        Window sizes of the streams.
    """

    def __init__(self, profiles: Sequence[Profile], *, period: int, windows: Sequence[int]) -> None:
        self.bucket = bucket = profiles[0].bucket
        self._length = max(1, period // bucket)
        self._windows = windows
        m = len(windows)
        counted = [Tally.sum_of([each.produced for each in profiles])]
        counted.append(Tally.sum_of([each.lost for each in profiles]))
        received = [Tally.sum_of([each.received[s] for each in profiles]) for s in range(m)]
        beyond = [Tally.sum_of([each.beyond[s] for each in profiles]) for s in range(m)]
        self._produced, self._lost = map(Running.of, counted)
        self._received, self._beyond = ([*map(Running.of, each)] for each in (received, beyond))
        completed = most_completed(beyond, received, windows=windows, bucket=bucket)
        self._completed = [Running.of(*pair) for pair in zip(beyond, completed, strict=True)]
        # Where the horizon is shorter than the window, some results of a tuple beyond it are known.
        n_beyond = np.array([tally.total for tally in beyond])
        unknown = sum((each.unknown for each in profiles), start=np.zeros(m))
        self._weight = unknown / np.maximum(n_beyond, 1)
        self._keys = np.unique(np.concatenate([tally.keys for tally in (*counted, *beyond)]))

    def at(self, ends: Int64s) -> Recalls:
        """Recall over the periods that end with the buckets ``ends``."""
        first = ends - self._length + 1
        produced = self._produced.between(first, ends)
        counted = produced + self._lost.between(first, ends)
        unknown = np.zeros(len(ends))
        known = np.ones(len(ends))
        for s, window in enumerate(self._windows):
            # A tuple may have results up to a window later.
            earlier = first - (window + self.bucket - 1) // self.bucket
            unknown += self._completed[s].between(earlier, ends)
            received = self._received[s].between(earlier, ends)
            beyond = self._beyond[s].between(earlier, ends)
            known *= 1 - self._weight[s] * beyond / np.maximum(received, 1)
        at_least, at_most = (_ratio(produced, true) for true in (counted + unknown, counted))
        recall = np.maximum(at_most * known, at_least)
        # No result is known, because most results have a member beyond the horizon.
        recall[(counted == 0) & (unknown > 0) & (known < MOSTLY)] = 0.0
        return Recalls(recall, at_least, at_most)

    def lowest(self, after: int, upto: int) -> Lowest:
        """The lowest recall of any period that ended between two join times.

        Parameters
        ----------
        after
            Periods that had ended by then do not count.
        upto
            Periods that end later do not count.
        """
        ends = self._ends(after, upto)
        values = self.at(ends) if len(ends) else Recalls(*(np.empty(0),) * 3)
        return Lowest(*(_lowest(each) for each in values))

    def _ends(self, after: int, upto: int) -> Int64s:
        if not len(self._keys):
            return self._keys
        first, newest = int(self._keys[0]), int(self._keys[-1]) + self._length
        # At the end of the input, the last period is the one up to the last result.
        last = newest - self._length if upto == FOREVER else min(self._complete(upto), newest)
        before = first - 1
        if after != NEVER:
            before = newest if after == FOREVER else max(before, self._complete(after))
        # Until the first period is over, the longest part of it counts: a short part has few
        # results.
        before = max(before, min(first + self._length - 1, last) - 1)
        if last - before <= _FEW:
            return np.arange(before + 1, last + 1)
        changes = np.concatenate((self._keys, self._keys + self._length, [before + 1, last]))
        return np.unique(changes[(changes > before) & (changes <= last)])

    def _complete(self, time: int) -> int:
        """The last bucket that is over at ``time``."""
        return (time + 1) // self.bucket - 1 if time != NEVER else int(self._keys[0]) - 1


def _ratio(part: Float64s, whole: Float64s) -> Float64s:
    ratio = np.full(len(part), np.nan)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _lowest(values: Float64s) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else None

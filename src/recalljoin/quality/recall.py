"""Recall as measured: produced results over true ones, by the time of the results.

While the join runs, a true result is of one of four kinds: produced; counted as lost; unknown,
because a tuple came beyond the retention horizon; or still without its last member. The last two
kinds can only be estimated. Afterwards, or in an evaluation, the true results may be known from a
run that waited for everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import NEVER
from recalljoin.quality.beyond_horizon import BeyondShares, most_completed
from recalljoin.quality.overstatement import Overstatement
from recalljoin.quality.recent_counts import RecentCounts
from recalljoin.quality.share_known import Shown
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile


MOSTLY = 0.5
"""Where less than this share of a period's results is usually known by now, to know none does not
mean that there was none. What the join time has passed without producing it is lost."""
MEMORY = 3
"""Periods after which a result's required slack counts for half."""


def ratio(produced: float, true: float) -> float | None:
    """Recall: produced over true; None when nothing is true."""
    return produced / true if true else None


def fulfilment(recalls: Sequence[float] | Float64s, target: float) -> float:
    """Φ: the share of recall measurements that are not below ``target``; 1 of none.

    Examples
    --------
    >>> fulfilment([0.9, 0.95, 1.0, 0.97], 0.95)
    0.75
    """
    values = np.asarray(recalls, dtype=np.float64)
    return float((values >= target).mean()) if len(values) else 1.0


@dataclass(frozen=True)
class Measurement:
    """Recall over one period, as far as it is known.

    Attributes
    ----------
    until
        Last time of the period.
    produced, lost
        Results of the period that were counted.
    unknown
        Upper bound of the results that tuples beyond the retention horizon have completed and that
        were not counted; infinite where no bound is known.
    recall
        An estimate of what the recall of the period is going to be. None where there was no
        result.
    margin
        By what part the results of a period may be more than estimated; None if not known.
    """

    until: int
    produced: int
    lost: int
    unknown: float = 0.0
    recall: float | None = None
    margin: float | None = 0.0

    @property
    def at_most(self) -> float | None:
        """Produced over produced and lost: the recall, if tuples beyond the horizon cost nothing.

        Tuples still to come may lower it.
        """
        if self.unknown == np.inf:
            return 1.0
        return ratio(self.produced, self.produced + self.lost)

    @property
    def at_least(self) -> float | None:
        """The recall, if tuples beyond the horizon cost as much as they can; 0 if not known.

        Nor is it above what the estimate :attr:`recall` leaves when as many more results are lost
        with tuples still to come as with 19 of 20 estimates before.
        """
        if self.unknown == np.inf or (self.margin is None and self.recall is not None):
            return 0.0
        bound = ratio(self.produced, self.produced + self.lost + self.unknown)
        if bound is None or self.recall is None or self.margin is None:
            return bound
        return min(bound, self.recall / (1 + self.margin))


class RecallMeter:
    """Measures recall over the last period while the join runs.

    Counts near the join time are provisional: members may still come late, and then more results
    will be counted as lost. The estimate allows for that: it goes by the share of results that have
    come to light at each age, and by how many tuples come beyond the retention horizon. How wrong
    that may be is told by earlier estimates, of periods that are over.

    Parameters
    ----------
    period
        P, in the query's unit.
    windows
        Window sizes of the streams.
    bucket
        Width of the buckets of result time, a multiple of the profiles' bucket. Periods are cut
        at whole buckets.
    known_since
        Tuples with times before this one may have been received before the meter began.
    """

    def __init__(
        self, *, period: int, windows: Sequence[int], bucket: int = 1, known_since: int = NEVER
    ) -> None:
        self.period, self.windows, self.bucket = period, tuple(windows), bucket
        self._known_since = known_since
        self._m = m = len(self.windows)
        # The bound looks at tuples up to two windows before the period.
        n_kept = (period + 2 * max(self.windows)) // bucket + 4
        # By bucket: results produced and lost, tuples received and beyond the horizon for each
        # stream.
        self._counts = RecentCounts(2 + 2 * m, n_kept)
        # Last bucket with a tuple beyond the horizon.
        self._last_beyond = NEVER
        # Losses found since the base time last moved.
        self._new_losses = Tally.empty()
        self._shown = Shown(MEMORY * period)
        self._overstated = Overstatement(period // bucket)
        self._beyond = BeyondShares(period, m)
        self.join_time = self.base_time = NEVER

    def observe(self, profile: Profile) -> None:
        """Take in what a stretch of time has shown."""
        assert self.bucket % profile.bucket == 0, "profiles are cut into other buckets"
        tallies = (profile.produced, profile.lost, *profile.received, *profile.beyond)
        coarser = self.bucket // profile.bucket
        for row, tally in enumerate(_coarser(tally, coarser) for tally in tallies):
            self._counts.add(row, tally)
            if row >= 2 + self._m and len(tally.keys):
                self._last_beyond = max(self._last_beyond, int(tally.keys[-1]))
        if profile.base_time > self.base_time:
            self._new_losses = Tally.empty()
        else:
            self._new_losses += _coarser(profile.lost, coarser)
        self._shown.observe(profile)
        self._beyond.observe(profile)
        self.base_time = max(self.base_time, profile.base_time)
        if profile.join_time != NEVER:
            self.join_time = max(self.join_time, profile.join_time)
            self._counts.advance(self.join_time // self.bucket)
            self._look_back(profile)

    def _look_back(self, profile: Profile) -> None:
        """See what became of earlier estimates, and remember what is estimated now."""
        begin, end = self._period
        self._overstated.lose(_coarser(profile.lost, self.bucket // profile.bucket))
        since = profile.counted_since // self.bucket if profile.counted_since > NEVER else NEVER
        self._overstated.settle(end, since)
        if self._overstated.is_due(end):
            produced, lost, true, _ = self._estimated()
            if produced + lost:
                self._overstated.estimate(begin, end, true=true, known=produced + lost)

    @property
    def _period(self) -> tuple[int, int]:
        """The last bucket before the last period, and the last bucket of it."""
        return (self.join_time - self.period) // self.bucket, self.join_time // self.bucket

    def measure(self) -> Measurement:
        """Recall over the last period up to the join time."""
        until = self.join_time
        if until == NEVER:
            return Measurement(NEVER, 0, 0)
        produced, lost, true, share = self._estimated()
        recall = ratio(float(produced), true)
        within = float((1 - self._beyond.shares).prod())
        if recall is not None:
            recall *= within
        elif share * within < MOSTLY:
            recall = 0.0
        unknown = self._unknown(*self._period)
        return Measurement(until, produced, lost, unknown, recall, self._overstated.margin)

    def _estimated(self) -> tuple[int, int, float, float]:
        """Of the last period: results produced, lost, and true as estimated; the share known."""
        until = self.join_time
        begin, end = self._period
        slots = np.arange(begin + 1, end + 1)
        produced, lost = self._counts.between(begin + 1, end)[:2]
        # The youngest result of a slot; the period ends within its last one.
        youngest = np.minimum((slots + 1) * self.bucket - 1, until)
        # While a stream is silent the base time stands still, and so does the age of results.
        # Losses found meanwhile are results that were not known at that age.
        known = produced + lost
        new = (self._new_losses.keys > begin) & (self._new_losses.keys <= end)
        known[self._new_losses.keys[new] - begin - 1] -= self._new_losses.counts[new]
        shares = self._shown.share(self.base_time - youngest)
        n_produced, n_lost = int(produced.sum()), int(lost.sum())
        true = max(float((known / shares).sum()), float(n_produced + n_lost))
        # A period may be shorter than a bucket.
        return n_produced, n_lost, true, float(shares.mean()) if len(shares) else 1.0

    def _unknown(self, begin: int, end: int) -> float:
        """Upper bound of the results completed beyond the horizon, after bucket ``begin``."""
        reach = 2 * max(self.windows) // self.bucket + 2
        if (begin - reach) * self.bucket < self._known_since:
            return np.inf
        if self._last_beyond < self._counts.oldest:
            return 0.0
        tallies = [self._counts.row(row) for row in range(2, 2 + 2 * self._m)]
        received, beyond = tallies[: self._m], tallies[self._m :]
        completed = most_completed(beyond, received, windows=self.windows, bucket=self.bucket)
        unknown = 0.0
        for window, tally, most in zip(self.windows, beyond, completed, strict=True):
            latest = (tally.keys * self.bucket + self.bucket - 1 + window) // self.bucket
            unknown += float(most[(latest > begin) & (tally.keys <= end)].sum())
        return unknown


def _coarser(tally: Tally, factor: int) -> Tally:
    """The same counts in buckets that are ``factor`` times as wide."""
    return tally if factor == 1 else Tally.of(tally.keys, tally.counts, bucket=factor)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Results by their time, to be counted over any stretch of time.

    Parameters
    ----------
    ts
        Times in order, repeats allowed.
    until
        ``until[i]`` is the number of results at the first ``i`` times.
    """

    ts: Int64s
    until: Int64s

    @classmethod
    def of(cls, ts: Int64s, n: Int64s) -> Timeline:
        """``n`` results at each of the times ``ts``, which may be in any order."""
        if (ts[1:] < ts[:-1]).any():
            order = np.argsort(ts, kind="stable")
            ts, n = ts[order], n[order]
        return cls(ts, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(n))))

    @property
    def total(self) -> int:
        """All results."""
        return int(self.until[-1])

    def count(self, after: Int64s, upto: Int64s) -> Int64s:
        """Results with a time in ``(after, upto]``, for many stretches at once."""
        begin = np.searchsorted(self.ts, after, side="right")
        end = np.searchsorted(self.ts, upto, side="right")
        return self.until[end] - self.until[begin]


def recall_against(
    truth: Timeline, *, produced: Timeline, n_seen: Int64s, join_time: Int64s, period: int
) -> Float64s:
    """Recall over the last period at several moments, against known true results.

    Parameters
    ----------
    truth
        All true results.
    produced
        Results in the order in which they were produced, which is the order of their times.
    n_seen
        At each moment, how many of the times in ``produced`` had been produced.
    join_time
        At each moment, how far the join had come.
    period
        P, the length of a period.
    """
    after = join_time - period
    begin = np.searchsorted(produced.ts, after, side="right")
    found = produced.until[n_seen] - produced.until[np.minimum(begin, n_seen)]
    true = truth.count(after, join_time)
    return np.where(true > 0, found / np.maximum(true, 1), 1.0)

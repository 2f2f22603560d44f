"""Recall as measured: produced results over true ones, by the time of the results.

While the join runs, the true results are those produced and those counted as lost. Afterwards, or
in an evaluation, they may be known from a run that waited for everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.disorder import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Float64s, Profile
    from recalljoin.quality.tally import Tally


def share(produced: int, true: int) -> float:
    """Recall: produced over true, and 1 when nothing is true."""
    return produced / true if true else 1.0


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
    """Recall over one period, counted.

    Attributes
    ----------
    until
        The period ends here, and includes it.
    produced, lost
        Results of the period.
    n_beyond
        Late tuples of the period, or just before, whose losses are not known because they came
        after the retention horizon.
    at_most_each
        Results one such tuple may have cost, going by the most productive tuple there was.
    """

    until: int
    produced: int
    lost: int
    n_beyond: int = 0
    at_most_each: int = 0

    @property
    def recall(self) -> float:
        """Produced over produced and lost."""
        return share(self.produced, self.produced + self.lost)

    @property
    def lowest_recall(self) -> float:
        """What the recall may be if every tuple beyond the horizon cost as much as any could."""
        unknown = self.n_beyond * self.at_most_each
        return share(self.produced, self.produced + self.lost + unknown)


class RecallMeter:
    """Measures recall over the last period while the join runs.

    Results near the join time are provisional: members may still come late, and then more will be
    counted as lost. A result is settled once no late tuple can change its count.

    Parameters
    ----------
    period
        P, in the query's unit.
    settling
        How long after its time a result is settled: the retention horizon, since losses with
        tuples from before it are not counted.
    reach
        How long before its results a tuple may lie: the largest window.
    bucket
        Width of the profiles' buckets by time. Periods are cut at whole buckets.
    """

    def __init__(self, *, period: int, settling: int, reach: int, bucket: int = 1) -> None:
        self.period, self.settling, self.reach, self.bucket = period, settling, reach, bucket
        self._n = (period + max(settling, reach)) // bucket + 2
        # Rings by bucket number: produced, lost, tuples beyond the horizon.
        self._counts = np.zeros((3, self._n), dtype=np.int64)
        self._newest = NEVER
        self._most = 0
        self.join_time = NEVER
        self.n_settled_lost = 0
        """Losses found too late for any period, if the retention horizon allows that at all."""

    def observe(self, profile: Profile) -> None:
        """Take in what a stretch of time has shown."""
        assert profile.bucket == self.bucket, "profiles are cut into other buckets"
        self._most = max(self._most, profile.largest_join)
        for row, tally in enumerate((profile.produced, profile.lost, profile.beyond)):
            self._count(row, tally)
        if profile.join_time != NEVER:
            self.join_time = max(self.join_time, profile.join_time)
            # At the end of input the join time is plus infinity; nothing follows it.
            self._advance(self.join_time // self.bucket)

    def _count(self, row: int, tally: Tally) -> None:
        if not len(tally.keys):
            return
        self._advance(int(tally.keys[-1]))
        kept = tally.keys > self._newest - self._n
        # Keys of one tally differ, and so do their places within one turn of the ring.
        self._counts[row, tally.keys[kept] % self._n] += tally.counts[kept]
        if row == 1:
            self.n_settled_lost += int(tally.counts[~kept].sum())

    def _advance(self, key: int) -> None:
        if key <= self._newest:
            return
        if self._newest == NEVER or key - self._newest >= self._n:
            self._counts[:] = 0
        else:
            self._counts[:, np.arange(self._newest + 1, key + 1) % self._n] = 0
        self._newest = key

    def _sum(self, row: int, begin: int, end: int) -> int:
        """Counts of the buckets after ``begin``, up to ``end``."""
        begin = max(begin, self._newest - self._n)
        if end <= begin:
            return 0
        first, last = (begin + 1) % self._n, end % self._n
        counts = self._counts[row]
        if first <= last:
            return int(counts[first : last + 1].sum())
        return int(counts[first:].sum() + counts[: last + 1].sum())

    def measure(self) -> Measurement:
        """Recall over the last period up to the join time: provisional."""
        return self.measure_until(self.join_time)

    def measure_settled(self) -> Measurement:
        """Recall over the last period of which no result can change any more."""
        return self.measure_until(self.join_time - self.settling)

    def measure_until(self, until: int) -> Measurement:
        """Recall over the period that ends at ``until``, as known now."""
        if self.join_time == NEVER:
            return Measurement(NEVER, 0, 0)
        end = until // self.bucket
        begin = (until - self.period) // self.bucket
        return Measurement(
            until,
            produced=self._sum(0, begin, end),
            lost=self._sum(1, begin, end),
            n_beyond=self._sum(2, begin - self.reach // self.bucket, end),
            at_most_each=self._most,
        )

    def snapshot(self) -> State:
        """Everything it remembers."""
        used = np.flatnonzero(self._counts.any(axis=0))
        return {
            "places": used.tolist(),
            "counts": self._counts[:, used].tolist(),
            "newest": self._newest,
            "most": self._most,
            "join_time": self.join_time,
            "n_settled_lost": self.n_settled_lost,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._counts[:] = 0
        self._counts[:, state["places"]] = np.array(state["counts"], dtype=np.int64).reshape(3, -1)
        self._newest, self._most = state["newest"], state["most"]
        self.join_time, self.n_settled_lost = state["join_time"], state["n_settled_lost"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Results by their time, to be counted over any stretch of it.

    Parameters
    ----------
    ts
        Times in order, repeats allowed.
    until
        ``until[i]`` results have come with the first ``i`` times.
    """

    ts: Int64s
    until: Int64s

    @classmethod
    def of(cls, ts: Int64s, n: Int64s) -> Timeline:
        """Results of times ``ts``, in any order, ``n`` of each."""
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
        Results in the order they were produced, which is that of their time.
    n_seen
        At each moment, how many times of ``produced`` were there.
    join_time
        At each moment, how far the join had come.
    period
        P.
    """
    after = join_time - period
    begin = np.searchsorted(produced.ts, after, side="right")
    found = produced.until[n_seen] - produced.until[np.minimum(begin, n_seen)]
    true = truth.count(after, join_time)
    return np.where(true > 0, found / np.maximum(true, 1), 1.0)

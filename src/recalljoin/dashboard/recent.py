"""What the last periods of a join have shown: delays, required slack, and what other waits give."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import FOREVER
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.spark.clocks import Clock
    from recalljoin.spark.report import Report

N_BINS: Final = 64
"""Bins of a histogram: none, up to one unit of time, up to 2, 4, 8 and so on."""
_PERIODS: Final = 10
"""Histograms are about this many periods."""
_MOST_POINTS: Final = 240
"""Most points of the curve of recall over K."""


class _Batch(NamedTuple):
    """What is kept of a batch while it counts."""

    watermark: int
    delays: Int64s
    """``[stream, bin]``: tuples by delay."""
    lost: Int64s
    """By bin, lost results by the slack they required."""


class Recent:
    """Adds up what the reports of the last periods say."""

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()
        self._slack: SlackByTime | None = None

    def observe(self, report: Report) -> None:
        """Take in a batch."""
        profile = report.profile
        steps = np.arange(profile.delays.shape[1]) * profile.granularity
        delays = np.stack([_doubling(steps, row) for row in profile.delays])
        # The smallest slack of a bin is the K that is enough for the bin before it.
        slack = ENOUGH[np.maximum(np.arange(profile.slack.shape[1]) - 1, 0)]
        lost = _doubling(slack, profile.slack[1])
        self._batches.append(_Batch(report.watermark, delays, lost))
        if report.watermark != FOREVER:
            oldest = report.watermark - _PERIODS * report.period
            while self._batches[0].watermark < oldest:
                self._batches.popleft()
        width = slot_width(report.period)
        if self._slack is None or self._slack.width != width:
            self._slack = SlackByTime(
                width=width, n_slots=2 * SLOTS_PER_PERIOD, n_open=2 * SLOTS_PER_PERIOD
            )
        self._slack.observe(profile)

    def delays(self, clock: Clock) -> dict[str, Any]:
        """Tuples of each stream by delay: upper bounds of the bins in seconds, and counts."""
        return _shown(sum((each.delays for each in self._batches), start=_none(1)), clock)

    def lost(self, clock: Clock) -> dict[str, Any]:
        """Lost results by the wait that they would have needed, likewise."""
        return _shown(sum((each.lost[np.newaxis] for each in self._batches), start=_none(1)), clock)

    def forecast(self, clock: Clock) -> dict[str, list[float]] | None:
        """The recall that each K, in seconds, would have given; None if nothing is known."""
        found = None if self._slack is None else self._slack.forecast()
        if found is None:
            return None
        # Where the curve is flat, its ends are enough.
        changes = np.flatnonzero(np.diff(found.recall, prepend=-1.0, append=2.0)[:-1])
        if len(changes) > _MOST_POINTS:
            places = np.linspace(0, len(changes) - 1, _MOST_POINTS).astype(np.int64)
            changes = changes[places]
        seconds = [clock.ms(k) / 1000 for k in found.k[changes].tolist()]
        return {"k": seconds, "recall": found.recall[changes].tolist()}


def _none(m: int) -> Int64s:
    return np.zeros((m, N_BINS), dtype=np.int64)


def _doubling(lengths: Int64s, counts: Int64s) -> Int64s:
    """Counts of lengths of time in bins that double: none, up to 1, up to 2, up to 4, ..."""
    (some,) = np.nonzero(counts)
    bins = np.zeros(len(some), dtype=np.int64)
    long = lengths[some] > 0
    bins[long] = 1 + np.ceil(np.log2(lengths[some][long].astype(np.float64))).astype(np.int64)
    total = np.zeros(N_BINS, dtype=np.int64)
    np.add.at(total, np.minimum(bins, N_BINS - 1), counts[some])
    return total


def _shown(counts: Int64s, clock: Clock) -> dict[str, Any]:
    """A histogram without the empty bins at its two ends; the bin of no delay is always there."""
    (used,) = np.nonzero(counts.sum(axis=0))
    later = used[used > 0]
    bounds: Float64s = np.concatenate((np.zeros(1), 2.0 ** np.arange(N_BINS - 1)))
    kept = [0, *range(later[0], later[-1] + 1)] if len(later) else [0]
    return {
        "upto": [clock.ms(bounds[b]) / 1000 for b in kept],
        "counts": counts[:, kept].tolist(),
    }

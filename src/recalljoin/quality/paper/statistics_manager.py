"""Statistics Manager: delays, implicit buffering and rates of raw streams (paper, Sec. IV-A)."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.quality.paper.adaptive_window import AdaptiveWindow
from recalljoin.quality.profile import coarse_delay
from recalljoin.quality.profiling import UNKNOWN

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.profiling import Arrived

MAX_WIDTH = 1 << 20
"""Most tuples that the statistics of a stream look back on, even if nothing has changed."""
_GOLDEN = (5**0.5 - 1) / 2
# Rows of the array of tuples in StreamStatistics.
_COARSE, _K_SYNC, _LOCAL = range(3)


class StreamStatistics:
    """R_stat of one stream: the recent tuples, as far back as delays have not changed.

    Parameters
    ----------
    window
        Decides how many recent tuples count.
    max_width
        Most tuples that count.
    """

    def __init__(self, window: AdaptiveWindow | None = None, *, max_width: int = MAX_WIDTH) -> None:
        self.window = window or AdaptiveWindow()
        self.max_width = max_width
        self.histogram = np.zeros(1, dtype=np.int64)
        """H_i: tuples by coarse delay."""
        self._k_sync_sum = 0.0
        self._n_k_sync = 0
        # The tuples of the window, oldest first, from _begin to before _end.
        self._begin = self._end = 0
        self._tuples = np.empty((3, 1024))

    @property
    def n(self) -> int:
        """Tuples in the window."""
        return self._end - self._begin

    @property
    def mean_k_sync(self) -> float:
        """Mean of the K_sync measurements in the window; 0 without any."""
        return self._k_sync_sum / self._n_k_sync if self._n_k_sync else 0.0

    @property
    def rate(self) -> float:
        """r_i: tuples per unit of time; 0 as long as the local time has stood still."""
        if not self.n:
            return 0.0
        span = self._tuples[_LOCAL, self._end - 1] - self._tuples[_LOCAL, self._begin]
        return float(self.n / span) if span > 0 else 0.0

    def push(self, delay: Float64s, tuples: Float64s) -> None:
        """Add tuples in order of arrival.

        Parameters
        ----------
        delay
            Delays of the tuples; the window looks for changes in the delays.
        tuples
            Three rows: coarse delay, K_sync (NaN if not known), local time of the stream.
        """
        dropped = self.window.push(delay)
        while self.window.width > self.max_width:
            dropped += self.window.drop_oldest()
        self._append(tuples)
        self._count(tuples, 1)
        if dropped:
            self._count(self._tuples[:, self._begin : self._begin + dropped], -1)
            self._begin += dropped

    def _append(self, tuples: Float64s) -> None:
        n = tuples.shape[1]
        if self._end + n > self._tuples.shape[1]:
            kept = self._tuples[:, self._begin : self._end]
            # Twice the space needed, so that in the long run moving costs a constant per tuple.
            self._tuples = np.empty((3, 2 * (self.n + n)))
            self._begin, self._end = 0, kept.shape[1]
            self._tuples[:, : self._end] = kept
        self._tuples[:, self._end : self._end + n] = tuples
        self._end += n

    def _count(self, tuples: Float64s, sign: int) -> None:
        counts = np.bincount(tuples[_COARSE].astype(np.int64))
        if len(counts) > len(self.histogram):
            self.histogram = np.pad(self.histogram, (0, len(counts) - len(self.histogram)))
        self.histogram[: len(counts)] += sign * counts
        if sign < 0:
            used = np.flatnonzero(self.histogram)
            self.histogram = self.histogram[: int(used.max(initial=0)) + 1]
        known = tuples[_K_SYNC][~np.isnan(tuples[_K_SYNC])]
        self._k_sync_sum += sign * float(known.sum())
        self._n_k_sync += sign * len(known)

    def snapshot(self) -> State:
        """Everything it remembers."""
        kept = np.ascontiguousarray(self._tuples[:, self._begin : self._end])
        return {
            "window": self.window.snapshot(),
            "tuples": base64.b64encode(zlib.compress(kept.tobytes(), 1)).decode(),
            "k_sync_sum": self._k_sync_sum,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.window.restore(state["window"])
        content = zlib.decompress(base64.b64decode(state["tuples"]))
        self._tuples = np.frombuffer(content, dtype=np.float64).reshape(3, -1).copy()
        self._begin, self._end = 0, self._tuples.shape[1]
        self.histogram = np.zeros(1, dtype=np.int64)
        self._k_sync_sum, self._n_k_sync = 0.0, 0
        self._count(self._tuples, 1)
        # The stored sum, not a new one: it holds the rounding errors of all additions so far.
        self._k_sync_sum = state["k_sync_sum"]


class StatisticsManager:
    """Monitors all streams, each over a window of its own.

    Parameters
    ----------
    m
        Number of streams.
    delta
        How readily a window forgets, see :class:`AdaptiveWindow`.
    """

    def __init__(self, m: int, *, delta: float = 0.002) -> None:
        self.streams = [StreamStatistics(AdaptiveWindow(delta=delta)) for _ in range(m)]

    def observe(self, profile: Profile) -> None:
        """Take in the tuples that arrived in an interval."""
        for s, statistics in enumerate(self.streams):
            if profile.arrived is not None:
                statistics.push(*_one_by_one(profile.arrived, s, profile.granularity))
            elif profile.delays[s].any():
                statistics.push(*_from_sums(profile, s))

    @property
    def k_sync(self) -> list[float]:
        """K_sync to expect of each stream: its mean, less the smallest mean of all streams."""
        means = [statistics.mean_k_sync for statistics in self.streams]
        return [mean - min(means) for mean in means]

    @property
    def rates(self) -> list[float]:
        """r_i of each stream."""
        return [statistics.rate for statistics in self.streams]

    @property
    def histograms(self) -> list[Int64s]:
        """H_i of each stream."""
        return [statistics.histogram for statistics in self.streams]

    @property
    def largest_coarse_delay(self) -> int:
        """MaxD^H: the largest coarse delay in any histogram, in steps of g."""
        return max(len(statistics.histogram) for statistics in self.streams) - 1

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {"streams": [statistics.snapshot() for statistics in self.streams]}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        for statistics, content in zip(self.streams, state["streams"], strict=True):
            statistics.restore(content)


def _one_by_one(arrived: Arrived, s: int, granularity: int) -> tuple[Float64s, Float64s]:
    (mine,) = np.nonzero(arrived.stream == s)
    tuples = np.empty((3, len(mine)))
    delay, k_sync = arrived.delay[mine], arrived.k_sync[mine]
    tuples[_COARSE] = coarse_delay(delay, granularity)
    tuples[_K_SYNC] = np.where(k_sync == UNKNOWN, np.nan, k_sync)
    tuples[_LOCAL] = arrived.local[mine]
    return delay.astype(np.float64), tuples


def _from_sums(profile: Profile, s: int) -> tuple[Float64s, Float64s]:
    # Deviation: over several cells the order of tuples within an interval is not known. Sorted
    # delays would look like a change; multiples of the golden ratio spread equal delays evenly.
    # K_sync enters by its mean, and time as if it had passed evenly.
    coarse = np.repeat(np.arange(profile.delays.shape[1]), profile.delays[s])
    n = len(coarse)
    tuples = np.empty((3, n))
    tuples[_COARSE] = coarse[np.argsort(np.arange(n) * _GOLDEN % 1.0, kind="stable")]
    known = int(profile.n_k_sync[s])
    tuples[_K_SYNC] = np.nan
    if known:
        tuples[_K_SYNC, n - known :] = profile.k_sync_sum[s] / known
    begin, end = float(profile.begins[s]), float(profile.ends[s])
    tuples[_LOCAL] = begin + (end - begin) * np.arange(1, n + 1) / n
    return tuples[_COARSE] * profile.granularity, tuples

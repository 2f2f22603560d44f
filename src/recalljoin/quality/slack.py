"""The required-slack policy: K from the results themselves.

A result is produced iff K is larger than the slack it requires, so the histogram of required slack
over recent history says directly what recall each K would have given. Three separate parts: the
history, the target aimed at, and the choice of K.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.quality.policy import Forecast, State, check_options, register
from recalljoin.quality.recall import RecallMeter

if TYPE_CHECKING:
    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.profile import Float64s, Profile
    from recalljoin.quality.settings import PolicySettings


class Curve(NamedTuple):
    """What recent history says of K = 0, g, 2g, ..."""

    recall: Float64s
    """Share of the results that each K would have produced."""
    spread: Float64s
    """Standard deviation of the recall of single intervals at each K."""


class SlackHistory:
    """Required slack of the results of the last intervals, produced and lost alike.

    Parameters
    ----------
    n_intervals
        How many intervals are remembered.
    """

    def __init__(self, n_intervals: int) -> None:
        self.n_intervals = n_intervals
        self.intervals: deque[Int64s] = deque(maxlen=n_intervals)
        # [interval, K in steps of g]: results each K would have produced. A ring, newest last
        # written; rows of intervals that are still to come are empty and count for nothing.
        self._within = np.zeros((n_intervals, 1))
        self._next = 0

    def observe(self, slack: Int64s) -> None:
        """Take in an interval's histogram ``[produced or lost, bin]``."""
        self._remember(slack.sum(axis=0))

    def _remember(self, bins: Int64s) -> None:
        self.intervals.append(bins)
        missing = len(bins) - self._within.shape[1]
        if missing > 0:
            # What a smaller K already gives, a larger one gives as well.
            self._within = np.pad(self._within, ((0, 0), (0, missing)), mode="edge")
        row = self._within[self._next]
        np.cumsum(bins, out=row[: len(bins)])
        row[len(bins) :] = row[len(bins) - 1]
        self._next = (self._next + 1) % self.n_intervals

    def curve(self) -> Curve | None:
        """Recall against K; None before there was any result."""
        within = self._within
        sizes = within[:, -1]
        total = float(sizes.sum())
        if not total:
            return None
        recall = within.sum(axis=0) / total
        # Intervals weigh by their results, as in the recall of a period.
        missed = within - np.outer(sizes, recall)
        n_results = int((sizes > 0).sum())
        variance = np.einsum("ik,ik->k", missed, missed) / max(1, n_results - 1)
        return Curve(recall, np.sqrt(variance) * n_results / total)

    def snapshot(self) -> list[State]:
        """The histograms, without empty bins."""
        return [
            {"bins": np.flatnonzero(bins).tolist(), "counts": bins[bins != 0].tolist()}
            for bins in self.intervals
        ]

    def restore(self, state: list[State]) -> None:
        """Go on from a snapshot."""
        self.intervals.clear()
        self._within, self._next = np.zeros((self.n_intervals, 1)), 0
        for content in state:
            bins = np.zeros(max(content["bins"], default=0) + 1, dtype=np.int64)
            bins[content["bins"]] = content["counts"]
            self._remember(bins)


def target_of(
    curve: Curve, *, recall: float, measured: float, gain: float, z: float, n_intervals: int
) -> Float64s:
    """Recall to aim at with each K, so that the recall of a period comes out right.

    Parameters
    ----------
    curve
        Recall and its spread for each K.
    recall
        Γ.
    measured
        Recall of the last period: what was missed there is made up for.
    gain
        How much of it.
    z
        Standard errors kept as a margin.
    n_intervals
        Intervals in a period, over which the spread averages out.
    """
    margin = z * curve.spread / n_intervals**0.5
    highest = 1 - 0.02 * (1 - recall)
    target: Float64s = np.minimum(recall + gain * (recall - measured) + margin, highest)
    return target


@register("slack")
class RequiredSlack:
    """Chooses the smallest K that would have reached the target over recent history.

    Parameters
    ----------
    settings
        Γ, P, L and g.
    history
        How long results are remembered, in periods.
    gain
        How strongly a recall that was missed, or exceeded, is made up for.
    z
        Standard errors of recall kept as a margin. Larger waits longer, misses less often.
    """

    name = "slack"
    uses_slack = True

    def __init__(
        self, settings: PolicySettings, *, history: float = 2.0, gain: float = 1.0, z: float = 2.0
    ) -> None:
        check_options(
            {
                f"`history` must be longer than 0, got {history!r}": history <= 0,
                f"`gain` must not be negative, got {gain!r}": gain < 0,
                f"`z` must not be negative, got {z!r}": z < 0,
            }
        )
        self.settings = settings
        self.gain, self.z = gain, z
        self.k = 0
        self.n_intervals = max(1, settings.period // settings.interval)
        self.history = SlackHistory(max(1, round(history * self.n_intervals)))
        self.meter: RecallMeter | None = None
        self.curve: Curve | None = None

    @property
    def estimated_recall(self) -> float | None:
        """Recall K would have had over recent history."""
        if self.curve is None:
            return None
        place = min(self.k // self.settings.granularity, len(self.curve.recall) - 1)
        return float(self.curve.recall[place])

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.history.observe(profile.slack)
        self._meter(profile.bucket).observe(profile)

    def _meter(self, bucket: int) -> RecallMeter:
        if self.meter is None:
            largest = max(self.settings.windows)
            self.meter = RecallMeter(
                period=self.settings.period, settling=0, reach=largest, bucket=bucket
            )
        return self.meter

    def adapt(self) -> int:
        """Choose K; without any result there is nothing to go by, and it stays as it is."""
        self.curve = self.history.curve()
        if self.curve is None:
            return self.k
        target = target_of(
            self.curve,
            recall=self.settings.recall,
            measured=self.meter.measure().recall if self.meter else 1.0,
            gain=self.gain,
            z=self.z,
            n_intervals=self.n_intervals,
        )
        self.k = choose_k(self.curve, target) * self.settings.granularity
        return self.k

    def forecast(self) -> Forecast | None:
        """Recall that each K would have had over recent history."""
        if self.curve is None:
            return None
        k = np.arange(len(self.curve.recall)) * self.settings.granularity
        return Forecast(k, self.curve.recall)

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "k": self.k,
            "history": self.history.snapshot(),
            "bucket": self.meter.bucket if self.meter else None,
            "meter": self.meter.snapshot() if self.meter else None,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k = state["k"]
        self.history.restore(state["history"])
        if state["meter"] is not None:
            self._meter(state["bucket"]).restore(state["meter"])
        self.curve = self.history.curve()


def choose_k(curve: Curve, target: Float64s) -> int:
    """The smallest K, in steps of g, that reaches its target; the largest known one if none."""
    reached = curve.recall >= target
    reached[-1] = True
    return int(reached.argmax())

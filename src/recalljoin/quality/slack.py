"""The required-slack policy: K from the results themselves.

A result is produced iff K is larger than the slack it requires, so the histogram of required slack
says directly what recall each K would have given. For every period seen there is thus one number,
the K it would have needed (:mod:`recalljoin.quality.needs`), and the policy takes the smallest K
that would have done for nearly all of them. Until enough periods were seen, it goes by the mean
recall of recent history with a margin for its spread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.quality.needs import PeriodNeeds, sparse, unsparse
from recalljoin.quality.policy import Forecast, State, check_options, register

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

    def keep_last(self, n: int) -> None:
        """Forget all but the last ``n`` intervals."""
        last = list(self.intervals)[-n:]
        self.intervals.clear()
        self._within, self._next = np.zeros((self.n_intervals, 1)), 0
        for bins in last:
            self._remember(bins)

    def snapshot(self) -> list[State]:
        """The histograms, without empty bins."""
        return [sparse(bins) for bins in self.intervals]

    def restore(self, state: list[State]) -> None:
        """Go on from a snapshot."""
        self.intervals.clear()
        self._within, self._next = np.zeros((self.n_intervals, 1)), 0
        for content in state:
            self._remember(unsparse(content))


def cautious(curve: Curve, *, recall: float, z: float, n_intervals: int) -> int:
    """The smallest K, in steps of g, whose recall stays above ``recall`` by ``z`` standard errors.

    ``n_intervals`` is the number of intervals in a period, over which the spread averages out. When
    no K reaches that, the largest one known.
    """
    # A margin cannot ask for everything: the tail of the histogram would decide alone.
    highest = 1 - 0.02 * (1 - recall)
    target = np.minimum(recall + z * curve.spread / n_intervals**0.5, highest)
    reached = curve.recall >= target
    reached[-1] = True
    return int(reached.argmax())


@register("slack")
class RequiredSlack:
    """Chooses the smallest K that would have done for nearly all periods seen.

    Parameters
    ----------
    settings
        Γ, P, L and g.
    share
        Share of the periods seen that K must do for. Larger waits longer, misses less often.
    memory
        How long the needs of periods are remembered, in periods. A change in the disorder is
        noticed and ends it sooner.
    z
        Standard errors of recall kept as a margin until enough periods were seen.
    """

    name = "slack"
    uses_slack = True

    def __init__(
        self,
        settings: PolicySettings,
        *,
        share: float = 0.97,
        memory: float = 60.0,
        z: float = 2.5,
    ) -> None:
        check_options(
            {
                f"`share` must be in (0, 1], got {share!r}": not 0 < share <= 1,
                f"`memory` must be at least 2 periods, got {memory!r}": memory < 2,
                f"`z` must not be negative, got {z!r}": z < 0,
            }
        )
        self.settings = settings
        self.share, self.z = share, z
        self.k = 0
        self.n_intervals = max(1, settings.period // settings.interval)
        self.history = SlackHistory(2 * self.n_intervals)
        self.needs = PeriodNeeds(
            recall=settings.recall,
            n_intervals=self.n_intervals,
            memory=round(memory * self.n_intervals),
        )
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
        if self.needs.observe(profile.slack.sum(axis=0)):
            self.history.keep_last(self.needs.n_short)

    def adapt(self) -> int:
        """Choose K; without any result there is nothing to go by, and it stays as it is."""
        self.curve = self.history.curve()
        if self.curve is None:
            return self.k
        n = self.n_intervals
        steps = cautious(self.curve, recall=self.settings.recall, z=self.z, n_intervals=n)
        if self.needs.needed:
            usual = self.needs.enough_for(self.share)
            # Ten periods seen overlapping are about what a quantile needs to be trusted alone.
            trust = min(1.0, len(self.needs.needed) / (10 * n))
            steps = round(trust * usual + (1 - trust) * max(usual, steps))
        self.k = steps * self.settings.granularity
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
            "needs": self.needs.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k = state["k"]
        self.history.restore(state["history"])
        self.needs.restore(state["needs"])
        self.curve = self.history.curve()

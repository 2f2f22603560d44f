"""Result-Size Monitor: result sizes so far, and the recall they ask of the next interval.

It looks at the last P - L of time, where P is the period over which recall is measured and L the
adaptation interval (paper, Sec. IV-C).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recalljoin.quality.policy import State


class ResultSizeMonitor:
    """Produced and estimated true result sizes of the last ``(P - L) / L`` intervals.

    A result belongs to the interval in which the join processed the tuple that produced the result
    or with which it was counted as lost.

    Parameters
    ----------
    period
        P, over which recall is measured.
    interval
        L, after which K is chosen anew.
    """

    def __init__(self, *, period: int, interval: int) -> None:
        self._n_intervals = (period - interval) // interval
        self._sizes: deque[tuple[int, float]] = deque()
        self._last_true = 0.0
        self.n_produced = 0
        """N⋈_prod(P - L): results produced."""
        self.n_true = 0.0
        """N⋈_true(P - L): true results, estimated."""

    def observe(self, n_produced: int, n_true: float) -> None:
        """Take in the sizes of an interval."""
        self._sizes.append((n_produced, n_true))
        self._last_true = n_true
        # Sizes are whole numbers, so subtracting an old size leaves no rounding error.
        self.n_produced += n_produced
        self.n_true += n_true
        if len(self._sizes) > self._n_intervals:
            n_produced, n_true = self._sizes.popleft()
            self.n_produced -= n_produced
            self.n_true -= n_true

    def instant_requirement(self, recall: float) -> float:
        """Γ′, the recall the next interval must have so that the period has ``recall``; Eq. (7).

        The next interval is taken to have as many true results as the last interval. If the last
        had none, Eq. (7) asks nothing, and the next interval is asked for the period's recall.
        """
        if not self._last_true:
            return recall
        missing = recall * self.n_true - self.n_produced
        # Deviation: the paper prints max{Γ′, 1}, which would always ask for everything.
        return max(0.0, min(1.0, recall + missing / self._last_true))

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {"sizes": [list(sizes) for sizes in self._sizes], "last_true": self._last_true}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._sizes.clear()
        self.n_produced, self.n_true = 0, 0.0
        for n_produced, n_true in state["sizes"]:
            self.observe(n_produced, n_true)
        self._last_true = state["last_true"]

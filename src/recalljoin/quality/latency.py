"""How long results were waited for: from the arrival of the last member to the release.

The buffers hold a result back until its trigger (the member that completes it in order of time)
leaves them. When results are counted and not enumerated, it is known when each trigger came and
left, but not which results had a member that came even later than the trigger. The histogram of
required slack tells how many: by definition, a result that required slack s waited K - s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.step import Step


class Latency(NamedTuple):
    """Latency of the results, in the unit of the clock it was measured on."""

    mean: float
    p50: float
    p95: float
    p99: float


class LatencyMeter:
    """Collects latencies of results, as precise as the bins of required slack."""

    def __init__(self) -> None:
        self._values: list[Float64s] = []
        self._weights: list[Float64s] = []

    def observe(self, step: Step, *, arrived: Int64s, released: Int64s) -> None:
        """Take in a step.

        Parameters
        ----------
        step
            With its slack histogram; without one, triggers count as last members.
        arrived, released
            Clock at the arrival and at the release of each tuple that was in order.
        """
        productive = step.n_join[~step.late] > 0
        n = step.n_join[~step.late][productive]
        if not len(n):
            return
        waited = np.maximum(0, released - arrived)[productive].astype(np.float64)
        in_order = np.flatnonzero(~step.late)[productive]
        base, ts = step.base[in_order], step.ts[in_order]
        early = (base == NEVER) | (base < ts)
        n_early = float(step.slack[0, 0])
        n_rest = float(step.slack[0].sum()) - n_early
        # The slack of an outer or semi join is not that of its pairs alone.
        if n_early + n_rest == 0 or step.told is not None:
            self._add(waited, n.astype(np.float64))
            return
        # Results that required no slack: all members came before the slowest stream had reached
        # the result's time. Only triggers that came that early themselves can have such results.
        if n_early:
            self._add(waited[early], n[early] * (n_early / n[early].sum()))
        if n_rest:
            (used,) = np.nonzero(step.slack[0, 1:])
            slack = np.where(early, 0, base - np.where(early, base, ts))
            in_force = float(((waited + slack) * n).sum() / n.sum())
            # A bin holds the slacks from the K of the bin before it to before its own K.
            middle = 0.5 * ENOUGH[used] + 0.5 * (ENOUGH[used + 1] - 1)
            weights = step.slack[0, used + 1].astype(np.float64)
            self._add(np.maximum(0.0, in_force - middle), weights)

    def _add(self, values: Float64s, weights: Float64s) -> None:
        self._values.append(values)
        self._weights.append(weights)

    def latency(self) -> Latency | None:
        """Mean and percentiles over all results; None before the first result."""
        if not self._values:
            return None
        values, weights = np.concatenate(self._values), np.concatenate(self._weights)
        order = np.argsort(values)
        values, below = values[order], np.cumsum(weights[order])
        places = np.searchsorted(below, np.array([0.5, 0.95, 0.99]) * below[-1])
        p50, p95, p99 = values[np.minimum(places, len(values) - 1)]
        mean = float(np.dot(values, weights[order]) / below[-1])
        return Latency(mean, float(p50), float(p95), float(p99))

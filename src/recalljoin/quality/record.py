"""What is kept of a run: K over time, recall, sizes and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recalljoin.quality.recall import fulfilment
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recalljoin.engine.queues import Int64s
    from recalljoin.quality.latency import Latency
    from recalljoin.quality.profile import Float64s
    from recalljoin.query import TimeUnit


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRecord:
    """One run of a policy over recorded arrivals.

    Arrays have one element for each adaptation point, taken just before K was adapted.
    """

    policy: str
    target: float
    """Recall asked for (Γ)."""
    unit: TimeUnit
    """Of all times here except ``seconds``."""
    clock: Int64s
    """Local time of the fastest stream, which reached the boundary."""
    join_time: Int64s
    k: Int64s
    """K in force."""
    recall: Float64s
    """Over the last period."""
    estimated_recall: tuple[float | None, ...]
    """What the policy had expected of the K in force."""
    counts: NDArray[np.bool_]
    """Measurements that count: the first period is over."""
    n_produced: int
    n_true: int
    n_lost: int
    n_late: int
    n_beyond: int
    """Late tuples beyond the retention horizon, whose losses are in no count."""
    refused: Mapping[str, int]
    """Rows that could not take part, by reason."""
    n_tuples: int
    latency: Latency | None
    adaptation_seconds: Float64s
    """How long each choice of K took."""
    seconds: float
    """How long the join took, adaptation included."""

    @property
    def mean_k(self) -> float:
        """Mean of K over the adaptation points; 0 of none."""
        return float(self.k.mean()) if len(self.k) else 0.0

    @property
    def measurements(self) -> Float64s:
        """Recall measurements that count."""
        return self.recall[self.counts]

    @property
    def mean_recall(self) -> float:
        """Mean of the measurements that count; 1 of none."""
        return float(self.measurements.mean()) if self.counts.any() else 1.0

    def phi(self, share: float = 1.0) -> float:
        """Φ: how many measurements reach the target, or ``share`` of it."""
        return fulfilment(self.measurements, share * self.target)

    def to_json(self) -> dict[str, Any]:
        """As text and numbers, durations in milliseconds."""
        milli = NANOSECONDS_PER[self.unit] / NANOSECONDS_PER["ms"]
        # Whole milliseconds stay whole numbers.
        scale = int(milli) if milli >= 1 else milli
        estimated = [e for e, c in zip(self.estimated_recall, self.counts, strict=True) if c]
        took = 1e3 * self.adaptation_seconds
        latency = self.latency
        return {
            "policy": self.policy,
            "target": self.target,
            "k_ms": (self.k * scale).tolist(),
            "avg_k_ms": self.mean_k * scale,
            "recall": self.measurements.tolist(),
            "avg_recall": self.mean_recall,
            "measurements": int(self.counts.sum()),
            "phi": self.phi(),
            "phi99": self.phi(0.99),
            "estimated_recall": estimated,
            "produced": self.n_produced,
            "true": self.n_true,
            "lost": self.n_lost,
            "late": self.n_late,
            "beyond_horizon": self.n_beyond,
            "refused": sum(self.refused.values()),
            "refused_by_reason": dict(self.refused),
            "latency_ms": None
            if latency is None
            else {name: value * scale for name, value in latency._asdict().items()},
            "adaptation_ms": {
                "mean": float(took.mean()) if len(took) else 0.0,
                "max": float(took.max(initial=0.0)),
            },
            "seconds": self.seconds,
            "tuples": self.n_tuples,
        }

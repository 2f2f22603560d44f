"""A run as reports need it: the numbers of its record, as values that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.quality.recall import fulfilment
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s
    from recalljoin.quality.record import RunRecord


@dataclass(frozen=True)
class Run:
    """What is kept of a run.

    Parameters
    ----------
    numbers
        The numbers of :meth:`RunRecord.to_json <recalljoin.quality.record.RunRecord.to_json>`, and
        ``clock_ms``, the time of each adaptation point since the first tuple.
    """

    numbers: dict[str, Any]

    @classmethod
    def of(cls, record: RunRecord) -> Run:
        """Keep a record."""
        ms = NANOSECONDS_PER[record.unit] / NANOSECONDS_PER["ms"]
        # The record does not hold the start of the clock; adaptation points are an interval apart.
        gap = int(np.median(np.diff(record.clock))) if len(record.clock) > 1 else 0
        start = int(record.clock[0]) - gap if len(record.clock) else 0
        clock = (record.clock - start) * ms
        return cls(record.to_json() | {"clock_ms": clock.tolist()})

    @property
    def policy(self) -> str:
        """Name of the policy that chose K."""
        return str(self.numbers["policy"])

    @property
    def mean_k(self) -> float:
        """Mean K in seconds."""
        return float(self.numbers["avg_k_ms"]) / 1000

    @property
    def mean_recall(self) -> float:
        """Mean of the recall measurements."""
        return float(self.numbers["avg_recall"])

    @property
    def adaptation_ms(self) -> float:
        """Mean time it took to choose K, in milliseconds."""
        return float(self.numbers["adaptation_ms"]["mean"])

    def latency(self, which: str = "mean") -> float:
        """Measured latency in seconds; not a number if nothing was produced."""
        latency = self.numbers["latency_ms"]
        return float("nan") if latency is None else float(latency[which]) / 1000

    @property
    def tuples_per_second(self) -> float:
        """Speed of the join, adaptation included."""
        return float(self.numbers["tuples"] / self.numbers["seconds"])

    def phi(self, target: float | None = None, *, share: float = 1.0) -> float:
        """Share of the measurements that reach a target, by default the run's, or ``share`` of it.

        Runs of a policy without a target can be compared with any target.
        """
        wanted = self.numbers["target"] if target is None else target
        return fulfilment(np.array(self.numbers["recall"], dtype=np.float64), share * wanted)

    def after(self, minutes: float) -> Run:
        """The same run without K and recall of its first ``minutes``."""
        clock = np.array(self.numbers["clock_ms"], dtype=np.float64) / 60_000
        begin = int(np.searchsorted(clock, minutes))
        k = self.numbers["k_ms"][begin:]
        recall = self.numbers["recall"]
        # Measurements begin later than K, and both end together.
        recall = recall[max(0, begin - (len(clock) - len(recall))) :]
        return Run(
            self.numbers
            | {"clock_ms": self.numbers["clock_ms"][begin:], "k_ms": k, "recall": recall}
            | {"avg_k_ms": float(np.mean(k)) if k else 0.0}
            | {"avg_recall": float(np.mean(recall)) if recall else 1.0}
        )

    def k_over_time(self) -> tuple[Float64s, Float64s]:
        """Minutes, and K in force in seconds."""
        minutes = np.array(self.numbers["clock_ms"]) / 60_000
        return minutes, np.array(self.numbers["k_ms"], dtype=np.float64) / 1000

    def recall_over_time(self) -> tuple[Float64s, Float64s]:
        """Minutes, and the recall measured then; measurements begin after the first period."""
        recall = np.array(self.numbers["recall"], dtype=np.float64)
        minutes = np.array(self.numbers["clock_ms"]) / 60_000
        return minutes[len(minutes) - len(recall) :], recall

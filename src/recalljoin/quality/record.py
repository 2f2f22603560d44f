"""What is kept of a run: K over time, recall, sizes and costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine.times import FOREVER
from recalljoin.quality.recall import fulfilment, recall_against
from recalljoin.query.durations import NANOSECONDS_PER, rounded
from recalljoin.query.html_table import html_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.latency import Latency
    from recalljoin.quality.recall import Timeline
    from recalljoin.query.durations import TimeUnit


class Schedule(NamedTuple):
    """K at every step (tuple or tick) of a run: enough to repeat the run without its policy."""

    at: Int64s
    """Steps at which K changes; the first is 0."""
    k: Int64s
    """K from each of these steps on."""
    n_steps: int

    @classmethod
    def of(cls, slacks: Sequence[Int64s]) -> Schedule:
        """From K of each step, given in consecutive pieces.

        Examples
        --------
        >>> Schedule.of([np.array([0, 0, 7]), np.array([7, 3])])
        Schedule(at=array([0, 2, 4]), k=array([0, 7, 3]), n_steps=5)
        """
        k = np.concatenate([*slacks, np.empty(0, dtype=np.int64)])
        at = np.flatnonzero(
            np.concatenate((np.full(min(len(k), 1), fill_value=True), k[1:] != k[:-1]))
        )
        return cls(at, k[at], len(k))

    def expanded(self) -> Int64s:
        """K of each step."""
        return np.repeat(self.k, np.diff(self.at, append=self.n_steps))


class Reported(NamedTuple):
    """Recall over the last period as the join itself reported it, at each adaptation point.

    Not a number where there was no result to go by.
    """

    recall: Float64s
    """An estimate of what the recall is going to be, once every tuple has come."""
    at_least: Float64s
    """Lower bound of the recall, as far as tuples have arrived."""
    at_most: Float64s
    """Upper bound of the recall, as far as tuples have arrived."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunRecord:
    """One run of a policy over recorded arrivals.

    Arrays have one element for each adaptation point, taken just before K was adapted.
    """

    policy: str
    target: float
    """Γ, the recall asked for."""
    period: int
    """P, over which recall is measured."""
    unit: TimeUnit
    """Unit of all times in this record, except those whose names say ``seconds``."""
    clock: Int64s
    """Local time of the fastest stream, which reached the boundary."""
    join_time: Int64s
    k: Int64s
    """K in force."""
    recall: Float64s
    """Recall over the last period."""
    reported: Reported
    """Recall over the last period as reported at that point, without knowing what was to come."""
    waits: Float64s
    """How far the join was behind the slowest stream since the adaptation point before: the sum
    over steps, and the number of steps; the last row is about the steps after the last point."""
    lead: Int64s
    """How far the base time might be ahead of the slowest source; FOREVER without sources."""
    horizon: Int64s
    """How long tuples were remembered behind their windows, to count what is lost."""
    estimated_recall: tuple[float | None, ...]
    """What the policy had expected of the K in force."""
    counts: NDArray[np.bool_]
    """Which measurements count: all after the first period."""
    schedule: Schedule
    """K at every step, not only at adaptation points."""
    produced: Timeline
    """Results by time."""
    n_seen: Int64s
    """How many of the times in ``produced`` had been produced at each adaptation point."""
    n_true: int
    n_lost: int
    n_late: int
    n_beyond: int
    """Late tuples beyond the retention horizon, whose losses are not counted."""
    refused: Mapping[str, int]
    """Rows that could not take part, by reason."""
    n_tuples: int
    latency: Latency | None
    adaptation_seconds: Float64s
    """How long each choice of K took."""
    seconds: float
    """How long the join took, adaptation included."""
    n_nulls: int | None = None
    """Rows that left without a partner; None for an inner join."""
    n_false_nulls: int | None = None
    """Rows of these that left in error, as far as that is known."""
    notes: tuple[str, ...] = ()
    """What seems to be wrong with the input, in sentences."""

    @property
    def n_produced(self) -> int:
        """Results produced."""
        return self.produced.total

    @property
    def null_precision(self) -> float | None:
        """Share of the rows without a partner that are true; None for an inner join."""
        if self.n_nulls is None or self.n_false_nulls is None:
            return None
        return 1 - self.n_false_nulls / self.n_nulls if self.n_nulls else 1.0

    def against(self, truth: Timeline) -> RunRecord:
        """The same run, with recall measured against ``truth``."""
        recall = np.full(len(self.k), np.nan)
        recall[self.counts] = recall_against(
            truth,
            produced=self.produced,
            n_seen=self.n_seen[self.counts],
            join_time=self.join_time[self.counts],
            period=self.period,
        )
        return replace(self, recall=recall, n_true=truth.total)

    @property
    def mean_k(self) -> float:
        """Mean of K over the adaptation points; 0 of none."""
        return float(self.k.mean()) if len(self.k) else 0.0

    @property
    def wait(self) -> Float64s:
        """Mean wait since the adaptation point before; not a number where nothing was known."""
        sums, numbers = self.waits[: len(self.k)].T
        return np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan)

    @property
    def mean_wait(self) -> float:
        """How far the join was behind the slowest stream, the mean over all steps; 0 of none."""
        total, n = self.waits.sum(axis=0)
        return float(total / n) if n else 0.0

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

    def _told(self) -> list[tuple[str, str]]:
        """The most important numbers, each with its name."""
        unit = NANOSECONDS_PER[self.unit] / NANOSECONDS_PER["ms"]
        recall = "not measured"
        if self.counts.any():
            reached = f"{100 * self.phi():.1f} % of {len(self.measurements):,} periods"
            recall = f"{self.mean_recall:.4f}, target {self.target:g} reached in {reached}"
        return [
            ("policy", self.policy),
            ("recall", recall),
            ("mean K", rounded(self.mean_k * unit)),
            ("results", f"{self.n_produced:,} of {self.n_true:,}"),
            ("tuples", f"{self.n_tuples:,}, {self.n_late:,} late"),
        ]

    def __repr__(self) -> str:
        told = "; ".join(f"{name} {text}" for name, text in self._told())
        return f"<RunRecord: {told}>"

    def _repr_html_(self) -> str:
        return html_table("a run over recorded streams", self._told())

    def to_json(self) -> dict[str, Any]:
        """As text and numbers, durations in milliseconds."""
        coarser, rest = divmod(NANOSECONDS_PER[self.unit], NANOSECONDS_PER["ms"])

        def ms(value: Any) -> Any:
            # Whole milliseconds stay whole numbers. Other times are divided, not multiplied by
            # a fraction, so that they become the nearest numbers there are.
            finer = NANOSECONDS_PER["ms"] // NANOSECONDS_PER[self.unit]
            return value * coarser if not rest else value / finer

        estimated = [e for e, c in zip(self.estimated_recall, self.counts, strict=True) if c]
        took = 1e3 * self.adaptation_seconds
        latency = self.latency
        return {
            "policy": self.policy,
            "target": self.target,
            "k_ms": ms(self.k).tolist(),
            "avg_k_ms": ms(self.mean_k),
            "wait_ms": _or_none(ms(self.wait)),
            "avg_wait_ms": ms(self.mean_wait),
            "lead_ms": [None if lead == FOREVER else ms(lead) for lead in self.lead.tolist()],
            "recall": self.measurements.tolist(),
            "avg_recall": self.mean_recall,
            "measurements": int(self.counts.sum()),
            "phi": self.phi(),
            "phi99": self.phi(0.99),
            "estimated_recall": estimated,
            "recall_reported": _or_none(self.reported.recall[self.counts]),
            "horizon_ms": ms(self.horizon).tolist(),
            "produced": self.n_produced,
            "true": self.n_true,
            "lost": self.n_lost,
            **self._nulls_json(),
            "late": self.n_late,
            "beyond_horizon": self.n_beyond,
            "refused": sum(self.refused.values()),
            "refused_by_reason": dict(self.refused),
            "latency_ms": None
            if latency is None
            else {name: ms(value) for name, value in latency._asdict().items()},
            "adaptation_ms": {
                "mean": float(took.mean()) if len(took) else 0.0,
                "max": float(took.max(initial=0.0)),
            },
            "seconds": self.seconds,
            "tuples": self.n_tuples,
            "notes": list(self.notes),
        }

    def _nulls_json(self) -> dict[str, Any]:
        if self.n_nulls is None:
            return {}
        return {
            "nulls": self.n_nulls,
            "false_nulls": self.n_false_nulls,
            "null_precision": self.null_precision,
        }


def _or_none(values: Float64s) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]

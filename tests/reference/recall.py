"""Adaptation points and recall measurements, tuple by tuple (``docs/semantics.md``, rule 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.reference.per_tuple import PerTupleJoin
from tests.reference.truth import true_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.reference.model import Instant, Query, StreamTuple


class AdaptationClock:
    """Says when to adapt: once the clock, max iT, has reached start + n * interval."""

    def __init__(self, *, interval: int) -> None:
        self.interval = interval
        self.start: int | None = None
        self._next_n = 1

    def observe(self, clock: int) -> bool:
        """Look at the clock after an arrival; whether a boundary was reached, one or several."""
        if self.start is None:
            self.start = clock  # the first tuple sets the clock to its own ts
            return False
        n = (clock - self.start) // self.interval  # last boundary reached
        if n < self._next_n:
            return False
        self._next_n = n + 1
        return True


@dataclass(frozen=True)
class Measurement:
    """One recall measurement, taken just before K is adapted.

    Attributes
    ----------
    clock
        Largest local time.
    join_time
        Largest ts the join has received; results with ts in (join_time - P, join_time] count.
    k
        K of the interval that ends here.
    produced, true
        Results produced so far, and true ones.
    counts
        Whether it takes part in means and in the requirement fulfilment: not in the first P.
    """

    clock: int
    join_time: Instant
    k: int
    produced: int
    true: int
    counts: bool

    @property
    def recall(self) -> float:
        """Produced over true; 1 when nothing is true."""
        return self.produced / self.true if self.true else 1.0


def measure_recall(
    query: Query,
    arrivals: Iterable[StreamTuple],
    *,
    period: int,
    interval: int,
    k: int = 0,
    adapt: Callable[[Measurement], int] | None = None,
) -> list[Measurement]:
    """Run a bounded input and measure at every adaptation point.

    Parameters
    ----------
    query, arrivals
        Query, and tuples in the order of their arrival.
    period, interval
        P and L.
    k
        K until the first adaptation.
    adapt
        From a measurement to the next K. None: K stays.
    """
    arrivals = list(arrivals)
    true = true_results(query, arrivals)
    join = PerTupleJoin(query, k=k)
    clock = AdaptationClock(interval=interval)
    produced_ts: list[int] = []
    measurements = []
    for e in arrivals:
        for received in join.push(e):
            produced_ts += [o.result.ts for o in received.produced]
        now = int(max(join.disorder.local_times))
        if clock.observe(now):
            assert clock.start is not None
            end = join.join.join_time
            begin = end - period
            measurement = Measurement(
                clock=now,
                join_time=end,
                k=k,
                produced=sum(begin < ts <= end for ts in produced_ts),
                true=sum(begin < r.ts <= end for r in true),
                counts=end >= clock.start + period,
            )
            measurements.append(measurement)
            if adapt is not None:
                k = adapt(measurement)
                join.disorder.set_k(k)
    return measurements

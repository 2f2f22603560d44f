"""The joins that all systems are given."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.inputs import Input


@dataclass(frozen=True)
class Workload:
    """A join, and what is said of it."""

    name: str
    title: str
    shape: Input
    """Without its sizes."""

    def sized(self, n: int, n_batches: int) -> Input:
        """The input with ``n`` tuples a stream, in as many batches."""
        return replace(self.shape, n=n, n_batches=n_batches)


def _workload(name: str, title: str, **shape: float | str) -> Workload:
    return Workload(name, title, Input(0, 1, **shape))  # type: ignore[arg-type]


WORKLOADS = {
    each.name: each
    for each in (
        _workload("two", "2-way, one match a tuple"),
        _workload("three", "3-way, one match a tuple and stream", n_streams=3),
        _workload("results", "2-way, 16 matches a tuple", matches=16),
        _workload("band", "a band of values, no equality", kind="band", per_ms=1),
        _workload("distance", "a distance in the plane, no equality", kind="distance", per_ms=1),
        _workload("hot", "one key has 1 % of all tuples", hot=0.01),
        _workload("light", "delays up to 0.1 s, a fifth of the window", delay=100),
        _workload("medium", "delays up to 0.5 s, as long as the window", delay=500),
        _workload("heavy", "delays up to 2 s, four times the window", delay=2000),
    )
}

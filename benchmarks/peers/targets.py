"""What recalljoin is to reach beside its peers, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.peers.record import Where
from benchmarks.peers.systems import ENGINE, ONE_THREAD
from benchmarks.spark_join import Slope
from benchmarks.spark_systems import OTHERS, OURS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.peers.record import Record

N = 1_000_000
"""Tuples of a stream in whole runs."""
SIZES = (N, 4 * N)
"""Sizes whose difference gives a marginal rate; of a slow system, smaller ones."""
SMALL_SIZES = (N // 5, N)
ROCKSDB, HDFS = OTHERS
ELSEWHERE = ("flink", "pathway", "bytewax")


@dataclass(frozen=True)
class Target:
    """A number that must be reached."""

    what: str
    wanted: float
    measured: float | None
    unit: str = "times"

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.measured is None:
            return "not measured"
        return "met" if self.measured >= self.wanted else "**missed**"

    def number(self, value: float | None) -> str:
        """A number of this target with its unit."""
        if value is None:
            return ""
        return f"{value:.2f} times" if self.unit == "times" else f"{value / 1e6:.2f} M {self.unit}"


def inputs() -> list[Where]:
    """The inputs that the targets need."""
    return [
        Where(workload, n, n_batches)
        for workload in ("two", "three")
        for n, n_batches in ((N, 10), (N, 40), (4 * N, 10))
    ]


def rate(record: Record, workload: str, system: str) -> float | None:
    """Marginal tuples a second: of all streams together, from two sizes that were both run."""
    for sizes in (SIZES, SMALL_SIZES):
        cells = [record.median(Where(workload, n, 10), system) for n in sizes]
        small, large = cells
        if small is None or large is None or small.failure or large.failure:
            continue
        seconds = Slope(small, large).seconds
        if seconds > 0:
            return 1 / seconds
    return None


def targets(record: Record) -> list[Target]:
    """All targets, with what was measured."""
    return [*_whole_runs(record), *_rates(record), *_engine(record)]


def _seconds(record: Record, where: Where, systems: Iterable[str]) -> float | None:
    """Of the fastest of some systems."""
    cells = [record.median(where, system) for system in systems]
    good = (cell.seconds for cell in cells if cell is not None and not cell.failure)
    # A small input on a busy machine may take less than no input at all.
    return min((seconds for seconds in good if seconds > 0), default=None)


def _times(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _whole_runs(record: Record) -> Iterable[Target]:
    for workload, n_streams, wanted in (
        ("two", 2, {10: 3.0, 40: 1.8}),
        ("three", 3, {10: 5.0, 40: 3.5}),
    ):
        for n_batches, times in wanted.items():
            where = Where(workload, N, n_batches)
            ours = _seconds(record, where, (OURS,))
            name = f"{n_streams}-way, {N:,} tuples a stream in {n_batches} batches"
            if n_batches == 10:
                theirs = _seconds(record, where, ("flink",))
                yield Target(f"{name}: to Flink without checkpoints", 1.0, _times(theirs, ours))
            theirs = _seconds(record, where, OTHERS)
            yield Target(f"{name}: to Spark's better store", times, _times(theirs, ours))


def _rates(record: Record) -> Iterable[Target]:
    for workload, n_streams, wanted in (("two", 2, 1.5e6), ("three", 3, 0.75e6)):
        ours = rate(record, workload, OURS)
        name = f"marginal rate, {n_streams}-way"
        yield Target(name, wanted, ours, "tuples/s")
        yield Target(
            f"{name}: to Spark's HDFS-backed store", 10, _times(ours, rate(record, workload, HDFS))
        )
        yield Target(
            f"{name}: to Spark with RocksDB", 20, _times(ours, rate(record, workload, ROCKSDB))
        )
        others = [rate(record, workload, system) for system in ELSEWHERE]
        best = max((each for each in others if each is not None), default=None)
        yield Target(f"{name}: to the best of Flink, Pathway and Bytewax", 8, _times(ours, best))


def _engine(record: Record) -> Iterable[Target]:
    for workload, n_streams in (("two", 2), ("three", 3)):
        where = Where(workload, N, 10)
        theirs = _seconds(record, where, (ONE_THREAD,))
        yield Target(
            f"the engine alone, {n_streams}-way, one core: to DuckDB",
            0.5,
            _times(theirs, _seconds(record, where, (ENGINE,))),
        )

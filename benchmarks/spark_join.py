"""The join on Spark beside Spark's own stream-stream join: a tuple, a batch, the start, latency.

Every run is a process of its own over the same files. Results must be equal. Two
sizes give the marginal cost of a tuple (the slope). What takes one system a minute takes another a
moment, so the faster one is also run on more data of the same kind, and its slope taken there.

    python -m benchmarks.spark_join --write docs/performance.md
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.inputs import WINDOW, Input
from benchmarks.measure import Report, machine, wrapped
from benchmarks.spark_batches import a_batch, memory, start, two_cores, whole_runs
from benchmarks.spark_kinds import kinds
from benchmarks.spark_latency import latency
from benchmarks.spark_systems import JOINS, OURS, Measured, in_process, same_results

if TYPE_CHECKING:
    from collections.abc import Callable

N_BATCHES = 4
SECTION = "## On Spark"
"""Where the tables stand in the file they are written to."""


class Timed(Protocol):
    """A run."""

    @property
    def n_tuples(self) -> int:
        """How many tuples it had."""

    @property
    def seconds(self) -> float:
        """What it took by the clock."""

    @property
    def processor_seconds(self) -> float:
        """What it took of the processor."""


@dataclass(frozen=True)
class Slope:
    """What two runs of a system say about its costs."""

    small: Timed
    large: Timed

    def _per_tuple(self, name: str) -> float:
        more = self.large.n_tuples - self.small.n_tuples
        difference: float = getattr(self.large, name) - getattr(self.small, name)
        return difference / more

    @property
    def seconds(self) -> float:
        """Marginal cost of a tuple, by the clock; on a busy machine it may come out as nothing."""
        return self._per_tuple("seconds")

    @property
    def processor_seconds(self) -> float:
        """The same in processor time of all processes."""
        return self._per_tuple("processor_seconds")


class Bench:
    """Runs systems over inputs that are made once."""

    def __init__(self, folder: Path, *, matches: float, title: str) -> None:
        self.folder, self.matches = folder, matches
        self.report = Report(
            title,
            ("system", "tuples", "results", "s", "processor s", "state MB", "on disk MB"),
            note=f"Window {WINDOW} ms each way, about {matches:g} matches a tuple, {N_BATCHES} "
            "micro-batches after one that warms up.",
        )

    def run(self, system: str, n: int) -> Measured:
        """One system over two streams of ``n`` tuples."""
        one = in_process(system, Input(n, N_BATCHES, self.matches), self.folder)
        assert one.n_batches == N_BATCHES, one
        self.report.add(
            system, f"{one.n_tuples:,}", f"{one.n_results:,}", f"{one.seconds:.2f}",
            f"{one.processor_seconds:.1f}", f"{one.state_bytes / 1e6:.1f}",
            f"{one.checkpoint_bytes / 1e6:.1f}",
        )  # fmt: skip
        if one.stages:
            parts = (f"{name} {value:.2f}" for name, value in one.stages.items())
            print("    seconds in all cells: " + ", ".join(parts), flush=True)
        return one


def few_matches(folder: Path, sizes: list[int], ours_sizes: list[int]) -> list[Report]:
    """About one match a tuple: marginal cost of a tuple."""
    bench = Bench(folder, matches=1, title="On Spark: 2-way equi-join, one match a tuple")
    runs = {system: [bench.run(system, n) for n in sizes] for system in JOINS}
    for same in zip(*runs.values(), strict=True):
        same_results(same)
    slopes = {system: Slope(*of_system) for system, of_system in runs.items()}
    slopes[OURS] = Slope(*(bench.run(OURS, n) for n in ours_sizes))
    costs = Report(
        "On Spark: marginal costs",
        ("system", "us a tuple", "processor us", "tuples/s", "times ours"),
        note="Targets: at most a tenth of Spark's cost of a tuple, 1,000,000 tuples/s on two "
        "cores.",
    )
    ours = slopes[OURS].seconds
    for system, slope in slopes.items():
        is_known = slope.seconds > 0
        costs.add(
            system, f"{slope.seconds * 1e6:.2f}", f"{slope.processor_seconds * 1e6:.2f}",
            f"{1 / slope.seconds:,.0f}" if is_known else "too noisy",
            f"{slope.seconds / ours:.1f}" if is_known and ours > 0 else "too noisy",
        )  # fmt: skip
    return [bench.report, costs]


def many_matches(folder: Path, sizes: list[int]) -> list[Report]:
    """Sixteen matches a tuple: throughput of whole runs.

    Spark forgets tuples between batches only, and looks at all those of a key: the more of them a
    batch has, the more each costs it. So there is no slope, but a run for each size of a batch.
    """
    bench = Bench(folder, matches=16, title="On Spark: 16 matches a tuple")
    rates = Report(
        "On Spark: throughput at 16 matches a tuple",
        ("tuples in a batch", "system", "tuples/s", "results/s", "ours to it"),
        note="Target: at least 30 times Spark's throughput. Spark's own join costs more for each "
        "tuple the more of them are in a batch, ours does not.",
    )
    for n in sizes:
        runs = [bench.run(system, n) for system in JOINS]
        same_results(runs)
        for one in runs:
            rates.add(
                f"{one.n_tuples // one.n_batches:,}",
                one.system,
                f"{one.n_tuples / one.seconds:,.0f}",
                f"{one.n_results / one.seconds:,.0f}",
                f"{one.seconds / runs[0].seconds:.1f}",
            )
    return [bench.report, rates]


def with_tables(text: str, reports: list[Report]) -> str:
    """A Markdown text with the tables on Spark; others, and other parts of the text, stay."""
    before, _, rest = text.partition(SECTION)
    rest, mark, after = rest.partition("\n## ")
    tables = {block.partition("\n")[0]: block.rstrip() for block in rest.split("\n### ")[1:]}
    measured = wrapped(f"Measured: {machine()}; {datetime.now(UTC).date()}.")
    for each in reports:
        block = each.markdown().removeprefix("## On Spark: ")
        tables[block.partition("\n")[0]] = f"{block}\n\n{measured}"
    made = wrapped(
        "Made by `python -m benchmarks.spark_join --write docs/performance.md`, or with the names "
        "of some parts behind `spark_join` to make some tables again."
    )
    blocks = [f"### {block}" for block in tables.values()]
    following = [(mark + after).strip()] * bool(mark)
    return "\n\n".join([before.rstrip(), SECTION, made, *blocks, *following]) + "\n"


PARTS: dict[str, Callable[[Path, int], list[Report]]] = {
    "batch": lambda folder, scale: [a_batch(folder, 48 // min(scale, 4))],
    "start": lambda folder, scale: [start(folder, 2_000_000 // scale)],
    "whole": lambda folder, scale: [whole_runs(folder, 1_000_000 // scale)],
    "cores": lambda folder, scale: [two_cores(folder, 4_000_000 // scale)],
    "memory": lambda folder, _: [memory(folder)],
    "kinds": lambda folder, scale: [kinds(folder, 1_000_000 // scale)],
    "latency": lambda folder, scale: [latency(folder, 60 if scale == 1 else 10)],
    "tuple": lambda folder, scale: few_matches(
        folder, [200_000 // scale, 1_000_000 // scale], [1_000_000 // scale, 4_000_000 // scale]
    ),
    "results": lambda folder, scale: many_matches(folder, [1_000_000 // scale, 2_000_000 // scale]),
}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", help="all, if none is named")
    parser.add_argument("--write", type=Path, help="keep the tables in this Markdown file")
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"there is no {unknown[0]!r}; parts are {', '.join(PARTS)}")
    print(machine())
    reports: list[Report] = []
    with tempfile.TemporaryDirectory() as made:
        for part in given.parts or PARTS:
            reports += PARTS[part](Path(made), 20 if given.quick else 1)
    if given.write is not None:
        given.write.write_text(with_tables(given.write.read_text(), reports))


if __name__ == "__main__":
    main()

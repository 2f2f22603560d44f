"""``make bench-peers``: the same joins through recalljoin and its peers, with a table and a figure.

Without options it runs what the targets need, as far as that was not run yet.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks.measure import machine
from benchmarks.peers.environments import MADE
from benchmarks.peers.record import Record, Where, unequal
from benchmarks.peers.report import (
    FIGURE,
    plot,
    rates,
    systems,
    target_table,
    whole_runs,
    with_section,
)
from benchmarks.peers.systems import SYSTEMS, run
from benchmarks.peers.targets import N, inputs
from benchmarks.peers.workloads import WORKLOADS

if TYPE_CHECKING:
    from benchmarks.peers.peer import Cell

QUICK = (20_000, 4)
"""Tuples of a stream and batches, to see that everything works."""


def chosen(
    workloads: tuple[str, ...], sizes: tuple[int, ...], batches: tuple[int, ...], *, quick: bool
) -> list[Where]:
    """The inputs that were asked for."""
    if quick:
        return [Where(name, *QUICK) for name in workloads or WORKLOADS]
    if not (workloads or sizes or batches):
        return inputs()
    return [
        Where(name, n, n_batches)
        for name in workloads or WORKLOADS
        for n in sizes or (N,)
        for n_batches in batches or (10,)
    ]


@click.command()
@click.option("--workload", "-w", multiple=True, type=click.Choice(list(WORKLOADS)))
@click.option("--system", "-s", multiple=True, type=click.Choice(list(SYSTEMS)))
@click.option("--size", "-n", multiple=True, type=int, help="Tuples of a stream: 1000000.")
@click.option("--batches", "-b", multiple=True, type=int, help="Batches: 10.")
@click.option("--runs", default=3, show_default=True, help="Runs of each cell: the median counts.")
@click.option("--timeout", default=600, show_default=True, help="Seconds that a run may take.")
@click.option("--quick", is_flag=True, help="Small inputs, one run, nothing is recorded.")
@click.option("--again", is_flag=True, help="Measure cells anew that were measured before.")
@click.option("--no-runs", is_flag=True, help="Run nothing: show what was measured.")
@click.option(
    "--write", type=click.Path(path_type=Path), help="Keep the section in this Markdown file."
)
def main(
    *,
    workload: tuple[str, ...],
    system: tuple[str, ...],
    size: tuple[int, ...],
    batches: tuple[int, ...],
    runs: int,
    timeout: int,
    quick: bool,
    again: bool,
    no_runs: bool,
    write: Path | None,
) -> None:
    """Run the same joins through recalljoin and its peers."""
    print(machine())
    record = Record(None if quick else MADE / "runs.jsonl")
    wanted = chosen(workload, size, batches, quick=quick)
    for where in () if no_runs else wanted:
        with tempfile.TemporaryDirectory() as folder:
            measure(
                record, where, system or tuple(SYSTEMS), Path(folder),
                runs=1 if quick else runs, timeout=timeout, again=again,
            )  # fmt: skip
    for table in (systems, whole_runs, rates, target_table):
        table(record)
    if write is not None:
        write.write_text(with_section(write.read_text(), record))
        if record.runs:
            plot(record, write.parent / FIGURE)
    if different := unequal(record, record.inputs()):
        raise click.ClickException("results differ:\n" + "\n".join(different))


def measure(
    record: Record,
    where: Where,
    systems: tuple[str, ...],
    folder: Path,
    *,
    runs: int,
    timeout: float,
    again: bool,
) -> None:
    """Run systems over one input, in turn, as often as is missing.

    A system that failed is not tried again, and one whose time was over is not given more tuples.
    """
    made = WORKLOADS[where.workload].sized(where.n, where.n_batches)
    if again:
        for name in systems:
            record.forget(where, name)
    for number in range(runs):
        for name in systems:
            before = record.of(where, name)
            if len(before) > number or any(cell.failure for cell in before):
                continue
            if was_over := _was_over(record, where, name):
                cell = replace(was_over, n_tuples=made.n_streams * made.n)
            else:
                cell = run(SYSTEMS[name], made, folder, timeout)
            record.add(where, cell)
            _say(where, cell)


def _was_over(record: Record, where: Where, system: str) -> Cell | None:
    """A run over a smaller part of the same input for which the time was not enough."""
    for smaller in record.inputs():
        if smaller.n < where.n and smaller == where._replace(n=smaller.n):
            cell = record.median(smaller, system)
            if cell is not None and cell.failure.startswith("timeout"):
                return cell
    return None


def _say(where: Where, cell: Cell) -> None:
    what = f"{where.workload:>9} {where.n:>9,} {where.n_batches:>3}  {cell.system:<18}"
    told = cell.failure or (
        f"{cell.seconds:8.2f} s after {cell.start:.1f} s; {cell.n_results:,} results, "
        f"{cell.checksum}"
    )
    print(what, told, flush=True)


if __name__ == "__main__":
    main()

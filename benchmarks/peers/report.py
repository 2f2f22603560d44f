"""Tables and the figure of what was measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import Report, wrapped
from benchmarks.peers.record import unequal
from benchmarks.peers.systems import OFFLINE, SYSTEMS
from benchmarks.peers.targets import N, rate, targets
from benchmarks.peers.workloads import WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.peers.peer import Cell
    from benchmarks.peers.record import Record

SECTION = "## Peers"
"""Where the tables stand in the file they are written to."""
FIGURE = "figures/peers.svg"


def section(record: Record) -> str:
    """All that is written into the page."""
    made = wrapped(
        "The same joins through recalljoin and its peers, on the same machine and over the same "
        'tuples. Made by `make bench-peers ARGS="--write docs/performance.md"`, which runs what '
        "the targets need, as far as it was not run before: hours in all. `--workload`, "
        "`--system`, `--size` and `--batches` pick other cells, `--quick` tries everything on "
        "small inputs, `--again` "
        "measures cells anew, and `--no-runs` only writes what was measured. Each peer has an "
        "environment of its own in `.cache/peers`, made from the pinned versions in "
        "`benchmarks/peers/requirements/`. Everything is kept in `.cache/peers/runs.jsonl`. How "
        "long live results take is in `python -m benchmarks.spark_join latency`."
    )
    how = wrapped(
        "Every run is a process of its own. Counts and checksums over the results of all systems "
        "are equal, and are taken within the time by all. Times are medians, by the clock, with "
        "the start apart: on Spark all batches but the first, elsewhere a whole run less a second "
        "run over the first batch alone. Delays are no longer than the wait that each system is "
        "given, so that nothing is lost. Spark's own joins run as Spark does when nothing is set; "
        "the table of a batch says how much less a batch of theirs takes with the one setting that "
        "ours makes."
    )
    tables = [
        report.markdown().removeprefix("## ")
        for report in (systems(record), target_table(record), whole_runs(record), rates(record))
        if report.rows
    ]
    blocks = [SECTION, made, how, *(f"### {table}" for table in tables)]
    if record.runs:
        blocks.insert(3, f"![Throughput of all systems on all workloads]({FIGURE})")
        blocks.append(wrapped(f"Measured: {_measured_on(record)}; {_runs_of(record)}."))
    return "\n\n".join(blocks)


def _runs_of(record: Record) -> str:
    """How many runs a time is the median of."""
    counts = Counter((run.where, run.cell.system) for run in record.runs).values()
    fewest, most = min(counts), max(counts)
    return f"runs of each cell: {fewest if fewest == most else f'{fewest} to {most}'}"


def _measured_on(record: Record) -> str:
    """Machines, how busy they were, and days."""
    load = "load average "
    machines, loads = set(), []
    for run in record.runs:
        parts = run.machine.split(", ")
        machines.add(", ".join(part for part in parts if not part.startswith(load)))
        loads += [float(p.removeprefix(load)) for p in parts if p.startswith(load)]
    busy = f"{load}{min(loads):.1f} to {max(loads):.1f}"
    return "; ".join([*sorted(machines), busy, *sorted({run.day for run in record.runs})])


def systems(record: Record) -> Report:
    """Who was compared, and what each does."""
    report = Report("the systems", ("system", "version", "what it does", "start (s)"))
    for name, system in SYSTEMS.items():
        cells = [run.cell for run in record.runs if run.cell.system == name]
        good = [cell for cell in cells if not cell.failure]
        if good:
            starts = sorted(cell.start for cell in good)
            report.add(name, good[-1].version, system.does, f"{starts[len(starts) // 2]:.1f}")
        elif cells:
            report.add(name, cells[-1].failure.replace("|", "/"), system.does, "")
    return report


def target_table(record: Record) -> Report:
    """Targets, met or missed."""
    report = Report(
        "targets",
        ("target", "wanted", "measured", ""),
        note="Times are how much faster recalljoin is, with results in order.",
    )
    for target in targets(record):
        report.add(
            target.what,
            f"at least {target.number(target.wanted)}",
            target.number(target.measured),
            target.verdict,
        )
    return report


def whole_runs(record: Record) -> Report:
    """Seconds of every system on every input."""
    shown = [name for name in SYSTEMS if any(run.cell.system == name for run in record.runs)]
    report = Report(
        "whole runs",
        ("workload", "tuples a stream", "batches", "results", *(f"{name} (s)" for name in shown)),
        note="Batches are Spark's; to the others they are files, or nothing. "
        + " ".join(f"{w.name}: {w.title}." for w in WORKLOADS.values()),
    )
    order = list(WORKLOADS)
    for where in sorted(record.inputs(), key=lambda w: (order.index(w.workload), *w[1:])):
        if unequal(record, [where]):
            results = "**not equal**"
        else:
            results = ", ".join(f"{n:,}" for n, _ in record.results(where)) or "?"
        cells = (record.median(where, name) for name in shown)
        report.add(where.workload, f"{where.n:,}", where.n_batches, results, *map(_shown, cells))
    return report


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if not cell.failure:
        return f"{cell.seconds:.1f}" if cell.seconds > 0 else "too short"
    return cell.failure.partition(":")[0]


def rates(record: Record) -> Report:
    """Marginal rates."""
    report = Report(
        "marginal rates (M tuples/s)",
        ("system", "2-way", "3-way"),
        note="Of all streams together: how many tuples more a second more would take. From "
        "1,000,000 and 4,000,000 tuples a stream in 10 batches, of slow systems from fewer.",
    )
    for name in SYSTEMS:
        found = [rate(record, workload, name) for workload in ("two", "three")]
        if any(found):
            report.add(name, *("" if each is None else f"{each / 1e6:.2f}" for each in found))
    return report


def plot(record: Record, file: Path) -> None:
    """Tuples a second on every workload, and seconds as the 2-way join grows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    bars, lines = figure.subplots(1, 2, width_ratios=(2, 1))
    shown = [s for s in SYSTEMS if any(run.cell.system == s for run in record.runs)]
    _plot_workloads(record, shown, bars)
    _plot_growth(record, shown, lines)
    figure.legend(*bars.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})


def _plot_workloads(record: Record, shown: list[str], axes: Axes) -> None:
    sizes = [where.n for where in record.inputs()]
    n = N if N in sizes else max(sizes)
    groups = sorted(
        (where for where in record.inputs() if where.n == n), key=lambda where: where.n_batches
    )
    # Of each workload the fewest batches.
    first = {where.workload: where for where in reversed(groups)}
    names = [name for name in WORKLOADS if name in first]
    heights = []
    for i, system in enumerate(shown):
        rates_of = [_rate_of(record.median(first[name], system)) for name in names]
        heights += rates_of
        places = [g + (i - len(shown) / 2) * 0.8 / len(shown) for g in range(len(names))]
        axes.bar(places, rates_of, width=0.8 / len(shown), label=system, **_style(system))
    axes.set_xticks(range(len(names)), names, fontsize="small")
    if np.any(heights):
        axes.set_yscale("log")
    axes.set_ylabel("tuples/s")
    axes.set_title(f"{n:,} tuples a stream; hatched: no streams", fontsize="medium")


def _plot_growth(record: Record, shown: list[str], axes: Axes) -> None:
    inputs = sorted(w for w in record.inputs() if w.workload == "two" and w.n_batches == 10)
    for system in shown:
        cells = [(where.n, record.median(where, system)) for where in inputs]
        good = [(n, cell.seconds) for n, cell in cells if cell and _rate_of(cell)]
        is_offline = system in OFFLINE
        axes.plot(
            [n for n, _ in good],
            [seconds for _, seconds in good],
            color=_style(system)["color"],
            linestyle=":" if is_offline else "-",
            marker="o",
            markersize=3,
        )
    if any(np.size(line.get_xdata()) for line in axes.lines):
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel("tuples a stream")
    axes.set_ylabel("seconds")
    axes.set_title("2-way in 10 batches; dotted: no streams", fontsize="medium")


def _rate_of(cell: Cell | None) -> float:
    """Tuples a second; nothing if that is not known."""
    if cell is None or cell.failure or cell.seconds <= 0:
        return 0.0
    return cell.n_tuples / cell.seconds


def _style(system: str) -> dict[str, Any]:
    from matplotlib import colormaps

    colours = colormaps["tab20"].resampled(len(SYSTEMS))
    return {
        "color": colours(list(SYSTEMS).index(system)),
        "hatch": "////" if system in OFFLINE else None,
        "edgecolor": "white",
    }


def with_section(text: str, record: Record) -> str:
    """A Markdown text with the section made anew; everything else stays."""
    before, mark, after = text.partition(f"{SECTION}\n")
    rest = after.partition("\n## ")[1:] if mark else ("", "")
    following = "".join(rest).lstrip("\n")
    parts = [before.rstrip(), section(record), following.rstrip()]
    return "\n\n".join(part for part in parts if part) + "\n"

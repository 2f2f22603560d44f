"""Recall against K for all policies, beside the best fixed K in hindsight; and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.experiments.charts import COLOURS, NAMES, ChartGrid, plot
from recalljoin.experiments.experiment import KINDS, Experiment, Runs
from recalljoin.experiments.page import Table
from recalljoin.experiments.report import illustrated
from recalljoin.experiments.spec import TITLES, run_spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from recalljoin.experiments.page import Section
    from recalljoin.experiments.run import Run
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import Kind, RunSpec

POLICIES = ("eqsel", "noneqsel", "percentile", "slack")
ENOUGH = 0.97
"""Share of the measurements that must reach 99 % of the target Γ: the paper's own yardstick."""


def _chosen(scale: Scale, kind: Kind) -> dict[str, list[RunSpec]]:
    return {
        policy: [run_spec(scale.data(kind), policy, target) for target in scale.targets]
        for policy in POLICIES
    }


def _fixed(scale: Scale, kind: Kind) -> list[RunSpec]:
    data = scale.data(kind)
    return [run_spec(data, "none"), *(run_spec(data, "fixed", k=k) for k in scale.slacks)]


def _specs(scale: Scale) -> list[RunSpec]:
    return [
        spec
        for kind in KINDS
        for specs in (_fixed(scale, kind), *_chosen(scale, kind).values())
        for spec in specs
    ]


def _best(fixed: list[Run], target: float) -> Run | None:
    """The run with the smallest K that is enough; ``fixed`` is in order of K."""
    return next((run for run in fixed if run.phi(target, share=0.99) >= ENOUGH), None)


def _frontier(scale: Scale, runs: Runs) -> Section:
    grid = ChartGrid(
        [TITLES[kind] for kind in KINDS], ["results lost (1 − mean recall)"], "mean K (s)"
    )
    rows = []
    for column, kind in enumerate(KINDS):
        axes = grid.at(0, column)
        fixed = [runs[spec] for spec in _fixed(scale, kind)]
        plot(axes, [run.mean_k for run in fixed], [_lost(run) for run in fixed], "fixed")
        for policy, specs in _chosen(scale, kind).items():
            found = [runs[spec] for spec in specs]
            plot(axes, [r.mean_k for r in found], [_lost(r) for r in found], policy, line=":")
        _in_powers(axes)
        axes.set_yscale("log")
        for target in scale.targets:
            best = _best(fixed, target)
            cells = [f"{TITLES[kind]}, Γ = {target:g}"]
            cells.append("-" if best is None else f"{best.mean_k:.2f}")
            for policy in POLICIES:
                run = runs[run_spec(scale.data(kind), policy, target)]
                met = run.phi(target, share=0.99) >= ENOUGH
                cells.append(f"{run.mean_k:.2f}{'' if met else ' *'}")
            rows.append(tuple(cells))
    return illustrated(
        "frontier",
        "Recall against K, and the best fixed K in hindsight",
        grid.done(),
        text=(
            "Each point is a run: further left waits less, further down loses less. The line is a "
            "K that never changes; nobody knows beforehand which one to take. In the table: mean K "
            "in seconds, and the smallest fixed K tried with which 97 % of the measurements reach "
            "99 % of Γ. A star marks policies that did not reach that.",
        ),
        table=Table(("", "best fixed K (s)", *POLICIES), tuple(rows)),
        notes=(f"Fixed K tried: {', '.join(f'{k / 1000:g}' for k in (0, *scale.slacks))} s.",),
    )


def _lost(run: Run) -> float:
    # A value that a logarithmic axis cannot show is drawn at the end of the axis.
    return max(1 - run.mean_recall, 1e-6)


def _in_powers(axes: Axes) -> None:
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
    axes.set_xlim(-0.01, 40)


def _latency_specs(scale: Scale) -> list[RunSpec]:
    chosen = [
        spec
        for kind in KINDS
        for specs in _chosen(scale, kind).values()
        for spec in specs
    ]  # fmt: skip
    return chosen + [run_spec(scale.data(kind), "max") for kind in KINDS]


def _latency(scale: Scale, runs: Runs) -> Section:
    titles = [TITLES[kind] for kind in KINDS]
    grid = ChartGrid(titles, ["measured latency (s)"], "mean K (s)")
    rows = []
    for column, kind in enumerate(KINDS):
        axes = grid.at(0, column)
        axes.plot([0, 40], [0, 40], color=COLOURS["none"], linewidth=0.8)
        of = {p: [runs[spec] for spec in specs] for p, specs in _chosen(scale, kind).items()}
        of["max"] = [runs[run_spec(scale.data(kind), "max")]]
        for policy, found in of.items():
            latency = [run.latency() for run in found]
            plot(axes, [run.mean_k for run in found], latency, policy, line="none")
            for run in found:
                axes.plot(
                    [run.mean_k] * 2, [run.latency(), run.latency("p99")],
                    color=COLOURS[policy], linewidth=0.8,
                )  # fmt: skip
        for policy in (*POLICIES, "max"):
            run = runs[run_spec(scale.data(kind), policy, scale.focus)]
            numbers = [run.latency(which) for which in ("mean", "p50", "p95", "p99")]
            row = (f"{TITLES[kind]}: {NAMES[policy]}", f"{run.mean_k:.2f}")
            rows.append((*row, *(f"{number:.2f}" for number in numbers)))
        _in_powers(axes)
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_yticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
        axes.set_ylim(-0.01, 40)
    header = ("", "mean K (s)", "latency: mean (s)", "median (s)", "95 % (s)", "99 % (s)")
    return illustrated(
        "latency",
        "Latency as measured, beside K",
        grid.done(),
        text=(
            "From the arrival of the last member of a result to its release. A mark is the mean, "
            "the line above it reaches to the 99th percentile; on the grey line latency is K. "
            f"The table is for Γ = {scale.focus:g}.",
        ),
        table=Table(header, tuple(rows)),
        notes=(
            "A K that is large for one interval only is never waited out: what it held back leaves "
            "when it falls. So the two are far apart where K swings, as with the paper's model.",
        ),
    )


FRONTIER = Experiment("frontier", _specs, _frontier)
LATENCY = Experiment("latency", _latency_specs, _latency)

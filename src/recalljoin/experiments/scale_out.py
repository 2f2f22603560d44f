"""The same join over several cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.experiments.charts import ChartGrid, from_zero, plot
from recalljoin.experiments.experiment import Experiment, Runs
from recalljoin.experiments.page import Table
from recalljoin.experiments.report import illustrated, percent
from recalljoin.experiments.spec import TITLES, run_spec

if TYPE_CHECKING:
    from recalljoin.experiments.page import Section
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import Kind, RunSpec

KINDS: tuple[Kind, ...] = ("x3", "soccer")
POLICIES = ("slack",)
"""Only ``slack``: the paper's model needs cross-join sizes, which no single cell knows."""

_SAME = "The number of results is the same for any number of cells, as it must be."
_DIFFERENT = "The number of results depends on the number of cells: that is a fault."


def _spec(scale: Scale, kind: Kind, policy: str, cells: int) -> RunSpec:
    return run_spec(
        scale.data(kind), policy, 0.95, arrival_mode="tick", tick="10 ms", cells=cells, batch=5_000
    )


def _specs(scale: Scale) -> list[RunSpec]:
    return [_spec(scale, kind, p, c) for kind in KINDS for p in POLICIES for c in scale.cells]


def _section(scale: Scale, runs: Runs) -> Section:
    titles = [TITLES[kind] for kind in KINDS]
    grid = ChartGrid(titles, ["1000 tuples/s", "mean recall"], "cells")
    rows: list[tuple[str, ...]] = []
    faster: list[str] = []
    same = True
    for column, kind in enumerate(KINDS):
        for policy in POLICIES:
            found = [runs[_spec(scale, kind, policy, cells)] for cells in scale.cells]
            same &= len({run.numbers["produced"] for run in found}) == 1
            gain = found[-1].tuples_per_second / found[0].tuples_per_second
            faster.append(f"{gain:.2f} times ({TITLES[kind]})")
            speed = [run.tuples_per_second / 1000 for run in found]
            plot(grid.at(0, column), scale.cells, speed, policy)
            plot(grid.at(1, column), scale.cells, [run.mean_recall for run in found], policy)
            rows.extend(
                (
                    f"{TITLES[kind]}: {policy}, {cells} cell{'' if cells == 1 else 's'}",
                    f"{run.tuples_per_second:,.0f}",
                    f"{run.mean_k:.2f}",
                    f"{run.mean_recall:.4f}",
                    percent(run.phi(share=0.99)),
                    f"{run.numbers['produced']:,}",
                )
                for cells, run in zip(scale.cells, found, strict=True)
            )
        from_zero(grid.at(0, column))
        grid.at(1, column).axhline(0.95, color="#555555", linestyle="--", linewidth=0.9)
        grid.at(1, column).set_xscale("log", base=2)
        grid.at(1, column).set_xticks(scale.cells, [str(cells) for cells in scale.cells])
        grid.at(1, column).minorticks_off()
    header = ("", "tuples/s", "mean K (s)", "mean recall", "Φ(.99 Γ)", "results")
    return illustrated(
        "scale-out",
        "Over several cells, Γ = 0.95",
        grid.done(),
        text=(
            "Tuples arrive in ticks of 10 ms and K adapts once in a micro-batch of 5 s, as in a "
            "streaming query. Cells run beside each other in one task, on as many threads as there "
            "are cores. Equal keys meet in one cell; where there is no key to divide by, as in the "
            "match, each stream is divided by itself and copied to where the other's parts are.",
        ),
        table=Table(header, tuple(rows)),
        notes=(
            _SAME if same else _DIFFERENT,
            f"{scale.cells[-1]} cells are {', '.join(faster)} as fast as one. Every cell goes "
            "through every tick, and what the cells tell is put together by one thread.",
        ),
    )


SCALE_OUT = Experiment("scale-out", _specs, _section)

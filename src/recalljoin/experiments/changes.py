"""K over time, and what happens when the disorder changes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.experiments.charts import NAMES, over_time
from recalljoin.experiments.experiment import KINDS, Experiment, Runs
from recalljoin.experiments.jumps import Jumping
from recalljoin.experiments.page import Table
from recalljoin.experiments.report import illustrated
from recalljoin.experiments.spec import TITLES, run_spec

if TYPE_CHECKING:
    from recalljoin.experiments.page import Section
    from recalljoin.experiments.run import Run
    from recalljoin.experiments.scale import Scale
    from recalljoin.experiments.spec import Kind, RunSpec

POLICIES = ("noneqsel", "percentile", "max", "slack")
"""Policies in the order they are drawn: recalljoin's own comes last, on top."""
JUMPS: tuple[Kind, ...] = ("delays", "lag")
JUMP_TARGET = 0.95
JUMP_PERIOD = 30_000


def _k_specs(scale: Scale) -> list[RunSpec]:
    return [run_spec(scale.data(kind), p, scale.focus) for kind in KINDS for p in POLICIES]


def _k_over_time(scale: Scale, runs: Runs) -> Section:
    columns = {
        TITLES[kind]: {p: runs[run_spec(scale.data(kind), p, scale.focus)] for p in POLICIES}
        for kind in KINDS
    }
    rows = tuple(
        (
            f"{title}, {policy}",
            *(f"{np.quantile(run.k_over_time()[1], q):.2f}" for q in (0.05, 0.5, 0.95)),
            f"{_swing(run):.2f}",
        )
        for title, of in columns.items()
        for policy, run in of.items()
    )
    return illustrated(
        "k-over-time",
        f"K over time, Γ = {scale.focus:g}",
        over_time(columns, target=scale.focus),
        text=(
            "The wait in force, and the recall of the last period. The K of NonEqSel swings: its "
            "line is the median of each short stretch, and in its band are eight of ten values. In "
            "the table: quantiles of K over the run, and by how much it changes from one "
            "adaptation to the next on average.",
        ),
        table=Table(("", "5 % (s)", "median (s)", "95 % (s)", "mean change (s)"), rows),
    )


def _swing(run: Run) -> float:
    k = run.k_over_time()[1]
    return float(np.abs(np.diff(k)).mean()) if len(k) > 1 else 0.0


def _jump_spec(scale: Scale, kind: Kind, policy: str) -> RunSpec:
    return run_spec(scale.data(kind), policy, JUMP_TARGET, period=JUMP_PERIOD)


def _jump_specs(scale: Scale) -> list[RunSpec]:
    return [_jump_spec(scale, kind, policy) for kind in JUMPS for policy in POLICIES]


def _jump(scale: Scale, runs: Runs) -> Section:
    columns = {
        TITLES[kind]: {p: runs[_jump_spec(scale, kind, p)] for p in POLICIES} for kind in JUMPS
    }
    dataset = scale.data("delays").dataset()
    assert isinstance(dataset, Jumping)
    begin, end = (at / 60_000 for at in dataset.changes_at)
    rows = []
    for title, of in columns.items():
        for policy, run in of.items():
            rows.append((f"{title}: {NAMES[policy]}", *_thirds(run, begin, end)))
    header = ("", "K before (s)", "K during (s)", "K after (s)", "below Γ during (s)",
              "below Γ after (s)")  # fmt: skip
    return illustrated(
        "jump",
        f"A jump in the delays, Γ = {JUMP_TARGET:g}",
        over_time(columns, target=JUMP_TARGET, marks=(begin, end)),
        text=(
            "Left: delays of D_syn ×3 (up to 2 s, keys of constant skew) grow tenfold for the "
            "middle third, then shrink again. Right: stream s1 arrives 10 s later than the others "
            "for the middle third, then catches up within 10 s. P is 30 s. In the table: mean K in "
            "each third, and for how long the recall of the last period was below Γ.",
        ),
        table=Table(header, tuple(rows)),
    )


def _thirds(run: Run, begin: float, end: float) -> tuple[str, ...]:
    minutes, k = run.k_over_time()
    measured, recall = run.recall_over_time()
    parts = (minutes < begin, (minutes >= begin) & (minutes < end), minutes >= end)
    gap = 60 * float(np.median(np.diff(minutes)))
    below = recall < JUMP_TARGET
    lost = (below & (measured >= begin) & (measured < end), below & (measured >= end))
    return (
        *(f"{k[part].mean():.2f}" if part.any() else "-" for part in parts),
        *(f"{gap * int(part.sum()):.0f}" for part in lost),
    )


K_OVER_TIME = Experiment("k-over-time", _k_specs, _k_over_time)
JUMP = Experiment("jump", _jump_specs, _jump)

"""The figures of docs/choosing-k.md: ``python -m benchmarks.choosing_k_plots docs/figures``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from benchmarks.choosing_k_data import recording
from benchmarks.engine import prepare
from benchmarks.source_clocks_data import streams_of, with_sources
from recalljoin.experiments.charts import COLOURS
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack import STRETCH, RequiredSlack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

BLUE, ORANGE, GREY = (COLOURS[name] for name in ("slack", "noneqsel", "none"))
MINUTE = 60_000
QUERY = "SELECT count(*) FROM a [2 SEC], b [2 SEC] WHERE a.x = b.x WITH RECALL 0.95 OVER 1 MINUTE"


def needs_figure() -> Figure:
    """What stretches and periods of the three-stream data needed, and the K chosen."""
    made = recording("x3", 0)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    for axis, recall in zip(axes, (0.95, 0.99), strict=True):
        settings = PolicySettings(windows=(5000,) * 3, recall=recall)
        policy = RequiredSlack(settings, memory=100)
        record = run_adaptive(made.query, made.arrivals, policy, settings, truth=made.truth)
        for needs, length, colour, name in (
            (policy.stretches.known, STRETCH, GREY, "needed by 10 s"),
            (policy.periods.known, 60, BLUE, "needed by 1 min"),
        ):
            axis.plot(
                (np.arange(len(needs)) + length) / 60,
                needs / 1000,
                color=colour,
                lw=0.8,
                label=name,
            )
        minutes = (record.clock - record.clock[0]) / MINUTE
        axis.plot(minutes, record.k / 1000, color=ORANGE, lw=1.6, label="K")
        _finish(axis, f"K (s), recall {recall:g}")
    axes[-1].set_xlabel("time (min)")
    axes[0].legend(frameon=False, ncols=3, loc="upper right")
    return figure


def jump_figure() -> Figure:
    """K and recall while delays are tenfold for four minutes."""
    query, arrivals = _jumping_streams()
    settings = PolicySettings.of(query)
    record = run_adaptive(query, arrivals, make_policy("slack", settings), settings)
    figure = Figure(figsize=(8, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(record.clock / MINUTE, record.k / 1000, color=ORANGE)
    below.plot(record.join_time / MINUTE, record.recall, color=BLUE)
    below.axhline(0.95, color=GREY, lw=0.8, ls="--")
    for axis, name in ((above, "K (s)"), (below, "recall over 1 min")):
        axis.axvspan(4, 8, color=GREY, alpha=0.12, lw=0)
        _finish(axis, name)
    below.set_xlabel("time (min); delays are tenfold in the grey part")
    return figure


def _jumping_streams() -> tuple[BoundQuery, Arrivals]:
    rng = np.random.default_rng(0)
    tables = {}
    for name in "ab":
        ts = np.arange(0, 12 * MINUTE, 20, dtype=np.int64)
        delay = np.minimum(rng.exponential(1000, len(ts)), 6000) * (rng.random(len(ts)) < 0.3)
        delay *= np.where((ts >= 4 * MINUTE) & (ts < 8 * MINUTE), 10, 1)
        keys = rng.integers(0, 10, len(ts))
        made = pa.table({"ts": ts, "arrival": ts + delay.astype(np.int64), "x": keys})
        tables[name] = made.sort_by("arrival")
    return prepare(QUERY, tables)


def sources_figure() -> Figure:
    """The wait and the recall on phones, with and without sources."""
    query, arrivals = streams_of("umts-2", 0)
    figure = Figure(figsize=(8, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    settings = replace(PolicySettings.of(query), recall=0.99)
    for bound, colour, name in (
        (query, ORANGE, "without sources"),
        (with_sources(query, "device"), BLUE, "with sources"),
    ):
        policy = make_policy("slack", settings)
        record = run_adaptive(bound, arrivals, policy, settings, arrival="tick", tick=100)
        above.plot(_minutes(record.clock), record.wait / 1000, color=colour, lw=1.2, label=name)
        below.plot(_minutes(record.clock), record.recall, color=colour, lw=1.2)
    below.axhline(0.99, color=GREY, lw=0.8, ls="--")
    above.legend(frameon=False)
    for axis, name in ((above, "wait (s)"), (below, "recall over 1 min")):
        _finish(axis, name)
    below.set_xlabel("time (min)")
    return figure


def _minutes(clock: Int64s) -> Float64s:
    minutes: Float64s = (clock - clock[0]) / MINUTE
    return minutes


def _finish(axis: Axes, name: str) -> None:
    axis.set_ylabel(name)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--only", multiple=True, type=click.Choice(("needs", "jump", "sources")))
def main(folder: Path, only: tuple[str, ...]) -> None:
    """Draw the figures into FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"needs": needs_figure, "jump": jump_figure, "sources": sources_figure}
    for name in only or figures:
        figure = figures[name]()
        figure.savefig(folder / f"choosing-k-{name}.svg", metadata={"Date": None})
        print(folder / f"choosing-k-{name}.svg")


if __name__ == "__main__":
    main()

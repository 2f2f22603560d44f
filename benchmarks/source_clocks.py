"""The wait with and without sources, beside what hindsight could choose.

``python -m benchmarks.source_clocks [--data match ...] [--seeds 10] [--recall 0.99 ...]``

Measurements of all seeds are pooled; those of the first five periods do not count, nor does the
wait of that time. Beside the policy stand three waits that nobody can know beforehand: that of the
best fixed K, that of the best fixed pair of lead and slack on the clocks of sources, and the mean
of the best K of each single period, which no policy reaches.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from benchmarks.choosing_k import aligned, markdown
from benchmarks.measure import machine
from benchmarks.source_clocks_data import SOURCED, streams_of, with_sources
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.cell import Cell, Measures
from recalljoin.quality.period_needs import enough_for
from recalljoin.quality.policies import make_policy
from recalljoin.quality.replay import TickReplay
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD, SlackByTime, slot_width
from recalljoin.quality.source_lags import SourcePlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.quality.policy import Forecast, State
    from recalljoin.quality.profile import Profile
    from recalljoin.query.bound_query import BoundQuery

FIRST = 5
"""Periods at the beginning that do not count."""
MUST_REACH = {0.9: 0.95, 0.95: 0.95, 0.99: 0.95, 0.999: 0.9}
"""Share of the measurements that must reach the target, by recall."""
LEADS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995)
"""Leads that hindsight tries, as shares of the time in which the join does not stop."""
COLUMNS = (
    "data", "recall", "best fixed K", "best lead and K", "best per period", "without sources",
    "Φ(Γ) %", "Φ(.99Γ) %", "with sources", "Φ(Γ) %", "Φ(.99Γ) %",
)  # fmt: skip


class Looking:
    """A policy that never waits, with a fixed lead, and remembers the slack of all results."""

    name, uses_slack = "looking", True
    estimated_recall = None
    k = 0

    def __init__(self, settings: PolicySettings, lead: int, length: int) -> None:
        self.lead = lead
        width = slot_width(settings.period)
        n_slots = length // width + 2 * SLOTS_PER_PERIOD
        self.slack = SlackByTime(width=width, n_slots=n_slots, n_open=n_slots)

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.slack.observe(profile)

    def adapt(self) -> int:
        """Never wait."""
        return self.k

    def forecast(self) -> Forecast | None:
        """Nothing."""

    def snapshot(self) -> State:
        """Nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Nothing."""

    def needs(self, recall: float) -> Int64s:
        """The K that each period after the first ones would have needed."""
        assert self.slack.first is not None
        ends = range(self.slack.first + FIRST * SLOTS_PER_PERIOD, self.slack.last + 1)
        needs = self.slack.needs(SLOTS_PER_PERIOD, ends, recall=recall)
        return needs[needs >= 0]


@dataclass(frozen=True)
class Outcome:
    """One recall on one data set, all seeds pooled; waits in milliseconds."""

    data: str
    recall: float
    best_fixed: float
    best_pair: float
    per_period: float
    without: tuple[float, float, float]
    """Wait, Φ(Γ) and Φ(.99 Γ) of the policy that knows no sources."""
    sources: tuple[float, float, float]
    """The same of the policy that waits for sources."""

    def row(self) -> tuple[str, ...]:
        """Cells of a table."""
        cells = [self.data, f"{self.recall:g}"]
        cells += [f"{wait:.0f}" for wait in (self.best_fixed, self.best_pair, self.per_period)]
        for wait, phi, phi99 in (self.without, self.sources):
            cells += [f"{wait:.0f}", f"{100 * phi:.1f}", f"{100 * phi99:.2f}"]
        return tuple(cells)


@dataclass(frozen=True)
class Seed:
    """What one seed gives at one recall."""

    needs: Int64s
    """K that each period needed, without sources."""
    pairs: list[tuple[Int64s, float]]
    """For each lead the K that each period needed, and how long the join stood still."""
    ours: list[tuple[float, float, list[float]]]
    """Without and with sources: sum of the waits, their number, and the recalls measured."""


def run(name: str, seed: int, recalls: Sequence[float]) -> list[Seed]:
    """What one seed gives at each recall."""
    case = SOURCED[name]
    query, arrivals = streams_of(name, seed)
    sourced = with_sources(query, case.source)
    start, length = int(arrivals.ts.min()), int(np.ptp(arrivals.ts))
    truth = true_results(query, arrivals)
    found = []
    for recall in recalls:
        settings = replace(PolicySettings.of(query), recall=recall)
        with_ticks = partial(run_adaptive, settings=settings, arrival="tick", tick=case.tick)
        looking = Looking(settings, FOREVER, length)
        with_ticks(sourced, arrivals, looking)
        gaps = gaps_of(sourced, arrivals, settings, case.tick)
        pairs = []
        for lead in np.unique(np.quantile(gaps, LEADS).astype(np.int64)).tolist():
            at_lead = Looking(settings, lead, length)
            with_ticks(sourced, arrivals, at_lead)
            pairs.append((at_lead.needs(recall), float(np.maximum(gaps - lead, 0).mean())))
        ours = []
        for bound in (query, sourced):
            policy = make_policy("slack", settings)
            record = with_ticks(bound, arrivals, policy, truth=truth, slack=False)
            late = np.flatnonzero(record.join_time >= start + (1 + FIRST) * record.period)
            total, n = record.waits[late].sum(axis=0).tolist()
            ours.append((total, n, record.recall[late][record.counts[late]].tolist()))
        found.append(Seed(looking.needs(recall), pairs, ours))
    return found


def gaps_of(sourced: BoundQuery, arrivals: Arrivals, settings: PolicySettings, tick: int) -> Int64s:
    """How far the slowest source was behind the slowest stream after each tick."""
    pipeline = Pipeline(sourced, EngineSettings(arrival="tick", rows=False))
    cell = Cell(pipeline, Measures.of(settings))
    replay = TickReplay([cell], arrivals, None, tick, sources=SourcePlan.of(settings))
    assert replay.slowest is not None
    known = (replay.clocks.base != NEVER) & (replay.slowest != NEVER)
    gaps: Int64s = np.maximum(replay.clocks.base[known] - replay.slowest[known], 0)
    return gaps


def pooled(data: str, recall: float, runs: Sequence[Seed]) -> Outcome:
    """All seeds of one data set together."""
    share = MUST_REACH[recall]
    needs = np.concatenate([each.needs for each in runs])
    # The best pair is found for each seed: leads differ from seed to seed.
    best = [min(enough_for(n, share) + standing for n, standing in each.pairs) for each in runs]
    ours = []
    for at in range(2):
        total, n = np.sum([each.ours[at][:2] for each in runs], axis=0).tolist()
        measured = np.concatenate([each.ours[at][2] for each in runs])
        ours.append((total / n, *(float((measured >= s * recall).mean()) for s in (1, 0.99))))
    return Outcome(
        data, recall, enough_for(needs, share), float(np.mean(best)), float(needs.mean()),
        ours[0], ours[1],
    )  # fmt: skip


@click.command()
@click.option("--data", multiple=True, type=click.Choice(list(SOURCED)), default=list(SOURCED))
@click.option("--seeds", type=int, default=10, show_default=True)
@click.option(
    "--recall", "recalls", multiple=True, type=click.Choice([f"{r:g}" for r in MUST_REACH]),
    default=[f"{r:g}" for r in MUST_REACH],
)  # fmt: skip
@click.option("--table", is_flag=True, help="Print the table as Markdown.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Keep the numbers.")
def main(
    *, data: tuple[str, ...], seeds: int, recalls: tuple[str, ...], table: bool,
    json_file: Path | None,
) -> None:  # fmt: skip
    """Compare waits with and without sources."""
    wanted = [float(recall) for recall in recalls]
    outcomes = []
    for name in data:
        runs = [run(name, seed, wanted) for seed in range(seeds if SOURCED[name].seeded else 1)]
        for at, recall in enumerate(wanted):
            outcomes.append(pooled(name, recall, [each[at] for each in runs]))
            print(*outcomes[-1].row(), flush=True)
    rows = [COLUMNS, *(outcome.row() for outcome in outcomes)]
    print(markdown(rows) if table else f"{machine()}\n\n{aligned(rows)}")
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Disorder that comes back: how often the target is reached, and how long is waited for it.

``python -m benchmarks.recurring [--shape long ...] [--cycle 90 ...] [--seed 3 ...]``

Two streams are in order but for a tenth of a second. Once in every cycle comes a burst, in which
tuples are late by up to so many seconds, as from a job that uploads what it has gathered. They
arrive in ticks of a second, and recall is measured over a minute. Measurements of all seeds are
pooled; the first three cycles, and five minutes at least, do not count. Beside the policy stands
the best fixed K: the smallest one that was enough for 95 % of the same periods, which nobody knows
beforehand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa

from benchmarks.choosing_k import aligned, markdown
from benchmarks.engine import prepare
from benchmarks.measure import machine
from benchmarks.source_clocks import Looking
from recalljoin.engine.times import FOREVER
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.period_needs import enough_for
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s, Int64s

SECOND, MINUTE = 1000, 60_000
QUERY = "SELECT count(*) FROM a [2 SEC], b [2 SEC] WHERE a.x = b.x WITH RECALL 0.95 OVER 1 MINUTE"
TICK = SECOND
EVERY = 100
"""Milliseconds between two tuples of a stream."""
CYCLES, LENGTH = 12, 30 * MINUTE
"""A run has so many cycles, and is at least so long."""
FIRST_CYCLES, FIRST = 3, 5 * MINUTE
"""What does not count at the beginning."""
MUST_REACH = 0.95
"""Share of the measurements that must reach the target."""
DISORDER = SECOND
"""A period needs a larger K than this if a burst touches it."""
COLUMNS = (
    "shape", "cycle", "recall", "touched %", "best fixed K", "Φ(Γ) %", "Φ(.99Γ) %", "mean K",
    "ratio", "shown too high",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What bursts are like; milliseconds."""

    lasts: int
    late: int
    """By how much tuples are late at most."""
    share: float = 1.0
    """Share of the tuples that are late."""
    irregular: bool = False
    """Whether the calm between two bursts is exponential, and not always the same."""

    def begins(self, cycle: int, end: int, rng: np.random.Generator) -> Int64s:
        """When bursts begin."""
        calm = np.full(2 * end // cycle + 2, float(cycle - self.lasts))
        if self.irregular:
            calm = rng.exponential(calm)
        begins: Int64s = (np.cumsum(calm + self.lasts) - self.lasts).astype(np.int64)
        return begins[begins < end]


SHAPES = {
    "long": Shape(20 * SECOND, 25 * SECOND),
    "short": Shape(5 * SECOND, 10 * SECOND),
    "partial": Shape(20 * SECOND, 25 * SECOND, share=0.3),
    "irregular": Shape(20 * SECOND, 25 * SECOND, irregular=True),
    "hump": Shape(90 * SECOND, 15 * SECOND, share=0.5),
}
CYCLES_OF = (50, 90, 120, 180, 300, 600, 1200)
"""Seconds."""


@dataclass(frozen=True)
class Seed:
    """What one seed gives at one recall."""

    needs: Int64s
    """K that each period needed."""
    recall: Float64s
    k: Int64s
    too_high: float
    """By how much the recall shown was too high at most."""


def streams_of(
    shape: Shape, begins: Int64s, end: int, rng: np.random.Generator
) -> dict[str, pa.Table]:
    """Two streams with bursts."""
    tables = {}
    for name in "ab":
        ts = np.arange(0, end, EVERY, dtype=np.int64)
        newest = np.searchsorted(begins, ts, side="right") - 1
        is_late = (newest >= 0) & (ts < begins[np.maximum(newest, 0)] + shape.lasts)
        is_late &= rng.random(len(ts)) < shape.share
        usual = rng.uniform(0, 100, len(ts))
        delay = np.where(is_late, rng.uniform(0, shape.late, len(ts)), usual).astype(np.int64)
        columns = {"ts": ts, "arrival": ts + delay, "x": rng.integers(0, 10, len(ts))}
        tables[name] = pa.table(columns).sort_by("arrival")
    return tables


def run(shape: Shape, cycle: int, seed: int, recalls: Sequence[float]) -> list[Seed]:
    """What one seed gives at each recall."""
    rng = np.random.default_rng([seed, cycle])
    end = max(LENGTH, CYCLES * cycle)
    begins = shape.begins(cycle, end, rng)
    counts_from = max(FIRST, int(begins[FIRST_CYCLES - 1]) + cycle) + MINUTE
    query, arrivals = prepare(QUERY, streams_of(shape, begins, end, rng))
    truth = true_results(query, arrivals)
    settings = PolicySettings.of(query)
    looking = Looking(settings, FOREVER, end)
    run_adaptive(query, arrivals, looking, settings, arrival="tick", tick=TICK, truth=truth)
    slots = range(counts_from // looking.slack.width, looking.slack.last + 1)
    found = []
    for recall in recalls:
        asked = replace(settings, recall=recall)
        policy = make_policy("slack", asked)
        record = run_adaptive(
            query, arrivals, policy, asked, arrival="tick", tick=TICK, truth=truth, slack=False
        )
        late = record.join_time >= counts_from
        needs = looking.slack.needs(SLOTS_PER_PERIOD, slots, recall=recall)
        too_high = np.nanmax(record.reported.recall[late] - record.recall[late])
        found.append(Seed(needs[needs >= 0], record.recall[late], record.k[late], float(too_high)))
    return found


def pooled(shape: str, cycle: int, recall: float, seeds: Sequence[Seed]) -> tuple[str, ...]:
    """Cells of a table; times in seconds."""
    needs = np.concatenate([seed.needs for seed in seeds])
    measured = np.concatenate([seed.recall for seed in seeds])
    mean_k = float(np.concatenate([seed.k for seed in seeds]).mean()) / SECOND
    best = enough_for(needs, MUST_REACH) / SECOND
    phi, phi99 = (100 * float((measured >= s * recall).mean()) for s in (1, 0.99))
    return (
        shape, str(cycle), f"{recall:g}", f"{100 * (needs > DISORDER).mean():.1f}", f"{best:.2f}",
        f"{phi:.1f}", f"{phi99:.1f}", f"{mean_k:.2f}", f"{mean_k / max(best, 0.001):.2f}",
        f"{max(seed.too_high for seed in seeds):.3f}",
    )  # fmt: skip


@click.command()
@click.option(
    "--shape", "shapes", multiple=True, type=click.Choice(list(SHAPES)), default=[*SHAPES]
)
@click.option("--cycle", "cycles", multiple=True, type=int, default=CYCLES_OF, show_default=True)
@click.option("--seed", "seeds", multiple=True, type=int, default=[0, 1], show_default=True)
@click.option("--recall", "recalls", multiple=True, type=float, default=[0.9, 0.95, 0.99])
@click.option("--table", is_flag=True, help="Print the table as Markdown.")
def main(
    *, shapes: tuple[str, ...], cycles: tuple[int, ...], seeds: tuple[int, ...],
    recalls: tuple[float, ...], table: bool,
) -> None:  # fmt: skip
    """Judge the default policy where disorder comes back."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for name, cycle in itertools.product(shapes, cycles):
        if SHAPES[name].lasts < cycle * SECOND:
            runs = [run(SHAPES[name], cycle * SECOND, seed, recalls) for seed in seeds]
            for at, recall in enumerate(recalls):
                rows.append(pooled(name, cycle, recall, [each[at] for each in runs]))
                print(*rows[-1], flush=True)
    print(markdown(rows) if table else f"{machine()}\n\n{aligned(rows)}")


if __name__ == "__main__":
    main()

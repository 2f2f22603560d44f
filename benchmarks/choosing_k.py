"""Policies over many seeds of the paper's data: how often the target is reached, and at what K.

``python -m benchmarks.choosing_k [--data x3 --data x4] [--seeds 12] [--policy slack ...]``

Measurements of all seeds are pooled. Beside each policy stands the best fixed K in hindsight: the
smallest one with which as many of all measurements as must reach the target, and 99 % of it, do so.
Nobody knows it beforehand.
"""

from __future__ import annotations

import functools
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from benchmarks.engine import prepare
from benchmarks.measure import Report, machine
from recalljoin.datasets import make_syn_x3, make_syn_x4
from recalljoin.quality import PolicySettings, Timeline, make_policy, run_adaptive, true_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine import Arrivals
    from recalljoin.query import BoundQuery

DATA = {"x3": make_syn_x3, "x4": make_syn_x4}
MUST_REACH = {0.9: 0.95, 0.95: 0.95, 0.99: 0.95, 0.999: 0.9}
"""Share of the measurements that must reach each recall."""
MUST_NEARLY_REACH = 0.995
"""Share that must reach 99 % of it."""
LARGEST_K = 20_000
"""Milliseconds: no tuple of the data has a larger delay."""


@dataclass(frozen=True)
class Outcome:
    """Runs over all seeds, pooled."""

    phi: float
    phi99: float
    mean_k: float

    def is_good(self, recall: float) -> bool:
        """Whether it does what a policy is held to."""
        return self.phi >= MUST_REACH[recall] and self.phi99 >= MUST_NEARLY_REACH


@functools.cache
def recording(data: str, seed: int) -> tuple[BoundQuery, Arrivals, Timeline]:
    """The streams of one seed, ready for the engine, and their true results."""
    dataset = DATA[data](seed)
    tables = {name: dataset.table(name) for name in dataset.streams}
    query, arrivals = prepare(dataset.query, tables)
    return query, arrivals, true_results(query, arrivals)


def one_seed(
    data: str, seed: int, jobs: Sequence[tuple[str, float, int | None]]
) -> list[tuple[list[float], float]]:
    """Measurements and mean K of runs over one seed: policy, recall and K if it is fixed."""
    query, arrivals, truth = recording(data, seed)
    results = []
    for name, recall, k in jobs:
        settings = replace(PolicySettings.of(query), recall=recall)
        policy = make_policy(name, settings, **({} if k is None else {"k": k}))
        record = run_adaptive(query, arrivals, policy, settings, truth=truth, slack=False)
        results.append((record.measurements.tolist(), record.mean_k))
    return results


def pooled(
    pool: ProcessPoolExecutor,
    data: str,
    seeds: int,
    jobs: Sequence[tuple[str, float, int | None]],
) -> list[Outcome]:
    """Each job over all seeds."""
    runs = list(pool.map(one_seed, [data] * seeds, range(seeds), [jobs] * seeds))
    outcomes = []
    for number, (_, recall, _) in enumerate(jobs):
        measured = np.concatenate([run[number][0] for run in runs])
        mean_k = float(np.mean([run[number][1] for run in runs]))
        phi = float((measured >= recall).mean())
        outcomes.append(Outcome(phi, float((measured >= 0.99 * recall).mean()), mean_k))
    return outcomes


def best_fixed(pool: ProcessPoolExecutor, data: str, seeds: int) -> dict[float, int]:
    """The smallest K that is good, found for all recalls side by side."""
    enough = dict.fromkeys(MUST_REACH, LARGEST_K)
    too_few = dict.fromkeys(MUST_REACH, -10)
    while True:
        # To within one per cent, and never finer than g.
        open_ones = [r for r in MUST_REACH if enough[r] - too_few[r] > max(10, enough[r] // 100)]
        if not open_ones:
            return enough
        # Good slacks lie anywhere between a tenth of a second and twenty: halve their ratio first.
        tried = {
            r: max(
                (too_few[r] + 10) // 10 * 10,
                min(round((max(too_few[r], 10) * enough[r]) ** 0.5 / 10) * 10, enough[r] - 10),
            )
            for r in open_ones
        }
        jobs = [("fixed", r, tried[r]) for r in open_ones]
        for recall, outcome in zip(open_ones, pooled(pool, data, seeds, jobs), strict=True):
            side = enough if outcome.is_good(recall) else too_few
            side[recall] = tried[recall]


@click.command()
@click.option("--data", multiple=True, type=click.Choice(list(DATA)), default=list(DATA))
@click.option("--seeds", type=int, default=12, show_default=True)
@click.option("--policy", "policies", multiple=True, default=["slack"], show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Keep the numbers.")
def main(
    data: tuple[str, ...], seeds: int, policies: tuple[str, ...], json_file: Path | None
) -> None:
    """Pool runs over seeds and compare them with the best fixed K in hindsight."""
    print(machine())
    columns = ("data", "recall", "policy", "phi", "phi99", "mean K (s)", "best fixed (s)", "ratio")
    report = Report(f"Policies over {seeds} seeds", columns)
    kept = []
    with ProcessPoolExecutor(2) as pool:
        for name in data:
            fixed = best_fixed(pool, name, seeds)
            for policy in policies:
                jobs = [(policy, recall, None) for recall in MUST_REACH]
                outcomes = pooled(pool, name, seeds, jobs)
                for recall, outcome in zip(MUST_REACH, outcomes, strict=True):
                    ratio = outcome.mean_k / max(fixed[recall], 1)
                    report.add(
                        name, recall, policy, f"{outcome.phi:.3f}", f"{outcome.phi99:.4f}",
                        f"{outcome.mean_k / 1e3:.3f}", f"{fixed[recall] / 1e3:.2f}", f"{ratio:.2f}",
                    )  # fmt: skip
                    kept.append(
                        {"data": name, "recall": recall, "policy": policy, "phi": outcome.phi,
                         "phi99": outcome.phi99, "mean_k_ms": outcome.mean_k,
                         "best_fixed_k_ms": fixed[recall]}
                    )  # fmt: skip
    if json_file is not None:
        json_file.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Policies on all data there is: how often the target is reached, and how long is waited for it.

``python -m benchmarks.choosing_k [--data x3 ...] [--seeds 10] [--policy slack ...] [--recall 0.9]``

Measurements of all seeds are pooled; those of the first three periods do not count, nor does the K
of that time. Beside each policy stands the best fixed K in hindsight: the smallest one with which
as many of the same measurements reach the target as must. Nobody knows it beforehand. It is found
once and kept in a folder.
"""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.choosing_k_data import CASES, recording
from benchmarks.choosing_k_fixed import MUST_REACH, Kept, Search, counting
from benchmarks.measure import machine
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMES_BEST, OF_P99_DELAY = 1.5, 0.05
"""Mean K may be so many times the best fixed K, plus this share of the 99th delay percentile."""
JUDGED = (0.9, 0.95)
"""Recalls at which it is asked for."""
COLUMNS = (
    "data", "recall", "policy", "Φ(Γ) %", "Φ(.99Γ) %", "mean K (ms)", "best fixed (ms)",
    "ratio", "p99 delay (ms)", "allowed (ms)", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A policy on one case with one recall, all seeds pooled; milliseconds."""

    data: str
    recall: float
    policy: str
    phi: float
    phi99: float
    mean_k: float
    best_fixed: int
    p99_delay: float

    @property
    def allowed(self) -> float:
        """Largest mean K that is not waiting for nothing."""
        return TIMES_BEST * self.best_fixed + OF_P99_DELAY * self.p99_delay

    @property
    def verdict(self) -> str:
        """Whether the target is reached often enough without waiting for nothing."""
        if self.recall not in JUDGED:
            return ""
        faults = ["Φ"] * (self.phi < MUST_REACH[self.recall]) + ["K"] * (self.mean_k > self.allowed)
        return f"no: {', '.join(faults)}" if faults else "yes"

    def row(self) -> tuple[str, ...]:
        """Cells of a table."""
        return (
            self.data, f"{self.recall:g}", self.policy, f"{100 * self.phi:.1f}",
            f"{100 * self.phi99:.2f}", f"{self.mean_k:.1f}", str(self.best_fixed),
            f"{self.mean_k / max(self.best_fixed, 1):.2f}", f"{self.p99_delay:.0f}",
            f"{self.allowed:.1f}", self.verdict,
        )  # fmt: skip


def run_seed(
    data: str, seed: int, jobs: Sequence[tuple[str, float]], options: Mapping[str, Any]
) -> list[tuple[list[float], list[int]]]:
    """Measurements that count, and K at the same time, of each policy and recall."""
    case, made = CASES[data], recording(data, seed)
    results = []
    for name, recall in jobs:
        settings = replace(PolicySettings.of(made.query), recall=recall)
        policy = make_policy(name, settings, **options)
        record = run_adaptive(
            made.query, made.arrivals, policy, settings,
            arrival=case.arrival, tick=case.tick, truth=made.truth, slack=False,
        )  # fmt: skip
        late = counting(record, int(made.arrivals.ts[0]))
        results.append((record.recall[late & record.counts].tolist(), record.k[late].tolist()))
    return results


def find_best(name: str, folder: Path, recalls: Sequence[float]) -> tuple[dict[float, int], float]:
    """The best fixed K of each recall on a recording, and the 99th percentile of its delays."""
    search = Search(Kept(name, folder), [0], map)
    return {recall: search.best(recall) for recall in recalls}, search.p99_delay


def judge(
    data: Sequence[str], seeds: int, jobs: Sequence[tuple[str, float]],
    options: Mapping[str, Any], folder: Path,
) -> list[Outcome]:  # fmt: skip
    """Run policies with recalls on cases, two at a time."""
    recalls = list(dict.fromkeys(recall for _, recall in jobs))
    outcomes = []
    with ProcessPoolExecutor(2) as pool:
        single = [name for name in data if not CASES[name].seeded]
        searched = {name: pool.submit(find_best, name, folder, recalls) for name in single}
        found = {}
        for name in data:
            if name not in searched:
                search = Search(Kept(name, folder), range(seeds), pool.map)
                found[name] = {r: search.best(r) for r in recalls}, search.p99_delay
        begun = {
            name: [
                pool.submit(run_seed, name, seed, jobs, options)
                for seed in range(seeds if CASES[name].seeded else 1)
            ]
            for name in data
        }
        for name in data:
            best, p99 = searched[name].result() if name in searched else found[name]
            runs = [run.result() for run in begun[name]]
            for number, (policy, recall) in enumerate(jobs):
                measured = np.concatenate([run[number][0] for run in runs])
                k = np.concatenate([run[number][1] for run in runs])
                phi, phi99 = (float((measured >= s * recall).mean()) for s in (1, 0.99))
                outcomes.append(
                    Outcome(name, recall, policy, phi, phi99, float(k.mean()), best[recall], p99)
                )
    return outcomes


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns under one another, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """The same as Markdown."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _options(_: object, __: object, values: tuple[str, ...]) -> dict[str, Any]:
    return {name: json.loads(value) for name, _, value in (v.partition("=") for v in values)}


@click.command()
@click.option(
    "--data", multiple=True, help="A data set, or 'small' for the recordings.",
    type=click.Choice([*CASES, "small"]), default=list(CASES),
)  # fmt: skip
@click.option("--seeds", type=int, default=10, show_default=True)
@click.option("--policy", "policies", multiple=True, default=["slack"], show_default=True)
@click.option("--policy-option", "options", multiple=True, callback=_options, metavar="NAME=VALUE")
@click.option(
    "--recall", "recalls", multiple=True, type=click.Choice([f"{r:g}" for r in MUST_REACH]),
    default=[f"{r:g}" for r in MUST_REACH],
)  # fmt: skip
@click.option(
    "--cache", type=click.Path(path_type=Path), default="~/.cache/recalljoin/choosing-k",
    show_default=True, help="Where the best fixed K are kept.",
)  # fmt: skip
@click.option("--table", is_flag=True, help="Print the table as Markdown.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Keep the numbers.")
def main(
    *, data: tuple[str, ...], seeds: int, policies: tuple[str, ...], options: dict[str, Any],
    recalls: tuple[str, ...], cache: Path, table: bool, json_file: Path | None,
) -> None:  # fmt: skip
    """Judge policies beside the best fixed K in hindsight."""
    small = [name for name, case in CASES.items() if not case.seeded]
    names = list(dict.fromkeys(n for d in data for n in (small if d == "small" else [d])))
    jobs = list(itertools.product(policies, map(float, recalls)))
    outcomes = judge(names, seeds, jobs, options, cache.expanduser())
    rows = [COLUMNS, *(outcome.row() for outcome in outcomes)]
    if len(policies) == 1:
        rows = [row[:2] + row[3:] for row in rows]
    if table:
        print(markdown(rows))
    else:
        print(f"{machine()}\n\n{aligned(rows)}")
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Whether the engine has become slower: its time as a multiple of what numpy takes for a sort.

The sort is of the same tuples, in the same run, on the same core, so that the ratio depends little
on the machine. Each pair is run in turn several times, and the best of each counts. A ratio that is
well above the one in ``regressions.json`` fails `make check`. After a change that is meant to cost
time, `python -m benchmarks.regressions --write` stores the ratios as they are.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import click
import numpy as np

from benchmarks.engine import keyed, prepare, run
from recalljoin.engine.disorder import TupleDisorder
from recalljoin.engine.settings import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Callable

STORED = Path(__file__).with_name("regressions.json")
TOLERANCE = 1.6
"""A ratio may be this many times the stored one; twice as slow is found out."""
ROUNDS = 7
N = 50_000


@dataclass(frozen=True)
class Pair:
    """Something of the engine, and the computation it is measured by."""

    measured: Callable[[], object]
    reference: Callable[[], object]

    def ratio(self) -> float:
        """How many times as long the engine takes, best of several rounds of both."""
        best = [float("inf")] * 2
        for each in (self.measured, self.reference):
            each()
        for _ in range(ROUNDS):
            for at, each in enumerate((self.measured, self.reference)):
                begin = process_time()
                each()
                best[at] = min(best[at], process_time() - begin)
        return best[0] / best[1]


def _sort(keys: np.ndarray, times: int) -> None:
    for _ in range(times):
        # numpy's other sort uses vectors of the processor, which halve its time on some machines.
        np.sort(keys, kind="stable")


def pairs() -> dict[str, Pair]:
    """What is measured, by name."""
    tables = keyed(N, 1000, seed=1)
    random = np.random.default_rng(2)
    sort = partial(_sort, random.random(2 * N), 10)
    found: dict[str, Pair] = {}
    text = "SELECT {} FROM s1 [2000 ms], s2 [2000 ms] WHERE s1.id = s2.id"
    for name, select, settings in (
        ("counting results", "count(*)", EngineSettings(lost=False)),
        ("counting lost results", "count(*)", EngineSettings(slack=True)),
        ("rows", "*", EngineSettings(lost=False)),
    ):
        bound, arrivals = prepare(text.format(select), tables)
        found[name] = Pair(partial(run, bound, arrivals, settings, k=300), sort)
    bound, arrivals = prepare(text.format("*"), tables)
    late = arrivals.ts - random.integers(0, 200, len(arrivals))
    slack = np.full(len(arrivals), 300, dtype=np.int64)

    def handle() -> None:
        TupleDisorder(2).push(arrivals.stream, late, 0, k=slack)

    found["disorder"] = Pair(handle, sort)
    return found


@click.command()
@click.option("--write", is_flag=True, help="Store the ratios as they are now.")
def main(*, write: bool) -> None:
    """Compare ratios with those that are stored; exit code 1 if one is well above its own."""
    ratios = {name: pair.ratio() for name, pair in pairs().items()}
    if write:
        rounded = {name: float(f"{ratio:.3g}") for name, ratio in ratios.items()}
        STORED.write_text(json.dumps(rounded, indent=2) + "\n")
    stored: dict[str, float] = json.loads(STORED.read_text())
    slower = []
    for name, ratio in ratios.items():
        if ratio > TOLERANCE * stored[name]:
            # Once more: a machine that others use may have had no quiet moment.
            ratio = min(ratio, pairs()[name].ratio())  # noqa: PLW2901 - the better of two
        is_slower = ratio > TOLERANCE * stored[name]
        slower += [name] * is_slower
        mark = "SLOWER" if is_slower else "ok"
        click.echo(f"{mark:>6}  {name:<24} {ratio:6.2f} sorts, stored {stored[name]:.2f}")
    if slower:
        click.echo(
            f"the engine takes more than {TOLERANCE} times as long as it did for: "
            f"{', '.join(slower)}. If that is meant, call `python -m benchmarks.regressions "
            "--write` on a quiet machine and commit the file",
            err=True,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()

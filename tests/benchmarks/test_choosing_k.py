"""The benchmark that judges policies: the search for the best fixed K, and the verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.choosing_k import Outcome, aligned, markdown
from benchmarks.choosing_k_fixed import MUST_REACH, Kept, Search, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

LARGEST = 20_000


class Runs:
    """Stands for a pool: seed ``s`` reaches every recall in all measurements from ``at[s]`` on."""

    def __init__(self, at: list[int]) -> None:
        self.at = at
        self.n_run = 0

    def map(self, called: Callable[..., Any], *given: Iterable[Any]) -> list[Any]:
        calls = list(zip(*given, strict=True))
        if called is describe:
            return [(100.0 + seed, LARGEST - seed) for _, seed in calls]
        self.n_run += len(calls)
        return [[100, *[100 * (k >= self.at[seed])] * len(MUST_REACH)] for _, seed, k in calls]


@pytest.mark.parametrize("threshold", [0, 1, 2, 37, 640, 19_990])
@pytest.mark.parametrize("n_seeds", [1, 2, 6])
def test_the_smallest_slack_of_the_grid_that_is_enough_is_found(
    threshold: int, n_seeds: int, tmp_path: Path
) -> None:
    # All seeds but the first two need ten times as much or as little, so that these mislead.
    for factor in (0.1, 1, 10):
        others = min(int(threshold * factor), LARGEST)
        runs = Runs([threshold, threshold, *[others] * (n_seeds - 2)])
        search = Search(Kept("x3", tmp_path / str(factor)), range(n_seeds), runs.map)
        needed = max(runs.at[:n_seeds])
        smallest = int(search.grid[np.searchsorted(search.grid, needed)])
        assert search.best(0.95) == smallest
        assert smallest <= max(needed + 1, 1.03 * needed)


def test_what_was_found_is_not_run_again(tmp_path: Path) -> None:
    first = Runs([50, 60, 70])
    found = Search(Kept("x3", tmp_path), range(3), first.map).best(0.9)
    assert first.n_run > 0
    second = Runs([50, 60, 70])
    again = Search(Kept("x3", tmp_path), range(3), second.map)
    assert again.best(0.9) == found
    assert again.p99_delay == 101
    assert second.n_run == 0
    (file,) = tmp_path.iterdir()
    assert set(json.loads(file.read_text())) == {"counts", "delays"}


def test_two_searches_at_once_keep_what_both_have_found(tmp_path: Path) -> None:
    one, two = Kept("x3", tmp_path), Kept("x3", tmp_path)
    one.counts["0/10"], two.counts["1/20"] = [1, 1, 1, 1, 1], [2, 2, 2, 2, 2]
    one.write()
    two.write()
    assert set(Kept("x3", tmp_path).counts) == {"0/10", "1/20"}
    assert len(list(tmp_path.iterdir())) == 1


def _outcome(**given: Any) -> Outcome:
    usual: dict[str, Any] = {
        "data": "x3", "recall": 0.95, "policy": "slack", "phi": 0.96, "phi99": 1.0,
        "mean_k": 150.0, "best_fixed": 90, "p99_delay": 300.0,
    }  # fmt: skip
    return Outcome(**(usual | given))


def test_a_policy_must_reach_the_target_often_and_not_wait_for_nothing() -> None:
    assert _outcome().allowed == 1.5 * 90 + 0.05 * 300
    assert _outcome().verdict == "yes"
    assert _outcome(phi=0.949).verdict == "no: Φ"
    assert _outcome(mean_k=150.1).verdict == "no: K"
    assert _outcome(phi=0.5, mean_k=1e4).verdict == "no: Φ, K"
    assert _outcome(recall=0.99, phi=0.5).verdict == ""


def test_tables_are_aligned_or_markdown() -> None:
    rows = [("data", "K"), ("x3", "150.0")]
    assert aligned(rows) == "data      K\nx3    150.0"
    assert markdown(rows) == "| data | K |\n|---|---|\n| x3 | 150.0 |"

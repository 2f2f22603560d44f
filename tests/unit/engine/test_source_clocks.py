"""Clocks of sources: who matters, who is forgotten, and how many are followed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from recalljoin.engine.source_clocks import SourceClocks
from recalljoin.engine.times import NEVER


def follow(
    clocks: SourceClocks, tuples: list[tuple[int, int, int]], fronts: list[int]
) -> list[tuple[int, int]]:
    """Slowest clock and its source after each tick; tuples are (tick, source, time)."""
    tick, source, ts = (np.array(c, dtype=np.int64) for c in zip(*tuples, strict=True))
    ones = np.ones(len(ts), dtype=np.int64)
    slowest, holder = clocks.advance(tick, source, ts, ones, np.array(fronts, dtype=np.int64))
    return list(zip(slowest.tolist(), holder.tolist(), strict=True))


def test_the_slowest_source_holds() -> None:
    clocks = SourceClocks(epoch=100, spare=0.0)
    tuples = [(0, 7, 10), (0, 8, 12), (1, 8, 20), (2, 7, 15), (2, 7, 11)]
    assert follow(clocks, tuples, [10, 18, 20]) == [(10, 7), (10, 7), (15, 7)]


def test_light_sources_are_passed_over_together() -> None:
    clocks = SourceClocks(epoch=100, spare=0.25)
    heavy = [(0, 1, 50)] * 6
    # Two of eight are a quarter; three of nine are more.
    assert follow(clocks, [*heavy, (0, 2, 5), (0, 3, 9)], [50]) == [(50, 1)]
    assert follow(clocks, [(0, 4, 7)], [50]) == [(9, 3)]


def test_a_dead_source_holds_for_two_epochs_at_most_and_is_forgotten() -> None:
    clocks = SourceClocks(epoch=10, spare=0.0)
    tuples = [(0, 1, 1), (0, 2, 0), *((n, 1, 4 * n) for n in range(1, 8))]
    found = follow(clocks, tuples, [4 * n for n in range(8)])
    assert [holder for _, holder in found] == [2] * 6 + [1, 1]
    assert clocks.n_sources == 1


def test_a_source_that_returns_may_hold_again() -> None:
    clocks = SourceClocks(epoch=10, spare=0.0)
    tuples = [(0, 1, 0), (0, 2, 0), *((n, 1, 4 * n) for n in range(1, 8)), (8, 2, 3)]
    assert follow(clocks, tuples, [4 * n for n in range(9)])[-1] == (3, 2)


def test_sources_beyond_the_most_share_a_clock() -> None:
    clocks = SourceClocks(epoch=10, spare=0.0, most=2)
    tuples = [(0, 1, 30), (0, 2, 30), (0, 3, 5), (0, 4, 20)]
    assert follow(clocks, tuples, [30]) == [(20, 0)]
    assert clocks.n_sources == 2


def test_those_furthest_behind_are_told_though_light_ones_are_passed_over() -> None:
    clocks = SourceClocks(epoch=100, spare=0.25)
    heavy = [(0, 1, 50)] * 6
    assert follow(clocks, [*heavy, (0, 9, 5), (0, 2, 60), (0, 3, 5)], [50])[-1] == (50, 1)
    told = [each.tolist() for each in clocks.furthest_behind(3)]
    assert told == [[3, 9, 1], [5, 5, 50]]
    assert [len(each) for each in clocks.furthest_behind(9)] == [4, 4]


def test_no_source_no_clock() -> None:
    none = np.empty(0, dtype=np.int64)
    slowest, _ = SourceClocks(epoch=1, spare=0.0).advance(
        none, none, none, none, np.array([NEVER], dtype=np.int64)
    )
    assert slowest.tolist() == [NEVER]


def test_a_snapshot_goes_on_as_if_never_interrupted() -> None:
    random = np.random.default_rng(0)
    tuples: list[Any] = [
        (n // 5, int(random.integers(1, 40)), n + int(random.integers(0, 9))) for n in range(600)
    ]
    fronts = list(range(0, 600, 5))
    whole = follow(SourceClocks(epoch=50, spare=0.1, most=30), tuples, fronts)
    first, second = (SourceClocks(epoch=50, spare=0.1, most=30) for _ in range(2))
    found = follow(first, tuples[:300], fronts[:60])
    second.restore(json.loads(json.dumps(first.snapshot())))
    rest = [(tick - 60, source, ts) for tick, source, ts in tuples[300:]]
    assert found + follow(second, rest, fronts[60:]) == whole

"""Enumerating in bounded chunks: kernels stop when their output is full and go on later."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.engine import operator
from recalljoin.engine.block_machine import BLOCK
from recalljoin.engine.probe import Partials, empty_partials, extended
from tests.unit.engine.inputs import bound, members, run

# More tuples than one block of a scan, and more than the rings hold at first.
N = 2 * BLOCK + 100


def test_partial_results_are_chosen_by_mask_or_place() -> None:
    partials = Partials(
        np.array([[1, 2, 3], [4, 5, 6]]),
        np.array([7, 8, 9]),
        np.array([0, 1, 2]),
        np.array([3, 4, 5]),
    )
    by_mask = partials.select(np.array([True, False, True]))
    by_place = partials.select(np.array([0, 2]))
    for one, other in zip(by_mask, by_place, strict=True):
        assert one.tolist() == other.tolist()
    assert by_mask.members.tolist() == [[1, 3], [4, 6]]
    assert len(empty_partials(3, 4).root) == 4


def test_a_longer_partial_result_keeps_both_ends_of_its_time() -> None:
    partials = Partials(
        np.array([[0, 1], [0, 0]]), np.array([5, 6]), np.array([10, 20]), np.array([15, 25])
    )
    found, found_ts = np.array([2, 2, 3]), np.array([12, 12, 18])
    longer = extended(partials, np.array([0, 1, 1]), found, found_ts, 1, 4)
    assert longer.members.tolist() == [[0, 1, 1], [2, 2, 3]]
    assert longer.root.tolist() == [5, 6, 6]
    assert longer.newest.tolist() == [12, 20, 20]
    assert longer.last_call.tolist() == [15, 16, 22]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("s1.a = s2.a", N),  # by key
        ("s1.a >= s2.a", N),  # by a scan with a program
        (None, N),  # by a scan without
        ("s1.a = s2.a OR s1.a < 0", N),  # by a scan, checked on columns
        ("s1.a = s2.a AND s2.n < s1.n", N),  # by key, checked by a program
    ],
)
@pytest.mark.parametrize("chunk", [BLOCK, BLOCK + 1, 2 * BLOCK + 99, 65_536])
def test_one_trigger_finds_all_its_partners_whatever_the_size_of_a_chunk(
    condition: str | None, count: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "CHUNK", chunk)
    query = bound(condition, windows=(10, 10))
    rows = [(2, i % 7, 1) for i in range(N)] + [(1, 9, 1)]
    results, steps = run(query, sorted(rows, key=lambda row: row[1]), k=0)
    found = members(results)
    assert len(found) == len(set(found)) == count
    assert sum(step.n_produced for step in steps) == count


def test_a_scan_goes_on_where_the_ring_starts_over() -> None:
    # 64 places at first: after a while the window lies across the end of its ring.
    query = bound("s1.a < s2.a", windows=(30, 30))
    rows = [(s, ts, s) for ts in range(300) for s in (1, 2)]
    results, _ = run(query, rows, k=0)
    assert len(results) == sum(1 for a in range(300) for b in range(300) if abs(a - b) <= 30)


def test_a_trigger_does_not_meet_tuples_received_after_it() -> None:
    # All tuples of a push are in the windows before the first is probed.
    query = bound("s1.a = s2.a", windows=(10, 10))
    results, _ = run(query, [(1, 5, 0), (2, 5, 0), (1, 5, 0), (2, 5, 0)], k=0)
    assert sorted(members(results)) == [(0, 1), (0, 3), (2, 1), (2, 3)]

"""Counts by time."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.quality.tally import Tally

pairs = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 5)), max_size=30)


def tally(items: list[tuple[int, int]], *, bucket: int = 1) -> Tally:
    times = np.array([time for time, _ in items], dtype=np.int64)
    counts = np.array([count for _, count in items], dtype=np.int64)
    return Tally.of(times, counts, bucket=bucket)


def as_dict(t: Tally) -> dict[int, int]:
    assert (np.diff(t.keys) > 0).all()
    return dict(zip(t.keys.tolist(), t.counts.tolist(), strict=True))


@given(pairs, st.integers(1, 7))
def test_counts_are_added_up_by_bucket(items: list[tuple[int, int]], bucket: int) -> None:
    expected: Counter[int] = Counter()
    for time, count in items:
        expected[time // bucket] += count
    counted = tally(items, bucket=bucket)
    assert as_dict(counted) == {key: n for key, n in expected.items() if n}
    assert counted.total == sum(count for _, count in items)


@given(pairs, pairs)
def test_the_sum_of_two_is_the_tally_of_both(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    assert as_dict(tally(one) + tally(other)) == as_dict(tally(one + other))


@given(pairs)
def test_survives_json(items: list[tuple[int, int]]) -> None:
    content = json.loads(json.dumps(tally(items).to_json()))
    assert as_dict(Tally.from_json(content)) == as_dict(tally(items))


def test_times_count_once_each_if_nothing_else_is_said() -> None:
    assert as_dict(Tally.of(np.array([4, 2, 4]))) == {2: 1, 4: 2}

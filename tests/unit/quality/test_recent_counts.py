"""Counts by time take memory for what was counted, not for the time that has passed."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.quality.recall import RecallMeter
from recalljoin.quality.recent_counts import PAGE, RecentCounts
from recalljoin.quality.tally import Tally
from tests.unit.quality.test_recall import seen

DAY = 24 * 3600 * 1_000_000
"""In microseconds, the unit of Spark's timestamps."""


def tally(counts: dict[int, int]) -> Tally:
    keys = np.array(list(counts), dtype=np.int64)
    return Tally.of(keys, np.array(list(counts.values()), dtype=np.int64))


counts = st.dictionaries(
    st.integers(-3 * PAGE, 3 * PAGE), st.integers(1, 9), min_size=1, max_size=5
)


@given(
    st.lists(st.tuples(st.integers(0, 1), counts, st.integers(-300, 300)), max_size=8),
    st.integers(1, 3 * PAGE),
    st.integers(-300, 300),
    st.integers(0, 200),
)
def test_pages_count_like_a_list_of_everything(
    steps: list[tuple[int, dict[int, int], int]], n_kept: int, first: int, n: int
) -> None:
    made = RecentCounts(2, n_kept)
    known: list[Counter[int]] = [Counter(), Counter()]
    for row, added, key in steps:
        made.add(row, tally(added))
        made.advance(key)
        known[row].update({at: c for at, c in added.items() if at > max(added) - n_kept})
        for each in known:
            for at in [at for at in each if at <= made.newest - n_kept]:
                del each[at]
    found = made.between(first, first + n)
    for row, each in enumerate(known):
        assert found[row].tolist() == [each[at] for at in range(first, first + n + 1)]
        kept = sorted(each.items())
        assert list(zip(*made.row(row).to_json(), strict=True)) == kept


def test_a_meter_takes_no_memory_for_the_length_of_its_windows() -> None:
    # Two hundred tuples over ninety days, in windows of a hundred years.
    tracemalloc.start()
    made = RecallMeter(period=60_000_000, windows=(36_500 * DAY,) * 2, bucket=60_000)
    for n in range(200):
        at = n * 90 * DAY // 200
        made.observe(seen(at, {at: 1}, received=({at: 1}, {at: 1}), bucket=60_000))
        assert made.measure().recall == 1.0
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000

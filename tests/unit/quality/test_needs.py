"""The K each period would have needed, and changes of the disorder."""

from __future__ import annotations

import numpy as np

from recalljoin.quality.needs import PeriodNeeds, sparse, unsparse


def needs(*, recall: float = 0.9, n_intervals: int = 6, memory: int = 1000) -> PeriodNeeds:
    return PeriodNeeds(recall=recall, n_intervals=n_intervals, memory=memory)


def at(step: int, n: int = 100) -> np.ndarray:
    """An interval with ``n`` results, nine tenths of which need nothing and the rest ``step``."""
    bins = np.zeros(step + 1, dtype=np.int64)
    bins[0] += n * 8 // 10
    bins[step] += n * 2 // 10
    return bins


def test_a_need_is_the_smallest_k_that_reaches_the_recall_over_the_period() -> None:
    made = needs(n_intervals=2)
    made.observe(np.array([80, 15, 5]))
    assert list(made.needed) == []
    made.observe(np.array([95, 0, 0, 5]))
    # 175, 190, 195, 200 of 200 results: 180 are asked for.
    assert list(made.needed) == [1]


def test_a_period_without_results_needs_nothing_and_says_nothing() -> None:
    made = needs(n_intervals=2)
    for _ in range(5):
        made.observe(np.array([0]))
    assert list(made.needed) == []


def test_enough_for_a_share_is_a_quantile_of_the_needs() -> None:
    made = needs()
    made.needed.extend(range(1, 101))
    assert made.enough_for(0.5) == 50
    assert made.enough_for(0.97) == 97
    assert made.enough_for(1) == 100


def test_a_surge_ends_the_memory_and_only_what_showed_it_remains() -> None:
    made = needs()
    for _ in range(20):
        assert not made.observe(at(10))
    assert made.enough_for(0.97) == 10
    assert made.observe(at(100))
    assert list(made.needed) == []
    for _ in range(6):
        made.observe(at(100))
    assert made.enough_for(0.97) == 100


def test_ordinary_noise_is_no_surge() -> None:
    made = needs()
    rng = np.random.default_rng(1)
    assert not any(made.observe(at(int(step))) for step in rng.integers(8, 15, 500))


def test_relief_is_noticed_once_needs_were_small_for_most_of_a_period() -> None:
    made = needs()
    for _ in range(30):
        made.observe(at(100))
    seen = [made.observe(at(5)) for _ in range(2 * 6)]
    # With half of the period clean, a tenth of its results need more and the need is small; five
    # small ones in a row, from the third interval to the seventh, are relief.
    assert seen.index(True) == 6
    assert made.enough_for(0.97) == 5


def test_a_snapshot_goes_on_as_the_original() -> None:
    made, other = needs(), needs()
    for step in (10, 12, 9, 30, 10, 11, 14, 10):
        made.observe(at(step))
    other.restore(made.snapshot())
    for step in (10, 40, 12):
        assert made.observe(at(step)) == other.observe(at(step))
    assert list(made.needed) == list(other.needed)
    assert list(made.short) == list(other.short)


def test_a_histogram_comes_back_from_its_sparse_form() -> None:
    bins = np.array([0, 3, 0, 0, 7])
    assert unsparse(sparse(bins)).tolist() == bins.tolist()
    assert unsparse(sparse(np.array([0]))).tolist() == [0]

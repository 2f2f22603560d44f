"""The recall model for all K at once against sums that follow the printed equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.quality.paper.recall_model import DelayModel, delay_model, estimate_recall

histograms = st.lists(st.integers(0, 9), min_size=1, max_size=40)


def distribution(histogram: list[int]) -> list[float]:
    return [n / sum(histogram) for n in histogram]


def literal_in_order(histogram: list[int], k: int, k_sync: float, g: int) -> float:
    """Eq. (2) for d = 0."""
    last = int((k + k_sync) // g)
    return sum(distribution(histogram)[: last + 1])


def literal_content(
    histogram: list[int], k: int, k_sync: float, *, window: int, b: int, g: int
) -> float:
    """Eq. (3) without the rate, summed over the basic windows; the part of Eq. (2) for d > 0."""
    f = distribution(histogram)
    shift = int((k + k_sync) // g)
    after = [sum(f[: shift + 1]), *f[shift + 1 :]]
    n = -(-window // b)
    total = 0.0
    for basic in range(1, n + 1):
        size = b if basic < n else window - (n - 1) * b
        total += size * sum(after[: (basic - 1) * b // g + 1])
    return total


@given(
    histograms.filter(any),
    st.sampled_from((0.0, 3.0, 10.0, 25.5, 300.0)),
    st.integers(1, 60),
    st.integers(1, 25),
    st.integers(1, 25),
)
def test_all_k_at_once_is_every_k_on_its_own(
    histogram: list[int], k_sync: float, window: int, b: int, g: int
) -> None:
    b = min(b, window)
    model = delay_model(
        np.array(histogram),
        k_sync=k_sync,
        window=window,
        basic_window=b,
        granularity=g,
        n_k=len(histogram) + 3,
    )
    for n in range(len(histogram) + 3):
        in_order = literal_in_order(histogram, n * g, k_sync, g)
        content = literal_content(histogram, n * g, k_sync, window=window, b=b, g=g)
        assert model.in_order[n] == pytest.approx(in_order)
        assert model.content[n] == pytest.approx(content)


@given(histograms.filter(any), st.integers(1, 60), st.integers(1, 25), st.integers(1, 25))
def test_with_a_k_beyond_the_largest_delay_nothing_is_missing_exactly(
    histogram: list[int], window: int, b: int, g: int
) -> None:
    n_k = len(histogram)
    models = [
        delay_model(np.array(part), k_sync=0, window=window, basic_window=b, granularity=g, n_k=n_k)
        for part in (histogram, histogram[::-1], histogram)
    ]
    recall = estimate_recall(np.ones(n_k), streams=models, windows=(window,) * 3)
    assert recall[-1] == 1.0
    assert (np.diff(recall) >= -1e-12).all()


def test_a_stream_without_tuples_loses_none() -> None:
    model = delay_model(np.zeros(1, int), k_sync=0, window=7, basic_window=2, granularity=1, n_k=3)
    assert model.in_order.tolist() == [1, 1, 1]
    assert model.content.tolist() == [7, 7, 7]


def test_a_window_of_zero_holds_the_tuples_of_one_instant() -> None:
    model = delay_model(
        np.array([3, 1]), k_sync=0, window=0, basic_window=10, granularity=10, n_k=2
    )
    assert model.content.tolist() == [0.75, 1.0]
    recall = estimate_recall(np.ones(2), streams=[model, model], windows=(0, 0))
    assert recall.tolist() == [0.75 * 0.75, 1.0]


def test_streams_count_by_the_product_of_the_other_windows() -> None:
    full, half = DelayModel(np.ones(1), np.array([10.0])), DelayModel(np.ones(1), np.array([2.0]))
    # Window 1 is 10 and full, window 2 is 4 and half full: (1 * 2 + 1 * 10) / (4 + 10)
    assert estimate_recall(np.ones(1), streams=[full, half], windows=(10, 4)) == 12 / 14

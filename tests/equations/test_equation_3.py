"""Equation (3): how full the basic windows are, worked out by hand and divided by the rate."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.paper.recall_model import delay_model

# f(0..4) = 0.5, 0.2, 0.1, 0, 0.2;  up to d:  0.5, 0.7, 0.8, 0.8, 1
HISTOGRAM = np.array([5, 2, 1, 0, 2])


def content(
    histogram: np.ndarray[tuple[int], np.dtype[np.int64]] = HISTOGRAM,
    *,
    window: int,
    basic_window: int,
    granularity: int,
    n_k: int,
) -> list[float]:
    model = delay_model(
        histogram,
        k_sync=0,
        window=window,
        basic_window=basic_window,
        granularity=granularity,
        n_k=n_k,
    )
    return [float(value) for value in model.content]


def test_older_basic_windows_are_more_complete() -> None:
    # W = 25 in basic windows of 10, 10 and the remaining 5; b = g, so the l-th counts f up to l-1.
    # K =  0: 10 * 0.5 + 10 * 0.7 + 5 * 0.8 = 5 + 7 + 4 = 16
    # K = 10: 10 * 0.7 + 10 * 0.8 + 5 * 0.8 = 7 + 8 + 4 = 19
    # K = 20: 10 * 0.8 + 10 * 0.8 + 5 * 1   = 8 + 8 + 5 = 21
    # K = 30: 10 * 0.8 + 10 * 1   + 5 * 1   = 23;  K = 40: all 25
    found = content(window=25, basic_window=10, granularity=10, n_k=5)
    assert found == pytest.approx([16, 19, 21, 23, 25])


def test_larger_basic_windows_expect_less() -> None:
    # b = 20: windows of 20 and 5; the second counts f up to 20/10 = 2: 20 * 0.5 + 5 * 0.8 = 14
    assert content(window=25, basic_window=20, granularity=10, n_k=1) == pytest.approx([14])


def test_one_basic_window_counts_tuples_in_order_only() -> None:
    # n = 1: 25 * 0.5
    assert content(window=25, basic_window=25, granularity=10, n_k=1) == pytest.approx([12.5])


def test_basic_windows_smaller_than_the_granularity() -> None:
    # g = 20 and b = 10: the second begins 10/20 of a step back, which is no whole one, the third
    # one step back. f(0..2) = 0.5, 0.3, 0.2: 10 * 0.5 + 10 * 0.5 + 5 * 0.8 = 14
    found = content(np.array([5, 3, 2]), window=25, basic_window=10, granularity=20, n_k=1)
    assert found == pytest.approx([14])


def test_basic_windows_that_are_no_multiple_of_the_granularity() -> None:
    # b = 15, g = 10, W = 40: 15, 15 and 10, which begin 0, 1.5 and 3 steps back.
    # 15 * 0.5 + 15 * 0.7 + 10 * 0.8 = 7.5 + 10.5 + 8 = 26
    assert content(window=40, basic_window=15, granularity=10, n_k=1) == pytest.approx([26])

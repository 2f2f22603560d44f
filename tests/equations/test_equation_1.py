"""Equation (1): the size of the true result, worked out by hand."""

from __future__ import annotations

import pytest

from recalljoin.quality.paper.recall_model import estimate_true_size


def test_two_streams() -> None:
    # r = (2, 3) per unit, W = (10, 20), L = 5, selectivity 0.1.
    # S1 brings 2 * 5 = 10 tuples, each meets 3 * 20 = 60 tuples in the window on S2:  600
    # S2 brings 3 * 5 = 15 tuples, each meets 2 * 10 = 20 tuples in the window on S1:  300
    # 0.1 * 900 = 90
    assert estimate_true_size(0.1, rates=(2, 3), windows=(10, 20), interval=5) == pytest.approx(90)


def test_three_streams() -> None:
    # r = (1, 2, 3), W = (10, 20, 30), so the windows hold 10, 40 and 90 tuples; L = 4.
    # S1: 4 * 40 * 90 = 14400;  S2: 8 * 10 * 90 = 7200;  S3: 12 * 10 * 40 = 4800
    # 0.5 * 26400 = 13200
    size = estimate_true_size(0.5, rates=(1, 2, 3), windows=(10, 20, 30), interval=4)
    assert size == pytest.approx(13_200)

"""Equation (5): the recall of an interval, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.paper.recall_model import (
    DelayModel,
    estimate_produced_size,
    estimate_recall,
    estimate_true_size,
)

STREAMS = [
    DelayModel(np.array([0.5, 1.0]), np.array([16.0, 25.0])),
    DelayModel(np.array([0.8, 1.0]), np.array([18.0, 20.0])),
]
WINDOWS = (25, 20)


def test_recall_for_every_k_at_once() -> None:
    # K = 0: (0.5 * 18 + 0.8 * 16) / (20 + 25) = (9 + 12.8) / 45 = 21.8 / 45
    # K = g: nothing is missing any more: (1 * 20 + 1 * 25) / 45 = 1, exactly
    recall = estimate_recall(np.ones(2), streams=STREAMS, windows=WINDOWS)
    assert recall[0] == pytest.approx(21.8 / 45)
    assert recall[1] == 1.0


def test_a_lower_selectivity_lowers_recall() -> None:
    # sel(K) / sel = 0.9: 0.9 * 21.8 / 45 = 0.436; no rounding to whole numbers on the way.
    recall = estimate_recall(np.array([0.9, 1.0]), streams=STREAMS, windows=WINDOWS)
    assert recall[0] == pytest.approx(0.436)


def test_it_is_the_quotient_of_equations_4_and_1() -> None:
    # 65.4 / 135, with rates and interval that cancel out.
    rates, interval = (2, 3), 5
    produced = estimate_produced_size(
        np.full(2, 0.1), streams=STREAMS, rates=rates, interval=interval
    )
    true = estimate_true_size(0.1, rates=rates, windows=WINDOWS, interval=interval)
    assert true == pytest.approx(135)
    recall = estimate_recall(np.ones(2), streams=STREAMS, windows=WINDOWS)
    assert (produced / true).tolist() == pytest.approx(recall.tolist())

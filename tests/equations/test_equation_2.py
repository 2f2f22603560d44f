"""Equation (2): from the delays of a raw stream to those the join receives, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.paper.recall_model import delay_model

# Of ten tuples, 5 have no delay, 2 one in (0, 10], 1 one in (10, 20], 2 one in (30, 40].
HISTOGRAM = np.array([5, 2, 1, 0, 2])


def in_order(*, k_sync: float) -> list[float]:
    model = delay_model(
        HISTOGRAM, k_sync=k_sync, window=100, basic_window=100, granularity=10, n_k=6
    )
    return [float(value) for value in model.in_order]


def test_a_larger_k_puts_more_tuples_in_order() -> None:
    # K = 0: 5/10.  10: (5+2)/10.  20: (5+2+1)/10.  30: the same.  40 and beyond: all.
    assert in_order(k_sync=0) == pytest.approx([0.5, 0.7, 0.8, 0.8, 1.0, 1.0])


def test_what_the_synchronizer_buffers_counts_like_k() -> None:
    # K_sync = 20 is two steps: K = 0 stands where K = 20 stood.
    assert in_order(k_sync=20) == pytest.approx([0.8, 0.8, 1.0, 1.0, 1.0, 1.0])


def test_part_of_a_step_does_not_count() -> None:
    # K + K_sync = 0 + 19: (19 / 10) steps, of which one is whole.
    assert in_order(k_sync=19) == pytest.approx([0.7, 0.8, 0.8, 1.0, 1.0, 1.0])


def test_all_tuples_in_order_is_exactly_one() -> None:
    # A recall of 1 is asked for and reached: 3/3, not 0.9999...
    model = delay_model(
        np.array([1, 1, 1]), k_sync=0, window=3, basic_window=1, granularity=1, n_k=3
    )
    assert model.in_order[2] == 1.0
    assert model.content[2] == 3.0

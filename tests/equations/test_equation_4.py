"""Equation (4): the size of the produced result, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.paper.recall_model import DelayModel, estimate_produced_size


def test_in_order_tuples_meet_incomplete_windows() -> None:
    # At one K: S1 has half of its tuples in order and 16 of its 25 units of window filled, S2 0.8
    # and 18 of 20. r = (2, 3), L = 5, selectivity 0.1.
    # S1: 2 * 5 * 0.5 = 5 tuples in order, each meets 3 * 18 = 54 of S2:  270
    # S2: 3 * 5 * 0.8 = 12 tuples in order, each meets 2 * 16 = 32 of S1:  384
    # 0.1 * 654 = 65.4
    # (The second line of the equation takes the rates out; its |w| is then without them.)
    streams = [
        DelayModel(np.array([0.5]), np.array([16.0])),
        DelayModel(np.array([0.8]), np.array([18.0])),
    ]
    size = estimate_produced_size(np.array([0.1]), streams=streams, rates=(2, 3), interval=5)
    assert size.tolist() == pytest.approx([65.4])

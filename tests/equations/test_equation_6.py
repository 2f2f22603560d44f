"""Equation (6): how selectivity depends on K, worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from recalljoin.quality.paper.productivity_profiler import Productivity, productivity_of
from recalljoin.quality.paper.recall_model import selectivity_ratio
from recalljoin.quality.profile import Profile


def test_selectivity_of_the_tuples_up_to_k_over_that_of_all() -> None:
    # M of the join: 30, 10, 0, 20 (60 in all);  M of the cross join: 100, 50, 0, 50 (200 in all).
    # K = 0:      30/100 * 200/60 = 1
    # K = g:      40/150 * 200/60 = 8/9;  K = 2g: the same
    # K = 3g, 4g: 60/200 * 200/60 = 1, exactly
    maps = Productivity(np.array([30.0, 10, 0, 20]), np.array([100.0, 50, 0, 50]))
    ratio = selectivity_ratio(maps, 5)
    assert ratio.tolist() == pytest.approx([1, 8 / 9, 8 / 9, 1, 1])
    assert ratio[3] == 1.0


def test_late_tuples_count_with_the_most_any_tuple_of_the_interval_had() -> None:
    # In order and without delay: two tuples with 3 and 5 results, each of 10 combinations.
    # One late tuple of coarse delay 2: counted with 5 results of 10 combinations.
    # M of the join: 8, 0, 5;  of the cross join: 20, 0, 10
    profile = dataclasses.replace(
        Profile.empty(2, granularity=10),
        in_order=np.array([[2], [0]]),
        late=np.array([[0, 0, 1], [0, 0, 0]]),
        n_join=np.array([8]),
        n_cross=np.array([20.0]),
        largest_join=5,
        largest_cross=10.0,
    )
    maps = productivity_of(profile, rates=(1, 1), windows=(10, 10))
    assert maps.join.tolist() == [8, 0, 5]
    assert maps.cross.tolist() == [20, 0, 10]
    assert maps.n_true == 13
    # K = 0 and g: 8/20 * 30/13 = 0.923;  K = 2g: 1
    assert selectivity_ratio(maps, 3).tolist() == pytest.approx([240 / 260, 240 / 260, 1])


def test_where_nothing_is_known_selectivity_is_the_same() -> None:
    # No result in the interval; or none with a delay up to K.
    assert selectivity_ratio(Productivity(np.zeros(2), np.zeros(2)), 3).tolist() == [1, 1, 1]
    assert selectivity_ratio(Productivity(np.zeros(2), np.ones(2)), 3).tolist() == [1, 1, 1]
    maps = Productivity(np.array([0.0, 4]), np.array([0.0, 8]))
    assert selectivity_ratio(maps, 3).tolist() == [1, 1, 1]

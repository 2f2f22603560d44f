"""Both productivity maps, on one instance and over many cells."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from recalljoin.quality.paper import productivity_of
from recalljoin.quality.profile import Profile
from tests.unit.quality.profiles import a_run_of_profiles

EMPTY = Profile.empty(3, granularity=10)


def test_an_empty_interval_has_empty_maps() -> None:
    maps = productivity_of(EMPTY, rates=(1, 1, 1), windows=(5, 5, 5))
    assert (maps.join.tolist(), maps.cross.tolist(), maps.n_true) == ([0], [0], 0)


def test_an_interval_of_late_tuples_alone_knows_nothing_of_their_productivity() -> None:
    late = dataclasses.replace(EMPTY, late=np.array([[0, 3], [0, 0], [0, 0]]))
    maps = productivity_of(late, rates=(1, 1, 1), windows=(5, 5, 5))
    assert (maps.join.tolist(), maps.cross.tolist()) == ([0, 0], [0, 0])


def test_over_cells_windows_are_as_full_as_rates_tell() -> None:
    # Section V: windows of 10, 20, 30 at rates 1, 2, 3 hold 10, 40, 90 tuples. A tuple of S1 meets
    # 40 * 90 = 3600 combinations, one of S2 10 * 90 = 900, one of S3 10 * 40 = 400.
    profile = dataclasses.replace(
        EMPTY,
        n_cross=None,
        in_order=np.array([[2, 0], [0, 1], [1, 0]]),
        late=np.array([[0, 0], [0, 0], [0, 1]]),
        n_join=np.array([7, 2]),
        largest_join=4,
    )
    maps = productivity_of(profile, rates=(1, 2, 3), windows=(10, 20, 30))
    assert maps.cross.tolist() == [2 * 3600 + 400, 900 + 3600]  # the late one at the maximum
    assert maps.join.tolist() == [7, 2 + 4]


def test_only_streams_that_had_a_tuple_in_order_count_for_the_maximum() -> None:
    profile = dataclasses.replace(
        EMPTY,
        n_cross=None,
        in_order=np.array([[0], [0], [1]]),
        late=np.array([[1], [0], [0]]),
        n_join=np.array([1]),
        largest_join=1,
    )
    maps = productivity_of(profile, rates=(1, 2, 3), windows=(10, 20, 30))
    assert maps.cross.tolist() == [800]


def test_rates_come_close_to_counted_cross_join_sizes() -> None:
    # 100 tuples a second in windows of 5 seconds.
    for profile in a_run_of_profiles()[8:]:
        counted = productivity_of(profile, rates=(0, 0, 0), windows=(5000,) * 3)
        estimated = productivity_of(
            dataclasses.replace(profile, n_cross=None), rates=(0.1,) * 3, windows=(5000,) * 3
        )
        assert estimated.cross.sum() == pytest.approx(counted.cross.sum(), rel=0.15)
        assert estimated.join.tolist() == counted.join.tolist()

"""Random numbers by address."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.datasets.counters import derive_key, draw_uniform


@given(start=st.integers(0, 500), count=st.integers(0, 200))
def test_any_stretch_equals_the_same_stretch_of_the_whole(start: int, count: int) -> None:
    key = derive_key(3, 1, 4)
    whole = draw_uniform(key, 0, 700)
    assert draw_uniform(key, start, count).tolist() == whole[start : start + count].tolist()


def test_draws_never_change_between_releases() -> None:
    # Data sets are named by their seed in results that outlive a version of this library or NumPy.
    assert draw_uniform(derive_key(7, 0, 1), 2, 3).tolist() == [
        0.6252302695736801,
        0.2851527881276681,
        0.22617684257541915,
    ]


def test_seeds_and_paths_of_any_size_give_different_keys() -> None:
    # [1, 0] and [1], or a seed of two machine words and a seed with a path, must not meet.
    keys = [
        derive_key(1),
        derive_key(1, 0),
        derive_key(1, 0, 0),
        derive_key(0, 1),
        derive_key(1 << 32),
        derive_key(2),
    ]
    assert len({key.tobytes() for key in keys}) == len(keys)


def test_draws_are_uniform() -> None:
    draws = draw_uniform(derive_key(11, 5), 0, 100_000)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    # Ten bins of 10 000 expected, standard deviation sqrt(100 000 * 0.1 * 0.9) = 95; five of them.
    assert np.abs(np.histogram(draws, bins=10, range=(0, 1))[0] - 10_000).max() < 475

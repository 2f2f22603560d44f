"""Tuple-Productivity Profiler: how delay and productivity go together (paper, Sec. IV-B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s
    from recalljoin.quality.profile import Profile


@dataclass(frozen=True, eq=False)
class Productivity:
    """The maps M⋈ and M× of one interval, as arrays over coarse delay of the same length."""

    join: Float64s
    cross: Float64s

    @property
    def n_true(self) -> float:
        """Estimated number of true results of the interval: all of M⋈."""
        return float(self.join.sum())


def productivity_of(
    profile: Profile, *, rates: Sequence[float], windows: Sequence[int]
) -> Productivity:
    """The maps M⋈ and M× of an interval.

    A tuple that reached the join in order counts with the results it has produced, a late tuple
    with the most results that any in-order tuple of the interval has produced.

    Parameters
    ----------
    profile
        The interval.
    rates, windows
        Rate and window size of each stream. Where no instance holds all tuples, windows are taken
        to be as full as rates and sizes tell (paper, Sec. V).
    """
    n = max(profile.late.shape[1], profile.in_order.shape[1], len(profile.n_join))
    late = _padded(profile.late.sum(axis=0), n)
    join = _padded(profile.n_join, n) + late * profile.largest_join
    if profile.n_cross is not None:
        return Productivity(join, _padded(profile.n_cross, n) + late * profile.largest_cross)
    sizes = np.array([rate * window for rate, window in zip(rates, windows, strict=True)])
    # Tuples in the windows of the other streams, for a tuple of each stream.
    partners = np.array([np.delete(sizes, s).prod() for s in range(len(sizes))])
    cross = _padded(partners @ profile.in_order, n)
    received = profile.in_order.any(axis=1)
    return Productivity(join, cross + late * partners[received].max(initial=0.0))


def _padded(values: np.ndarray[tuple[int], np.dtype[np.generic]], n: int) -> Float64s:
    padded = np.zeros(n)
    padded[: len(values)] = values
    return padded

"""Names for the arrays that are passed around everywhere, and the sum of two histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


def added(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Histograms of different lengths, added along their last axis."""
    longer, shorter = (one, other) if one.shape[-1] >= other.shape[-1] else (other, one)
    total = longer.copy()
    total[..., : shorter.shape[-1]] += shorter
    return total

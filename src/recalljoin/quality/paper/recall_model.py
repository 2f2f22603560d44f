"""The analytical model of recall (paper, Sec. IV-A and IV-B, Equations (1) to (6)).

Every quantity that depends on K is computed for K = 0, g, 2g, ... at once, as an array. Symbols
of the paper in use here: ``f`` is the distribution of coarse delays, ``b`` the size of a basic
window, ``g`` the granularity, ``W`` a window size, ``r`` a rate, ``L`` the adaptation interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.paper.productivity_profiler import Productivity


@dataclass(frozen=True, eq=False)
class DelayModel:
    """Disorder of one stream as the join would receive it, for every K.

    Parameters
    ----------
    in_order
        f_D^K(0), Eq. (2): share of the tuples that would arrive in order.
    content
        Sum of |w^l| / r over all basic windows, Eq. (3): how much of this stream's window an
        in-order tuple of another stream would find, as a length of time; W if nothing is missing.
    """

    in_order: Float64s
    content: Float64s


def delay_model(
    histogram: Int64s, *, k_sync: float, window: int, basic_window: int, granularity: int, n_k: int
) -> DelayModel:
    """Evaluate Equations (2) and (3) for K = 0, g, ..., (n_k - 1) g.

    Parameters
    ----------
    histogram
        Tuples by coarse delay (H_i).
    k_sync
        How long the Synchronizer buffers this stream anyway. K + K_sync is cut down to whole
        steps of g: a step counts as handled only when all of it is handled.
    window, basic_window, granularity
        W, b and g.
    n_k
        Number of values of K.
    """
    # A window of 0 still holds the tuples of one instant.
    window = max(1, window)
    basic_window = min(basic_window, window)
    shift = int(k_sync // granularity)
    total = int(histogram.sum())
    if not total:
        return DelayModel(np.ones(n_k), np.full(n_k, float(window)))
    late = np.empty(n_k, dtype=np.int64)
    missing = np.empty(n_k, dtype=np.int64)
    divisor = math.gcd(basic_window, granularity)
    _missing(
        histogram, shift, window, basic_window, basic_window // divisor, granularity // divisor,
        late, missing,
    )  # fmt: skip
    # All numbers up to here are whole, so that if nothing is missing, recall is exactly 1.
    return DelayModel(1.0 - late / total, window - missing / total)


@compiled
def _missing(  # noqa: PLR0917 - kernels are called by position
    histogram: Int64s,
    shift: int,
    window: int,
    basic_window: int,
    step: int,
    period: int,
    late: Int64s,
    missing: Int64s,
) -> None:
    """Late tuples for each K, and tuples missing in windows, weighted by time.

    ``step / period`` is b / g in lowest terms: basic windows ``period`` apart begin ``step``
    coarse delays apart. Sums over such basic windows are differences of one running sum, so the
    cost does not depend on the number of basic windows.
    """
    n = len(histogram)
    # beyond[d]: tuples with a coarse delay above d. every_step[d]: beyond at d, d + step, ... added
    beyond = np.zeros(n, dtype=np.int64)
    every_step = np.zeros(n, dtype=np.int64)
    for d in range(n - 2, -1, -1):
        beyond[d] = beyond[d + 1] + histogram[d + 1]
        every_step[d] = beyond[d]
        if d + step < n:
            every_step[d] += every_step[d + step]
    n_basic = -(-window // basic_window)
    last = (n_basic - 1) * step // period
    last_size = window - (n_basic - 1) * basic_window
    for k in range(len(late)):
        d = k + shift
        late[k] = beyond[d] if d < n else 0
        whole = 0
        for first in range(min(period, n_basic - 1)):
            begin = d + first * step // period
            if begin >= n:
                break
            count = -(-(n_basic - 1 - first) // period)
            whole += every_step[begin]
            if begin + count * step < n:
                whole -= every_step[begin + count * step]
        missing[k] = whole * basic_window
        if d + last < n:
            missing[k] += beyond[d + last] * last_size


def estimate_true_size(
    selectivity: float, *, rates: Sequence[float], windows: Sequence[int], interval: int
) -> float:
    """N⋈_true(L), Eq. (1): results of an interval without disorder."""
    return selectivity * math.prod(rates) * interval * _all_partners(windows)


def estimate_produced_size(
    selectivity: Float64s, *, streams: Sequence[DelayModel], rates: Sequence[float], interval: int
) -> Float64s:
    """N⋈_prod(L, K), Eq. (4), for the selectivity that goes with each K."""
    return selectivity * math.prod(rates) * interval * _found_partners(streams)


def estimate_recall(
    selectivity_ratio: Float64s, *, streams: Sequence[DelayModel], windows: Sequence[int]
) -> Float64s:
    """γ(L, K), Eq. (5): the quotient of Eq. (4) and Eq. (1); rates and L cancel out."""
    return selectivity_ratio * _found_partners(streams) / _all_partners(windows)


def _all_partners(windows: Sequence[int]) -> float:
    """Sum over the streams of the product of the other streams' windows."""
    sizes = [float(max(1, window)) for window in windows]
    return sum(math.prod(sizes[:i] + sizes[i + 1 :]) for i in range(len(sizes)))


def _found_partners(streams: Sequence[DelayModel]) -> Float64s:
    total = np.zeros_like(streams[0].in_order)
    for i, stream in enumerate(streams):
        product = stream.in_order
        # In the order of _all_partners, so that equal factors give the very same number.
        found = np.ones_like(product)
        for j, other in enumerate(streams):
            if j != i:
                found = found * other.content
        total += found * product
    return total


def selectivity_ratio(productivity: Productivity, n_k: int) -> Float64s:
    """sel⋈(K) / sel⋈, Eq. (6), for K = 0, g, ..., (n_k - 1) g.

    1 where nothing is known: no results in the interval, or no tuple of a delay up to K.
    """
    join, cross = np.cumsum(productivity.join), np.cumsum(productivity.cross)
    if not (join[-1] > 0 and cross[-1] > 0):
        return np.ones(n_k)
    ratio = np.ones(max(n_k, len(join)))
    known = cross > 0
    # One quotient of products: it is exactly 1 from the largest delay of the maps (MaxD^M) on.
    ratio[: len(join)][known] = (join[known] * cross[-1]) / (cross[known] * join[-1])
    return ratio[:n_k]

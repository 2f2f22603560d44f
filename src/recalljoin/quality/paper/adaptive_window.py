"""ADWIN: a window over recent values that shrinks when they have changed.

The window is kept as buckets of 1, 2, 4, ... values, at most ``max_buckets`` of each size: memory
grows with the logarithm of the window's width. Now and then every border between two buckets is
tried as a cut: when the means on both sides differ by more than chance allows, the oldest bucket
is dropped, and all borders are tried again.

    oldest                                        newest
    [      8      ][      8      ][   4  ][   4  ][ 2 ][1][1]
                   ^ a cut: 8 values before it, 20 behind it
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import compiled

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.policy import State

_LEVELS = 62
# Places in the array that holds the window's state.
_WIDTH, _TOTAL, _SPREAD, _SEEN = range(4)


class AdaptiveWindow:
    """The adaptive window of Bifet and Gavaldà (SIAM SDM 2007), their ADWIN2.

    Parameters
    ----------
    delta
        Chance of dropping values although nothing has changed. A larger chance forgets sooner.
    check_every
        Values between two looks for a change.
    max_buckets
        Buckets of the same size before two are merged. More buckets locate a change better.
    min_part
        Fewest values on either side of a cut.
    discount
        How many values are taken off each side when it is judged whether a difference is chance.
        0 is the published bound; some implementations take off ``min_part - 1``, which forgets
        more slowly.

    Examples
    --------
    >>> window = AdaptiveWindow()
    >>> window.push(np.zeros(1000))
    0
    >>> dropped = window.push(np.full(200, 50.0))
    >>> dropped, window.width, window.mean
    (1004, 196, 50.0)
    """

    def __init__(
        self,
        *,
        delta: float = 0.002,
        check_every: int = 32,
        max_buckets: int = 5,
        min_part: int = 5,
        discount: int = 0,
    ) -> None:
        self._options = (delta, check_every, max_buckets, min_part, discount)
        self._n_buckets = np.zeros(_LEVELS, dtype=np.int64)
        # [level, bucket, (sum, squared distance from the bucket's mean)], the oldest bucket first.
        self._buckets = np.zeros((_LEVELS, max_buckets + 1, 2))
        self._state = np.zeros(4)

    @property
    def width(self) -> int:
        """Values in the window."""
        return int(self._state[_WIDTH])

    @property
    def mean(self) -> float:
        """Mean of the values in the window; 0 if it is empty."""
        return float(self._state[_TOTAL] / self._state[_WIDTH]) if self.width else 0.0

    def push(self, values: Float64s) -> int:
        """Add values, the oldest first; returns how many of the oldest values were dropped."""
        return _push(values, self._n_buckets, self._buckets, self._state, *self._options)

    def drop_oldest(self) -> int:
        """Drop the oldest bucket; returns how many values were in it."""
        return _drop_oldest(self._n_buckets, self._buckets, self._state)

    def snapshot(self) -> State:
        """Everything it remembers."""
        used = int(np.flatnonzero(self._n_buckets).max(initial=-1)) + 1
        return {
            "n_buckets": self._n_buckets[:used].tolist(),
            "buckets": self._buckets[:used].tolist(),
            "state": self._state.tolist(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        used = len(state["n_buckets"])
        self._n_buckets[:] = 0
        self._n_buckets[:used] = state["n_buckets"]
        self._buckets[:used] = np.array(state["buckets"]).reshape(used, *self._buckets.shape[1:])
        self._state[:] = state["state"]


@compiled
def _push(  # noqa: PLR0917 - kernels are called by position
    values: Float64s,
    n_buckets: Int64s,
    buckets: Float64s,
    state: Float64s,
    delta: float,
    check_every: int,
    max_buckets: int,
    min_part: int,
    discount: int,
) -> int:
    dropped = 0
    for value in values:
        _insert(value, n_buckets, buckets, state, max_buckets)
        # Few values are not judged at all.
        if state[_SEEN] % check_every == 0 and state[_WIDTH] > 2 * min_part:
            while _has_changed(n_buckets, buckets, state, delta, min_part, discount):
                dropped += _drop_oldest(n_buckets, buckets, state)
    return dropped


@compiled
def _insert(
    value: float, n_buckets: Int64s, buckets: Float64s, state: Float64s, max_buckets: int
) -> None:
    width = state[_WIDTH]
    if width > 0:
        distance = value - state[_TOTAL] / width
        state[_SPREAD] += distance * distance * width / (width + 1)
    state[_WIDTH] += 1
    state[_TOTAL] += value
    state[_SEEN] += 1
    buckets[0, n_buckets[0], 0] = value
    buckets[0, n_buckets[0], 1] = 0.0
    n_buckets[0] += 1
    level = 0
    size = 1.0
    while n_buckets[level] > max_buckets:
        one, other = buckets[level, 0], buckets[level, 1]
        distance = (one[0] - other[0]) / size
        merged = buckets[level + 1, n_buckets[level + 1]]
        merged[0] = one[0] + other[0]
        merged[1] = one[1] + other[1] + distance * distance * size / 2
        n_buckets[level + 1] += 1
        _shift(n_buckets, buckets, level, 2)
        level += 1
        size *= 2


@compiled
def _shift(n_buckets: Int64s, buckets: Float64s, level: int, n: int) -> None:
    """Take away the oldest ``n`` buckets of a level."""
    n_buckets[level] -= n
    for i in range(n_buckets[level]):
        buckets[level, i, 0] = buckets[level, i + n, 0]
        buckets[level, i, 1] = buckets[level, i + n, 1]


@compiled
def _oldest_level(n_buckets: Int64s) -> int:
    level = len(n_buckets) - 1
    while level > 0 and n_buckets[level] == 0:
        level -= 1
    return level


@compiled
def _drop_oldest(n_buckets: Int64s, buckets: Float64s, state: Float64s) -> int:
    level = _oldest_level(n_buckets)
    size = 2.0**level
    total, spread = buckets[level, 0]
    state[_WIDTH] -= size
    state[_TOTAL] -= total
    if state[_WIDTH] > 0:
        distance = total / size - state[_TOTAL] / state[_WIDTH]
        between = distance * distance * size * state[_WIDTH] / (size + state[_WIDTH])
        state[_SPREAD] = max(0.0, state[_SPREAD] - spread - between)
    else:
        state[_SPREAD] = 0.0
    _shift(n_buckets, buckets, level, 1)
    return int(size)


@compiled
def _has_changed(  # noqa: PLR0917 - kernels are called by position
    n_buckets: Int64s,
    buckets: Float64s,
    state: Float64s,
    delta: float,
    min_part: int,
    discount: int,
) -> bool:
    width = state[_WIDTH]
    variance = state[_SPREAD] / width
    confidence = math.log(2 * math.log(width) / delta)
    n_before, total_before = 0.0, 0.0
    for level in range(_oldest_level(n_buckets), -1, -1):
        for i in range(n_buckets[level]):
            n_before += 2.0**level
            total_before += buckets[level, i, 0]
            n_behind = width - n_before
            if n_behind < min_part:
                return False
            if n_before < min_part:
                continue
            # 1/m, m being the harmonic mean of both sizes (halved), as the bound has it.
            inverse = 1 / (n_before - discount) + 1 / (n_behind - discount)
            bound = math.sqrt(2 * inverse * variance * confidence) + 2 / 3 * inverse * confidence
            behind = (state[_TOTAL] - total_before) / n_behind
            if abs(total_before / n_before - behind) > bound:
                return True
    return False

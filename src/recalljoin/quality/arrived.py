"""What the Statistics Manager reads off every arriving tuple: its delay and the implicit K_sync.

Both come from the local times of the streams alone, so a whole recording is annotated at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.times import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s

UNKNOWN = -1
"""K_sync of a tuple that came before every stream had begun."""


class Arrived(NamedTuple):
    """Tuples in order of arrival, as columns."""

    stream: NDArray[np.int8]
    delay: Int64s
    """Local time of its stream, minus its timestamp; never negative."""
    k_sync: Int64s
    """Lead of its stream over the slowest one after it arrived, or :data:`UNKNOWN`."""
    local: Int64s
    """Local time of its stream after it arrived."""

    def take(self, chosen: slice | NDArray[np.bool_]) -> Arrived:
        """Some of the tuples."""
        return Arrived(
            self.stream[chosen], self.delay[chosen], self.k_sync[chosen], self.local[chosen]
        )


class Clocks(NamedTuple):
    """How far the streams have come after each arrival, or each tick."""

    local: Int64s
    """``[stream, i]``: local times."""
    base: Int64s
    """Local time of the slowest stream; NEVER until all have begun."""
    latest: Int64s
    """Local time of the fastest stream, which adaptation goes by."""


def no_clocks(m: int) -> Int64s:
    """Local times of streams that have not begun."""
    return np.full(m, NEVER, dtype=np.int64)


def follow_tuples(
    stream: NDArray[np.int8], ts: Int64s, *, before: Int64s
) -> tuple[Arrived, Clocks]:
    """Annotate tuples that arrive one by one, on streams that had come to ``before``.

    Examples
    --------
    Two streams; the third tuple is 3 behind its own stream, which is then 2 ahead of the other.

    >>> stream, ts = np.array([0, 1, 0], np.int8), np.array([9, 7, 6])
    >>> arrived, _ = follow_tuples(stream, ts, before=no_clocks(2))
    >>> arrived.delay, arrived.k_sync
    (array([0, 0, 3]), array([-1,  0,  2]))
    """
    numbers = np.arange(len(before))[:, np.newaxis]
    clocks = _clocks(np.where(stream == numbers, ts, NEVER), before)
    local = clocks.local[stream, np.arange(len(ts))]
    return Arrived(stream, local - ts, _lead(local, clocks.base), local), clocks


def follow_ticks(
    stream: NDArray[np.int8], ts: Int64s, tick: Int64s, *, marks: Int64s, before: Int64s
) -> tuple[Arrived, Clocks]:
    """Annotate tuples that arrive in ticks; clocks are those after each tick.

    A tuple's delay refers to the local time after the tick before, its K_sync to the times after
    its own: only between ticks is it known how far the streams are apart.

    Parameters
    ----------
    stream, ts, tick
        The tuples, with ticks from 0 on.
    marks
        ``[tick, stream]``: largest timestamp of each tick, NEVER where none came.
    before
        Local times after the tick before the first of these.
    """
    clocks = _clocks(marks.T, before)
    n_ticks = clocks.local.shape[1]
    at = stream * np.int64(n_ticks) + tick
    earlier = np.concatenate((before[:, np.newaxis], clocks.local[:, :-1]), axis=1).ravel()[at]
    local = clocks.local.ravel()[at]
    delay = np.where(earlier > ts, earlier - ts, 0)
    return Arrived(stream, delay, _lead(local, clocks.base[tick]), local), clocks


def follow_marks(marks: Int64s, *, before: Int64s) -> Clocks:
    """Clocks after each tick; ``marks`` and ``before`` as in :func:`follow_ticks`."""
    return _clocks(marks.T, before)


def _clocks(marks: Int64s, before: Int64s) -> Clocks:
    local = np.maximum(np.maximum.accumulate(marks, axis=1), before[:, np.newaxis])
    return Clocks(local, local.min(axis=0), local.max(axis=0))


def _lead(local: Int64s, base: Int64s) -> Int64s:
    return np.where(base == NEVER, UNKNOWN, local - np.where(base == NEVER, local, base))

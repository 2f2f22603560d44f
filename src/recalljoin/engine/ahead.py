"""Times absurdly far ahead of their stream, and how a recording tells them from real ones.

A single time of the year 2200 would take the clock of its stream there, and every later row would
be late for ever. A time that is more than ``max_ahead`` ahead of its stream is therefore believed
only if the stream goes on from that time. A recording shows whether it does: the time is refused if
most of the next rows of the stream lie where the stream was before.

    times      9:58   9:59   2200   10:00   10:01      2200 is refused
    times      9:58   9:59   17:00   17:01   17:02     a gap in the source: all are taken
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import lean
from recalljoin.engine.times import NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import MAX_TIME, NANOSECONDS_PER, in_unit, nanoseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import DurationLike

AUTO = "auto"

_HOUR = 3600 * NANOSECONDS_PER["s"]
_LONGEST_PARTS = 10
"""By default a time may be ahead by at least this many of the longest window or period."""
_LOOK = 20
"""Number of next rows that show whether the stream goes on from a time."""
_FEWEST = 3
"""A time is refused only if at least this many next rows lie where the stream was before."""


def max_ahead_of(query: BoundQuery, given: DurationLike | None) -> int | None:
    """How far ahead of its stream a time is believed at once, in the query's unit; None for any.

    Parameters
    ----------
    query
        The bound query.
    given
        What the user says; ``"auto"`` is one hour, or ten times the longest of windows and period
        if that is longer.

    Raises
    ------
    InvalidSetting
        When the length is 0 or negative.
    """
    if given is None:
        return None
    if given != AUTO:
        length = in_unit(nanoseconds(given, name="max_ahead"), query.unit)
        if length <= 0:
            message = f"`max_ahead` must be longer than 0, got {given!r}; None turns it off"
            raise InvalidSetting(message)
        return min(length, MAX_TIME)
    longest = max(stream.window for stream in query.streams)
    if query.quality is not None:
        longest = max(longest, query.quality.period)
    return min(max(in_unit(_HOUR, query.unit), _LONGEST_PARTS * longest), MAX_TIME)


def far_ahead(ts: Int64s, max_ahead: int, clock: Int64s | None = None) -> NDArray[np.bool_]:
    """Which rows of a stream have a time that is not to be believed.

    Parameters
    ----------
    ts
        Times in the order of arrival.
    max_ahead
        How far ahead of the stream a time is believed at once.
    clock
        When each row arrived, if known: a time no later than its row's arrival is believed.

    Examples
    --------
    >>> far_ahead(np.array([1, 2, 900, 3, 4, 5]), 10)
    array([False, False,  True, False, False, False])
    >>> far_ahead(np.array([1, 2, 900, 901, 902, 903]), 10).any()
    np.False_
    """
    refused = np.zeros(len(ts), dtype=np.bool_)
    if len(ts):
        known = np.full(0, NEVER) if clock is None else clock
        _look_ahead(ts, max_ahead, known, _start(ts, max_ahead), refused)
    return refused


def _start(ts: Int64s, max_ahead: int) -> int:
    """The time around which most of the first rows lie (a single one may be absurd), or NEVER."""
    first = np.sort(ts[: _LOOK + 1])
    middle = int(first[(len(first) - 1) // 2])
    n_near = int((np.abs(first - middle) <= max_ahead).sum())
    return middle if n_near > max(len(first) // 2, _FEWEST) else int(NEVER)


@lean
def _look_ahead(
    ts: Int64s, max_ahead: int, clock: Int64s, known: int, refused: NDArray[np.bool_]
) -> None:
    """Mark the times that are not to be believed; ``clock`` may be empty."""
    for i in range(len(ts)):
        is_ahead = known != NEVER and ts[i] > known + max_ahead
        if is_ahead and len(clock) > 0:
            is_ahead = ts[i] > clock[i] + max_ahead
        if is_ahead:
            n_near = 0
            n_looked = min(_LOOK, len(ts) - i - 1)
            for j in range(i + 1, i + 1 + n_looked):
                if known - max_ahead <= ts[j] <= known + max_ahead:
                    n_near += 1
            if n_near >= _FEWEST and 2 * n_near > n_looked:
                refused[i] = True
        if not refused[i]:
            known = max(known, ts[i])

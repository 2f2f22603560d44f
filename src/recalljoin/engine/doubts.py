"""Integer times that look as if they counted in another unit than the query says.

Seconds taken for milliseconds make every window a thousand times too long, and nothing fails. The
first times of a stream are therefore tested: are they dates of this century in another unit?
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.types as pt

from recalljoin.engine.times import TIME_OUT_OF_RANGE
from recalljoin.query.durations import NANOSECONDS_PER, TimeUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

_FIRST_ROWS = 101
"""Number of first rows of a stream that are tested."""
_OUR_TIME = (
    946_684_800 * NANOSECONDS_PER["s"],
    4_102_444_800 * NANOSECONDS_PER["s"],
)
"""The years 2000 to 2099."""
_WORDS: dict[TimeUnit, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}


def integer_streams(query: BoundQuery) -> tuple[str, ...]:
    """Streams whose times are integers, by name."""
    return tuple(
        stream.name
        for stream in query.streams
        if pt.is_integer(stream.schema.field(stream.time).type)
    )


def doubts_about(query: BoundQuery, arrivals: Arrivals) -> Iterator[str]:
    """What to tell the user about the times of a recording, a sentence for each stream."""
    counted = integer_streams(query)
    for s, stream in enumerate(query.streams):
        if stream.name not in counted:
            continue
        column = arrivals.tables[s].column(stream.time)
        if not len(column):
            # If the unit said is far too coarse, no time is within range.
            nothing = arrivals.tables[s]
            column = arrivals.refused.get((stream.name, TIME_OUT_OF_RANGE), nothing)[stream.time]
        first = np.sort(column.slice(0, _FIRST_ROWS).to_numpy())
        if len(first):
            doubt = doubt_about(stream.name, int(first[len(first) // 2]), query.time_unit)
            if doubt is not None:
                yield doubt


def doubt_about(stream: str, count: int, time_unit: TimeUnit) -> str | None:
    """What to tell the user if a time looks as if it counted in another unit; None if not.

    Parameters
    ----------
    stream
        Name of a stream whose times are integers.
    count
        One time of the stream, as it is in the column.
    time_unit
        What the query says that times count in.

    Examples
    --------
    >>> doubt_about("o", 1_700_000_000, "ms")[-61:]
    "look like seconds since 1970; if they are, give time_unit='s'"
    >>> doubt_about("o", 1_700_000_000_000, "ms") is None
    True
    """
    alike = [each for each, length in NANOSECONDS_PER.items() if _is_our_time(count * length)]
    if not alike or time_unit in alike:
        return None
    return (
        f"times of stream `{stream}` are taken as {_WORDS[time_unit]}: {count} is "
        f"{_date(count * NANOSECONDS_PER[time_unit])}. They look like {_WORDS[alike[0]]} since "
        f"1970; if they are, give time_unit='{alike[0]}'"
    )


def _is_our_time(time: int) -> bool:
    return _OUR_TIME[0] <= time < _OUR_TIME[1]


def _date(time: int) -> str:
    try:
        date = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=time // NANOSECONDS_PER["s"])
    except OverflowError:
        return "after the year 9999"
    return str(date.date())

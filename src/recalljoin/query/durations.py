"""Durations as people write them, and as the engine counts them.

A duration may be text (``"5 SEC"``, ``"1 minute 30 seconds"``, ``"300ms"``), an integer number of
milliseconds, or a :class:`datetime.timedelta`. Every duration first becomes whole nanoseconds, and
then a number in the one unit of time of its query.
"""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final
from typing import Literal as OneOf

from recalljoin.errors import InvalidQuery

DurationLike = str | int | timedelta
TimeUnit = OneOf["s", "ms", "us", "ns"]

NANOSECONDS_PER: Final[dict[TimeUnit, int]] = {
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
"""Length of each unit of time, from the coarsest to the finest."""

MAX_TIME: Final = 2**61
"""Largest absolute time, window and slack in units of the query: the sum or difference of any two
stays within 64 bits."""

_MINUTE: Final = 60 * NANOSECONDS_PER["s"]
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

_SPELLINGS: Final[dict[int, tuple[str, ...]]] = {
    NANOSECONDS_PER["ns"]: ("ns", "nsec", "nanosecond", "nanoseconds"),
    NANOSECONDS_PER["us"]: ("us", "µs", "μs", "usec", "microsecond", "microseconds"),
    NANOSECONDS_PER["ms"]: ("ms", "msec", "millis", "millisecond", "milliseconds"),
    NANOSECONDS_PER["s"]: ("s", "sec", "secs", "second", "seconds"),
    _MINUTE: ("min", "mins", "minute", "minutes"),
    _HOUR: ("h", "hr", "hrs", "hour", "hours"),
    _DAY: ("d", "day", "days"),
    7 * _DAY: ("week", "weeks"),
}
_LENGTHS: Final = {word: length for length, words in _SPELLINGS.items() for word in words}
_PART: Final = re.compile(r"\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[^\W\d_]*)", re.UNICODE)
_SHOWN_MS: Final = 0.1
"""The smallest part of a millisecond that is shown."""
_UNITS_TEXT: Final = "ns, us, ms, sec, min, hour, day, week"


def nanoseconds(value: DurationLike, *, name: str) -> int:
    """Length of a duration in nanoseconds.

    Parameters
    ----------
    value
        Text, a number of milliseconds, or a timedelta.
    name
        What the duration is for, as messages should call it.

    Raises
    ------
    InvalidQuery
        When ``value`` is no duration, is negative, or is finer than a nanosecond.

    Examples
    --------
    >>> nanoseconds("1 minute 30 SEC", name="window")
    90000000000
    >>> nanoseconds(10, name="window") == nanoseconds("10 ms", name="window")
    True
    """
    if isinstance(value, bool) or not isinstance(value, str | int | timedelta):
        raise InvalidQuery(_not_a_duration(name, value))
    if isinstance(value, timedelta):
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        length = micros * NANOSECONDS_PER["us"]
    elif isinstance(value, int):
        length = value * NANOSECONDS_PER["ms"]
    else:
        length = _from_text(value, name)
    if length < 0:
        raise InvalidQuery(_negative(name, value))
    return length


def in_unit(length: int, unit: TimeUnit) -> int:
    """Whole units in ``length`` nanoseconds.

    Rounding down loses nothing: integer times are at most 1.5 units apart exactly when they are
    at most 1 unit apart.
    """
    return length // NANOSECONDS_PER[unit]


def too_long(name: str, value: DurationLike, unit: TimeUnit) -> str:
    """The fault of a duration beyond :data:`MAX_TIME`."""
    return f"`{name}` is too long to count in {unit}, got {value!r}; write a shorter one"


def describe(length: int) -> str:
    """Shortest usual spelling of ``length`` nanoseconds.

    Examples
    --------
    >>> describe(90_000_000_000), describe(5_000_000_000), describe(0)
    ('90 s', '5 s', '0 s')
    """
    named = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), *_descending())
    for size, word in named:
        if length and length % size == 0:
            return f"{length // size} {word}"
    return "0 s"


def rounded(ms: float) -> str:
    """Milliseconds as a person would say them.

    Examples
    --------
    >>> rounded(0), rounded(7.25), rounded(640.4), rounded(2540), rounded(90_000)
    ('0', '7.2 ms', '640 ms', '2.54 s', '90 s')
    >>> rounded(0.000001)
    '<0.1 ms'
    """
    if ms == 0:
        return "0"
    if 0 < ms < _SHOWN_MS / 2:
        return f"<{_SHOWN_MS} ms"
    if ms < 1000:
        return f"{ms:.1f} ms" if ms < 100 and ms % 1 else f"{ms:.0f} ms"
    return f"{ms / 1000:.3g} s" if ms < 1_000_000 else f"{ms / 1000:,.0f} s"


def finest(units: set[TimeUnit]) -> TimeUnit:
    """The unit in which times of all ``units`` are whole numbers."""
    return min(units, key=NANOSECONDS_PER.__getitem__)


def _descending() -> tuple[tuple[int, str], ...]:
    return tuple((size, unit) for unit, size in NANOSECONDS_PER.items())


def _from_text(text: str, name: str) -> int:
    total = Decimal(0)
    position = 0
    rest = text.strip()
    if rest.startswith("-"):
        raise InvalidQuery(_negative(name, text))
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            raise InvalidQuery(_not_a_duration(name, text))
        total += Decimal(part["number"]) * _length_of(part["unit"], text, name)
        position = part.end()
    if not rest:
        raise InvalidQuery(_not_a_duration(name, text))
    if total != int(total):
        fault = f"`{name}` of {text!r} is finer than a nanosecond; write whole nanoseconds"
        raise InvalidQuery(fault)
    return int(total)


def _length_of(unit: str, text: str, name: str) -> int:
    word = unit.lower()
    if word in _LENGTHS:
        return _LENGTHS[word]
    if not word:
        fault = f"`{name}` of {text!r} has no unit; write '{text.strip()} ms' for milliseconds"
    elif word == "m":
        fault = f"`{name}` of {text!r}: `m` may be read in several ways; write `min` or `ms`"
    elif word in {"month", "months", "year", "years", "mon", "y"}:
        fault = f"`{name}` of {text!r}: a {word} has no fixed length; write days instead"
    else:
        fault = f"`{name}` of {text!r}: unknown unit `{unit}`; write one of {_UNITS_TEXT}"
    raise InvalidQuery(fault)


def _negative(name: str, value: object) -> str:
    return f"`{name}` must not be negative, got {value!r}; write a duration of 0 or more"


def _not_a_duration(name: str, value: object) -> str:
    return (
        f"`{name}` must be a duration, got {value!r}; "
        "write text such as '5 seconds', a whole number of milliseconds, or a timedelta"
    )

"""Times and lengths of time as people read them: timestamps where a join has them, and intervals.

A join counts in one unit, such as microseconds. What is shown has a type that says so instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.report import Report

INTERVAL: Final = pa.duration("us")
"""Type of every length of time that is shown; microseconds are the finest that Spark has."""
_LONGEST: Final = 2**63 - 1
_FIRST = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 10**6
_LAST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 10**6
"""Dates that Python knows; a time outside is shown as null."""


@dataclass(frozen=True)
class Clock:
    """What a join counts in, and how that is shown.

    Parameters
    ----------
    unit
        The query's unit of time.
    time_type
        Arrow's name for the type of the time of results.
    """

    unit: TimeUnit = "ms"
    time_type: str = "int64"

    @classmethod
    def of(cls, report: Report) -> Clock:
        """The clock of the join that has made a report."""
        return cls(report.unit, report.time_type)

    @property
    def has_dates(self) -> bool:
        """Whether times are timestamps; otherwise they are integers as in the streams."""
        return self.time_type.startswith("timestamp")

    @property
    def type(self) -> pa.DataType:
        """Type of the times that are shown: as that of ``result_time``."""
        if not self.has_dates:
            return pa.int64()
        return pa.timestamp("us", "UTC" if "tz=" in self.time_type else None)

    def time(self, value: int) -> int | None:
        """A time as a number of its type; None if it has not begun, has ended or is no date."""
        if value in (NEVER, FOREVER):
            return None
        if not self.has_dates:
            return value
        us = self._us(value)
        return us if _FIRST <= us <= _LAST else None

    def interval(self, value: int | None) -> int | None:
        """A length of time as microseconds; None of None."""
        return None if value is None else min(self._us(value), _LONGEST)

    def ms(self, value: float) -> float:
        """A time or a length of time in milliseconds."""
        return value * NANOSECONDS_PER[self.unit] / NANOSECONDS_PER["ms"]

    def _us(self, value: int) -> int:
        return value * NANOSECONDS_PER[self.unit] // NANOSECONDS_PER["us"]

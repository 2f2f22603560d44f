"""What the driver's log says about the input of a running query, each thing once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recalljoin.engine.doubts import doubt_about
from recalljoin.engine.times import FAR_AHEAD, NEVER, TIME_OUT_OF_RANGE
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.report import Report

_LOG = logging.getLogger(__name__)


@dataclass
class Notices:
    """Reads the reports of batches and warns of times that may be wrong.

    Parameters
    ----------
    integer_streams
        Names of the streams whose times are integers.
    time_unit
        The unit that these integers are said to have.
    """

    integer_streams: tuple[str, ...]
    time_unit: TimeUnit
    _looked_at: set[str] = field(default_factory=set)
    _refused: set[tuple[str, str]] = field(default_factory=set)

    def observe(self, report: Report) -> None:
        """Take in a batch."""
        for stream, time, refused in zip(
            report.streams, report.local_times, report.refused, strict=True
        ):
            if time != NEVER and stream not in self._looked_at:
                self._looked_at.add(stream)
                if stream in self.integer_streams:
                    self._look_at(stream, time, report.unit)
            for reason, why in self._reasons(stream).items():
                if reason in refused and (stream, reason) not in self._refused:
                    self._refused.add((stream, reason))
                    _LOG.warning(
                        "stream `%s`: rows of batch %d are refused (%d), as %s; "
                        "rj.open(control_log).refused(%r) shows them, its progress() counts them "
                        "and those to come",
                        stream,
                        report.batch,
                        refused[reason],
                        why,
                        stream,
                    )

    def _reasons(self, stream: str) -> dict[str, str]:
        out_of_range = "their time is out of range"
        if stream in self.integer_streams:
            out_of_range += (
                f" if its integers count in {self.time_unit} (give `time_unit` if they do not)"
            )
        return {
            FAR_AHEAD: "their time is further ahead of the stream than `max_ahead`",
            TIME_OUT_OF_RANGE: out_of_range,
        }

    def _look_at(self, stream: str, time: int, unit: TimeUnit) -> None:
        count = time * NANOSECONDS_PER[unit] // NANOSECONDS_PER[self.time_unit]
        doubt = doubt_about(stream, count, self.time_unit)
        if doubt is not None:
            _LOG.warning("%s", doubt)

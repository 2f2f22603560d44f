"""What the driver's log says when a join breaks a promise, and when that is over.

There is one line when recall falls below its target, when a stream stalls and when K reaches
``max_wait``, and one line when each is over; nothing is repeated from batch to batch. Recall that
wavers about its target, or a K that wavers about ``max_wait``, is over only when a whole period was
free of it. A query that starts again says what holds then, and not what was over before.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from recalljoin.query.durations import rounded
from recalljoin.spark.clocks import Clock
from recalljoin.spark.health import HealthMeter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.spark.report import Report

_LOG = logging.getLogger(__name__)


class _Alarm(NamedTuple):
    """Something that is not as it should be."""

    what: str
    """Tells one alarm from another."""
    begins: str
    ends: str
    """What is said when it begins, and when it is over."""
    calm: int
    """How long it must be absent to be over, in the query's unit."""


@dataclass
class Alarms:
    """Reads the reports of batches, and says when something begins and when it is over.

    Parameters
    ----------
    name
        Name of the join, with which every line begins.
    """

    name: str
    _health: HealthMeter = field(default_factory=HealthMeter)
    _held: dict[str, tuple[_Alarm, int]] = field(default_factory=dict)
    """Alarms that hold, each with the time when it last did."""
    _said: dict[str, _Alarm] = field(default_factory=dict)

    def observe(self, report: Report) -> None:
        """Take in a batch."""
        now = max(report.local_times)
        raised = {alarm.what: alarm for alarm in self._raised(report)}
        for what, alarm in raised.items():
            self._held[what] = (alarm, now)
        for what, (alarm, at) in list(self._held.items()):
            if what not in raised and now - at >= alarm.calm:
                del self._held[what]

    def speak(self) -> None:
        """Say what has begun or is over since this was called last."""
        for what, (alarm, _) in self._held.items():
            if what not in self._said:
                _LOG.warning("%s: %s", self.name, alarm.begins)
                self._said[what] = alarm
        for what in [each for each in self._said if each not in self._held]:
            _LOG.warning("%s: %s", self.name, self._said.pop(what).ends)

    def _raised(self, report: Report) -> Iterator[_Alarm]:
        recall = report.recall_before
        health = self._health.observe(report, recall)
        waits = rounded(Clock.of(report).ms(report.k))
        if health.below_target:
            yield _Alarm(
                "recall",
                f"recall of the last period is {recall:.4f}, below the target of "
                f"{report.target:g} (batch {report.batch}, K {waits})",
                f"recall has been at its target of {report.target:g} for a whole period",
                report.period,
            )
        if health.at_max_wait:
            yield _Alarm(
                "max_wait",
                f"K has reached `max_wait`, {waits} (batch {report.batch}): recall may fall below "
                "its target, as the join may not wait any longer",
                "K has been below `max_wait` for a whole period",
                report.period,
            )
        if health.stalled is not None:
            yield _Alarm(
                f"stalled {health.stalled}",
                f"stream `{health.stalled}` has stalled: nothing comes of it, and "
                f"{report.n_buffered} tuples wait for it (batch {report.batch}). `idle_after` or "
                "`max_wait` would let them go on without it",
                f"stream `{health.stalled}` no longer holds the others back",
                0,
            )

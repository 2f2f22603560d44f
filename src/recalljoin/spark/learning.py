"""Beginning with what is known already: the advice of a sample, or the log of an earlier run."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from recalljoin.errors import InvalidSetting
from recalljoin.quality.advice import Advice
from recalljoin.query.durations import NANOSECONDS_PER, describe
from recalljoin.spark.control_log import ControlLog

if TYPE_CHECKING:
    from recalljoin.quality.adaptation import PolicyPlan
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.report import Report

Known = str | Path | Advice
"""An advice, or the control log of an earlier run."""

_TAKEN_OVER = ("k", "stretches", "periods")


def taught(plan: PolicyPlan, known: Known, unit: TimeUnit) -> PolicyPlan:
    """The plan of a policy that begins with what is known.

    Parameters
    ----------
    plan
        Makes the policy.
    known
        What the policy is to begin with.
    unit
        The query's unit of time.

    Raises
    ------
    InvalidSetting
        When the policy cannot learn from ``known``, or ``known`` belongs to a join of another kind.
    """
    if plan.choice != "slack":
        message = "`learn_from` is for the policy 'slack'; the others begin with the K they define"
        raise InvalidSetting(message)
    if plan.settings.initial_wait is not None:
        message = "`learn_from` says what K to begin with, and so does `initial_wait`; give one"
        raise InvalidSetting(message)
    if isinstance(known, Advice):
        in_unit = NANOSECONDS_PER["ms"] / NANOSECONDS_PER[unit]
        wait = round(known.k_ms * in_unit)
        return replace(plan, settings=replace(plan.settings, initial_wait=wait))
    log = ControlLog(str(known))
    last: Report | None = None
    adaptation = plan.adaptation(None)
    rolled = log.rolled()
    known_reports = [stretch.report for stretch in rolled.with_times]
    for report in chain(known_reports, log.reports_after(rolled.until)):
        _check(report, plan, unit, log)
        report.show_to(adaptation)
        last = report
    if last is None:
        message = (
            f"`learn_from` must be the control log of an earlier run, got {str(known)!r}, which "
            "holds no batch of a join"
        )
        raise InvalidSetting(message)
    learned = adaptation.policy.snapshot()
    if "null_k" in learned:
        # What the nulls needed is learnt anew; until then K is as long as it was.
        learned = {**learned["policy"], "k": max(learned["policy"]["k"], learned["null_k"])}
    return replace(plan, learned={name: learned[name] for name in _TAKEN_OVER})


def _check(report: Report, plan: PolicyPlan, unit: TimeUnit, log: ControlLog) -> None:
    period = plan.settings.period
    if (report.unit, report.period) == (unit, period):
        return
    was = describe(report.period * NANOSECONDS_PER[report.unit])
    now = describe(period * NANOSECONDS_PER[unit])
    message = (
        f"`learn_from` {log.shown!r} is of a join with times in {report.unit} and a period of "
        f"{was}, and this one has {unit} and {now}; what periods needed cannot be taken over"
    )
    raise InvalidSetting(message)

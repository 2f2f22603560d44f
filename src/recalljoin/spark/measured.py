"""Recall as it can be told from the reports of batches, one after another."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.recall import RecallMeter
from recalljoin.quality.settled import SettledRecall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recalljoin.spark.report import Report


class MeasuredRecall:
    """Recall over the last period, estimated while reports come in."""

    def __init__(self) -> None:
        self._meter: RecallMeter | None = None

    @property
    def recall(self) -> float | None:
        """As of the last report; None while there are no results to measure it by."""
        return None if self._meter is None else self._meter.measure().recall

    def observe(self, report: Report) -> RecallMeter:
        """Take in a batch; what comes back measures up to there."""
        bucket = report.profile.bucket
        meter = self._meter
        if meter is None or (meter.period, meter.bucket) != (report.period, bucket):
            # A restart may have changed the period: from there on it is measured anew, and what
            # came before is not known.
            known_since = NEVER if meter is None else max(report.local_times)
            meter = self._meter = RecallMeter(
                period=report.period,
                windows=report.windows,
                bucket=bucket,
                known_since=known_since,
            )
        if report.watermark != FOREVER:
            meter.observe(report.profile)
        return meter


def settled_recalls(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """For each batch the lowest recall of any period that ended in it, with all that is known.

    Columns for :func:`~recalljoin.spark.progress.progress`; none for a batch whose periods are
    less than the horizon behind the last one.
    """
    before = NEVER
    # A restart may have changed the period: what came before is not known from there on.
    for (period, _), same in groupby(reports, lambda r: (r.period, r.profile.bucket)):
        part = list(same)
        last = part[-1]
        known = SettledRecall(
            [report.profile for report in part], period=period, windows=last.windows
        )
        for report in part:
            columns: dict[str, Any] = {}
            if report.watermark == FOREVER or report.watermark < last.watermark - last.retention:
                lowest = known.lowest(before, report.watermark)
                columns = {
                    "recall_settled": lowest.recall,
                    "recall_settled_at_least": lowest.at_least,
                    "recall_settled_at_most": lowest.at_most,
                }
            before = report.watermark
            yield columns

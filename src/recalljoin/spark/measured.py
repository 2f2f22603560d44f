"""Recall as it can be measured from the reports of batches, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.engine.disorder import FOREVER
from recalljoin.quality.recall import RecallMeter

if TYPE_CHECKING:
    from recalljoin.spark.report import Report


class MeasuredRecall:
    """Recall over the last period, while reports come in."""

    def __init__(self) -> None:
        self._meter: RecallMeter | None = None

    @property
    def recall(self) -> float | None:
        """As of the last report; None while there are no results to measure it by."""
        newest = None if self._meter is None else self._meter.measure()
        if newest is None or newest.produced + newest.lost == 0:
            return None
        return newest.recall

    def observe(self, report: Report) -> RecallMeter:
        """Take in a batch; what comes back measures up to there."""
        bucket = report.profile.bucket
        meter = self._meter
        cut = (report.period, report.retention, bucket)
        if meter is None or (meter.period, meter.settling, meter.bucket) != cut:
            # A restart may have changed the period: from there on it is measured anew.
            meter = self._meter = RecallMeter(
                period=report.period, settling=report.retention, reach=report.reach, bucket=bucket
            )
        if report.watermark != FOREVER:
            meter.observe(report.profile)
        return meter

"""Recall and the precision of nulls, as reports show them: while a join runs, and looking back."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.null_precision import NullPrecision
from recalljoin.quality.recall import Measurement, RecallMeter
from recalljoin.quality.settled_recall import SettledRecall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recalljoin.spark.report import Report

Figures = dict[str, float | None]
"""Columns of :func:`~recalljoin.spark.progress.progress_table`."""


class MeasuredRecall:
    """Recall over the last period, estimated while reports come in.

    Parameters
    ----------
    since
        Tuples with times before this one may have come before the first report.
    """

    def __init__(self, since: int = NEVER) -> None:
        self._since = since
        self._meter: RecallMeter | None = None
        self._newest: Measurement | None = None

    @property
    def recall(self) -> float | None:
        """Recall as of the last report; None while there are no results to measure it by."""
        newest = self._measured()
        return None if newest is None else newest.recall

    def _measured(self) -> Measurement | None:
        if self._newest is None and self._meter is not None:
            self._newest = self._meter.measure()
        return self._newest

    def observe(self, report: Report) -> None:
        """Take in a batch."""
        bucket = report.profile.bucket
        meter = self._meter
        if meter is None or (meter.period, meter.bucket) != (report.period, bucket):
            # A restart may have changed the period: then recall is measured anew, and what came
            # before is not known.
            known_since = self._since if meter is None else max(report.local_times)
            meter = self._meter = RecallMeter(
                period=report.period,
                windows=report.windows,
                bucket=bucket,
                known_since=known_since,
            )
        if report.watermark != FOREVER:
            meter.observe(report.profile)
        self._newest = None

    def figures(self) -> Figures:
        """Recall as of the last report, with its bounds."""
        newest = self._measured()
        if newest is None:
            return {}
        return {
            "recall": newest.recall,
            "recall_at_least": newest.at_least,
            "recall_at_most": newest.at_most,
        }


def settled_figures(reports: Sequence[Report], since: int = NEVER) -> Iterator[Figures]:
    """For each report, what is known now of the periods that ended in it, and of its nulls.

    Parameters
    ----------
    reports
        Of single batches, or of stretches of batches, one after the other.
    since
        The watermark before the first report. Periods that reach further back are not measured.

    Yields
    ------
    dict
        Figures; only those that can be known.
    """
    before = since
    settled, precisions = _settled_recalls(reports, since), _null_precisions(reports)
    for report, recall, precision in zip(reports, settled, precisions, strict=True):
        reach = report.period + 2 * max(report.windows) + report.profile.bucket
        if since == NEVER or before - reach >= since:
            yield recall | precision
        else:
            yield {}
        before = report.watermark


def _null_precisions(reports: Sequence[Report]) -> Iterator[Figures]:
    """For each batch the precision of nulls over the last period, as known then and as known now.

    What is known now is given only for periods further back than the horizon.
    """
    if not reports:
        return
    last = reports[-1]
    # A restart may have changed the period: then buckets differ, and each stretch is on its own.
    for (period, bucket), same in groupby(reports, lambda r: (r.period, r.profile.bucket)):
        part = list(same)
        then, now = NullPrecision(bucket), NullPrecision(bucket)
        for report in part:
            now.observe(report.profile)
        for report in part:
            then.observe(report.profile)
            columns: Figures = {}
            if NEVER < report.watermark < FOREVER:
                columns["null_precision"] = then.measure(report.watermark, period)
                if report.watermark < last.watermark - last.retention:
                    columns["null_precision_settled"] = now.measure(report.watermark, period)
            yield columns


def _settled_recalls(reports: Sequence[Report], since: int) -> Iterator[Figures]:
    """For each batch the lowest recall of any period that ended in it, by all that is known now.

    None for a batch whose periods are less than the horizon behind the last batch.
    """
    before = since
    # A restart may have changed the period: then what came before is not known.
    for (period, _), same in groupby(reports, lambda r: (r.period, r.profile.bucket)):
        part = list(same)
        last = part[-1]
        known = SettledRecall(
            [report.profile for report in part], period=period, windows=last.windows
        )
        for report in part:
            columns: Figures = {}
            if report.watermark == FOREVER or report.watermark < last.watermark - last.retention:
                lowest = known.lowest(before, report.watermark)
                columns = {
                    "recall_settled": lowest.recall,
                    "recall_settled_at_least": lowest.at_least,
                    "recall_settled_at_most": lowest.at_most,
                }
            before = report.watermark
            yield columns

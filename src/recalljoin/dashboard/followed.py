"""A join that is followed: its log is read as it grows, and kept as numbers to be shown."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recalljoin.dashboard.columns import HIGHEST, LAST, LOWEST, MEAN, SUM, Columns
from recalljoin.dashboard.recent import Recent
from recalljoin.dashboard.settling import Settling
from recalljoin.dashboard.source_lags import SourceLags
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import RecallJoinError
from recalljoin.spark.clocks import Clock
from recalljoin.spark.figures import MeasuredRecall
from recalljoin.spark.health import HealthMeter, lag_ms
from recalljoin.spark.progress import COUNTS, batch_counts, busiest, mean_wait
from recalljoin.spark.report import BATCH
from recalljoin.spark.source_figures import WITHIN

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s
    from recalljoin.spark.control_log import ControlLog, Run
    from recalljoin.spark.health import Health
    from recalljoin.spark.report import Report
    from recalljoin.spark.stretch import Stretch

_KINDS: Final = {
    "batch": LAST,
    "planned": LAST,
    "span": SUM,
    "k": HIGHEST,
    "watermark": LAST,
    "watermark_lag": HIGHEST,
    "target": LAST,
    "recall": LOWEST,
    "recall_settled": LOWEST,
    "latency": HIGHEST,
    "took": HIGHEST,
    "buffered": HIGHEST,
    "kept": HIGHEST,
    "horizon": LAST,
    "busiest": HIGHEST,
    "beyond": SUM,
    "source_behind": HIGHEST,
    **dict.fromkeys([f"source_{name}" for name in WITHIN], HIGHEST),
    "lead": LAST,
    **dict.fromkeys(COUNTS, SUM),
}
_SETTLE_EVERY: Final = 64
"""While a long log is read, recall is settled after this many batches."""
_SMOOTH: Final = 20
"""Loads of cells and times of stages are shown as the mean of this many batches."""


class FollowedJoin:
    """One join, read from its control log as often as :meth:`catch_up` is called.

    Lengths of time are in seconds, and so are times: since 1970, or as the streams count them.

    Parameters
    ----------
    log
        The control log of the join.
    """

    def __init__(self, log: ControlLog) -> None:
        self.log = log
        self._lock = threading.Lock()
        self._columns = Columns(_KINDS)
        self._measured, self._meter = MeasuredRecall(), HealthMeter()
        self._recent, self._settling = Recent(), Settling()
        self._sources = SourceLags()
        self._last: Report | None = None
        self._health: Health | None = None
        self._loads: deque[tuple[int, ...]] = deque(maxlen=_SMOOTH)
        self._totals: Counter[str] = Counter()
        self._by_stream: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._runs: list[Run] = []
        self._n_read = 0
        self._is_read = False
        self._fault: str | None = None

    def catch_up(self) -> None:
        """Read what is new in the log. What goes wrong is kept to be shown."""
        try:
            before = -1 if self._last is None else self._last.batch
            if before < 0:
                before = self._take_rolled()
            for report in self.log.reports_after(before):
                with self._lock:
                    self._take(report)
            with self._lock:
                self._settle()
                self._runs = self.log.runs()
                self._fault, self._is_read = None, True
        except RecallJoinError as error:
            with self._lock:
                self._fault = str(error)

    def _take_rolled(self) -> int:
        """Take in what old batches are rolled up into; returns the last of them."""
        rolled = self.log.rolled()
        self._measured = MeasuredRecall(rolled.since)
        for stretch in rolled.stretches:
            with self._lock:
                self._take(stretch.report, stretch)
        return rolled.until

    def _take(self, report: Report, stretch: Stretch | None = None) -> None:
        clock, columns = Clock.of(report), self._columns
        has_times = stretch is None or stretch.has_times
        if has_times:
            self._measured.observe(report)
        recall = self._measured.recall if stretch is None else stretch.figures.get("recall")
        self._health = self._meter.observe(report, recall)
        counts = batch_counts(report)
        planned = report.clock / 1000 if report.clock else None
        before = columns["planned"][-1] if len(columns) else np.nan
        row: dict[str, float | None] = {
            "batch": report.batch,
            "planned": planned,
            "span": None if planned is None or np.isnan(before) else max(0.0, planned - before),
            "k": clock.ms(report.k) / 1000,
            "watermark": _seconds(clock, report.watermark),
            "watermark_lag": _thousandth(lag_ms(report, report.watermark)),
            "target": report.target,
            "recall": recall,
            "latency": _seconds(clock, mean_wait(report)),
            "took": report.seconds.get(BATCH),
            "buffered": report.n_buffered,
            "kept": report.n_kept,
            "horizon": clock.ms(report.retention) / 1000,
            "busiest": busiest(report),
            "beyond": report.profile.n_beyond,
            **self._sources.observe(report, clock),
            **counts,
        }
        for stream in self._health.streams:
            for name, value, kind in (
                ("behind", _seconds(clock, stream.behind), HIGHEST),
                ("lag", _thousandth(stream.lag_ms), HIGHEST),
                ("arrived", stream.arrived, SUM),
            ):
                columns.add(f"{name}:{stream.name}", kind)
                row[f"{name}:{stream.name}"] = value
            self._by_stream["arrived", stream.name] += stream.arrived
            self._by_stream["late", stream.name] += stream.late
        for stage, value in report.seconds.items():
            if stage != BATCH:
                columns.add(f"stage:{stage}", MEAN)
                row[f"stage:{stage}"] = value
        columns.append(row)
        self._totals.update(counts)
        self._totals["beyond"] += report.profile.n_beyond
        self._totals["restored"] += report.n_restored
        for stream_name, reasons in zip(report.streams, report.refused, strict=True):
            for reason, n in reasons.items():
                self._refused[stream_name, reason] += n
        self._loads.append(report.loads)
        if has_times:
            self._recent.observe(report)
            self._settling.observe(len(columns) - 1, report)
        self._last = report
        if len(columns) % _SETTLE_EVERY == 0:
            self._settle()

    def _settle(self) -> None:
        settled = self._columns["recall_settled"]
        for place, recall in self._settling.settled().items():
            settled[place] = recall

    @property
    def last(self) -> Report | None:
        """The newest batch; None before the first."""
        return self._last

    @property
    def name(self) -> str:
        """Name of the join, as its metrics have it."""
        return self._runs[-1].name if self._runs else "recalljoin"

    def series(
        self,
        *,
        after: float = -1,
        begin: float = -np.inf,
        end: float = np.inf,
        most: int = 1000,
    ) -> dict[str, Any]:
        """Columns of numbers, one number for each batch or for several batches together.

        Parameters
        ----------
        after
            Number of a batch; only later batches are given.
        begin, end
            Only batches that were planned within these times are given.
        most
            Most numbers of a column.
        """
        with self._lock:
            columns = self._columns
            planned = columns["planned"]
            first = int(np.searchsorted(columns["batch"], after, side="right"))
            if np.isfinite(begin) or np.isfinite(end):
                # A clock may be missing in a batch; such a batch is left out of a stretch of time.
                (within,) = np.nonzero((planned >= begin) & (planned <= end))
                within = within[within >= first]
                first, stop = (int(within[0]), int(within[-1]) + 1) if len(within) else (0, 0)
            else:
                stop = len(columns)
            found = columns.between(first, stop, most)
            return {
                "n": stop - first,
                "columns": {name: _plain(values) for name, values in found.items()},
            }

    def now(self) -> dict[str, Any]:
        """How the join is now, as values that JSON can hold."""
        with self._lock:
            last, health = self._last, self._health
            about = {
                "name": self.name,
                "folder": self.log.shown,
                "is_read": self._is_read,
                "fault": self._fault,
                "n_batches": len(self._columns),
                "runs": [{"since": run.since / 1000} for run in self._runs],
                "text": self._runs[-1].text if self._runs else "",
            }
            if last is None or health is None:
                return about
            clock = Clock.of(last)
            return about | {
                "batch": last.batch,
                "planned": last.clock / 1000 if last.clock else None,
                "has_ended": last.watermark == FOREVER,
                "has_dates": clock.has_dates,
                "k": clock.ms(last.k) / 1000,
                "max_wait": _seconds(clock, last.max_wait),
                "period": clock.ms(last.period) / 1000,
                "watermark": _seconds(clock, last.watermark),
                "target": last.target,
                "recall": _number(self._columns["recall"][-1]),
                "recall_settled": self._newest("recall_settled"),
                "latency": self._newest("latency"),
                "took": self._newest("took"),
                "stages": self._mean_stages(),
                "below_target": health.below_target,
                "at_max_wait": health.at_max_wait,
                "stalled": health.stalled,
                "phase": last.phase,
                "horizon_limited": last.limited,
                "streams": [
                    {
                        "name": each.name,
                        "time": _seconds(clock, each.time),
                        "behind": _seconds(clock, each.behind),
                        "lag": _thousandth(each.lag_ms),
                        "rate": each.rate,
                        "idle": each.idle,
                        "arrived": self._by_stream["arrived", each.name],
                        "late": self._by_stream["late", each.name],
                    }
                    for each in health.streams
                ],
                "sources": self._sources.now(),
                "totals": dict(self._totals),
                "buffered": last.n_buffered,
                "kept": last.n_kept,
                "kept_bytes": last.kept_bytes,
                "n_cells": last.n_cells,
                "refused": [
                    {"stream": stream, "reason": reason, "n": n}
                    for (stream, reason), n in sorted(self._refused.items())
                ],
                "loads": self._mean_loads(),
                "delays": self._recent.delays(clock),
                "lost": self._recent.lost(clock),
                "forecast": self._recent.forecast(clock),
            }

    def _newest(self, name: str) -> float | None:
        """The newest number of a column that has one."""
        values = self._columns[name]
        (known,) = np.nonzero(~np.isnan(values[-_SETTLE_EVERY:]))
        return float(values[-_SETTLE_EVERY:][known[-1]]) if len(known) else None

    def _mean_stages(self) -> dict[str, float]:
        means = {}
        for name in self._columns.names:
            values = self._columns[name][-_SMOOTH:] if name.startswith("stage:") else np.empty(0)
            values = values[~np.isnan(values)]
            if len(values):
                means[name.removeprefix("stage:")] = float(values.mean())
        return means

    def _mean_loads(self) -> list[float]:
        # A report of an earlier release knows the busiest cell only.
        same = [each for each in self._loads if len(each) == len(self._loads[-1])]
        return [sum(loads) / len(same) for loads in zip(*same, strict=True)]


def _seconds(clock: Clock, value: int | None) -> float | None:
    return None if value is None or value in (NEVER, FOREVER) else clock.ms(value) / 1000


def _thousandth(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _plain(values: Float64s) -> list[float | None]:
    """Numbers as JSON has them; beyond a millionth nothing can be seen."""
    return [None if value != value else value for value in np.round(values, 6).tolist()]  # noqa: PLR0124

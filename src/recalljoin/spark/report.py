"""What cells report of a batch, how reports are added, and the recall read from reports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from itertools import groupby
from operator import add
from typing import TYPE_CHECKING, Any

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import StateVersionError
from recalljoin.quality.horizon import Kept
from recalljoin.quality.null_precision import NullPrecision
from recalljoin.quality.profile import Profile
from recalljoin.quality.recall import RecallMeter
from recalljoin.quality.settled_recall import SettledRecall
from recalljoin.spark.hot_keys import Heavy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from recalljoin.quality.adaptation import Adaptation
    from recalljoin.quality.cell import Cell
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.cell import CellPlan

LAYOUT = 3
"""Layout of the reports that are written, and the only layout that can be read."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One batch, as one cell or all cells together have seen it.

    A tuple is counted in the cell that owns it, so that sums over cells count each tuple once.
    """

    batch: int
    cell: int | None
    """Number of the cell; None for all cells together."""
    n_cells: int
    streams: tuple[str, ...]
    """Names of the streams."""
    unit: TimeUnit
    """Unit of all times except ``clock``."""
    period: int
    """Recall is measured over this long."""
    windows: tuple[int, ...]
    retention: int
    """How long tuples are remembered behind their windows."""
    limited: bool
    """Whether the limit of bytes makes the retention shorter than delays ask for."""
    k: int
    clock: int
    """The driver's clock when the batch was planned, in milliseconds since 1970."""
    watermark: int
    base_time: int
    local_times: tuple[int, ...]
    earliest: int
    """Smallest timestamp of the batch's tuples; FOREVER if the batch has no tuples."""
    has_data: bool
    """Whether any source has moved on."""
    n_arrived: tuple[int, ...]
    """Tuples of each stream over all cells; every cell reports the same."""
    refused: tuple[dict[str, int], ...]
    """Refused rows of each stream by reason, over all cells; every cell reports the same."""
    n_buffered: int
    n_kept: int
    """Tuples in windows and retention horizon, copies included."""
    kept_bytes: int
    """Approximate size of these tuples."""
    n_delivered: int
    """Tuples taken in, copies included."""
    n_busiest: int
    """Tuples taken in and results found by the busiest cell."""
    n_restored: int
    """Cells that were rebuilt from state, as their instance was not in the worker's memory."""
    profile: Profile
    """What the policy learns from."""
    buffered_bytes: int = 0
    """Approximate size of the tuples that wait, copies included."""
    front: int = NEVER
    """Clock of the slowest stream."""
    lead: int | None = None
    """How far the base time may be ahead of the slowest source; None: no source holds it back."""
    slowest: int = NEVER
    """Clock of the slowest source that matters; NEVER where there is none."""
    held_by: str | None = None
    """Name of that source."""
    n_sources: int | None = None
    """Sources that have a clock; None where streams have no sources."""
    n_early: int = 0
    """Tuples released although a stream was still behind them, as too much was waiting."""
    phase: str | None = None
    """Whether K rests on few periods, on what is usual, or follows a change; None: unknown."""
    recall_before: float | None = None
    """Recall over the last period, as estimated when the batch was planned."""
    adaptations: tuple[tuple[int, int], ...] = ()
    """Where K changes inside a batch: the times at which K was adapted, and the new K."""
    heavy: tuple[Heavy, ...] = ()
    """Keys that many tuples have, over all cells; every cell reports the same."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by stage; unlike all other fields, it differs between attempts of a batch."""

    @property
    def n_refused(self) -> int:
        """Rows refused, for whatever reason."""
        return sum(sum(counts.values()) for counts in self.refused)

    def show_to(self, adaptation: Adaptation) -> None:
        """Let the policy learn from the batch, and choose K if an interval has ended in it."""
        adaptation.take(
            self.profile,
            Kept(self.n_kept, self.kept_bytes),
            latest=max(self.local_times),
            earliest=self.earliest,
            n_delivered=self.n_delivered,
        )

    def to_json(self) -> str:
        """As text."""
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({**content, "profile": self.profile.to_json(), "layout": LAYOUT})

    @classmethod
    def from_json(cls, text: str) -> Report:
        """From :meth:`to_json`.

        Raises
        ------
        StateVersionError
            When another release has written the report in another layout.
        """
        content: dict[str, Any] = json.loads(text)
        layout = content.pop("layout", 1)
        if layout != LAYOUT:
            message = (
                f"the control log has reports of layout {layout}, this release reads layout "
                f"{LAYOUT}; go on with the release that wrote them, or give the query a new "
                "`control_log`, where K is learned anew"
            )
            raise StateVersionError(message)
        for name in ("streams", "windows", "local_times", "n_arrived", "refused"):
            content[name] = tuple(content[name])
        content["adaptations"] = tuple((at, k) for at, k in content["adaptations"])
        content["heavy"] = tuple(Heavy(*each) for each in content["heavy"])
        content["profile"] = Profile.from_json(content["profile"])
        return cls(**content)


def report_of(
    plan: CellPlan,
    cell: Cell,
    profile: Profile,
    *,
    number: int = 0,
    n_delivered: int,
    restored: bool = False,
    **batch: Any,
) -> Report:
    """What one cell reports of a batch.

    Parameters
    ----------
    plan
        What all cells have in common.
    cell, number
        The cell as the batch has left it, and the cell's number.
    profile
        What the batch has shown.
    n_delivered
        Tuples that the cell was given.
    restored
        Whether the cell was rebuilt from its state.
    batch
        The fields of :class:`Report` that only the caller knows.
    """
    pipeline, streams = cell.pipeline, plan.query.streams
    return Report(
        cell=number,
        n_cells=plan.grid.n_cells,
        streams=tuple(stream.name for stream in streams),
        unit=plan.query.unit,
        period=plan.period,
        windows=tuple(stream.window for stream in streams),
        retention=pipeline.retention,
        watermark=pipeline.join_time,
        base_time=pipeline.base_time,
        front=pipeline.front,
        local_times=tuple(pipeline.local_times.tolist()),
        n_buffered=cell.n_buffered,
        buffered_bytes=pipeline.buffered_bytes,
        n_kept=pipeline.n_kept,
        kept_bytes=pipeline.kept_bytes,
        n_delivered=n_delivered,
        n_busiest=n_delivered + profile.n_produced + profile.n_lost,
        n_restored=int(restored),
        profile=profile,
        **batch,
    )


def merged(reports: Iterable[Report]) -> Report:
    """The reports of all cells of a batch put together; clocks and arrivals are the same in all."""
    cells = sorted(reports, key=lambda report: report.cell or 0)
    first = cells[0]
    seconds: dict[str, float] = {}
    for report in cells:
        for stage, value in report.seconds.items():
            # Every cell reports how long packing took, and about the same tasks.
            seconds[stage] = value if stage == "route" else seconds.get(stage, 0.0) + value
    return replace(
        first,
        cell=None,
        earliest=min(report.earliest for report in cells),
        n_buffered=sum(report.n_buffered for report in cells),
        buffered_bytes=sum(report.buffered_bytes for report in cells),
        n_early=sum(report.n_early for report in cells),
        n_kept=sum(report.n_kept for report in cells),
        kept_bytes=sum(report.kept_bytes for report in cells),
        n_delivered=sum(report.n_delivered for report in cells),
        n_busiest=max(report.n_busiest for report in cells),
        n_restored=sum(report.n_restored for report in cells),
        profile=reduce(add, (report.profile for report in cells)),
        seconds=seconds,
    )


class MeasuredRecall:
    """Recall over the last period, estimated while reports come in."""

    def __init__(self) -> None:
        self._meter: RecallMeter | None = None

    @property
    def recall(self) -> float | None:
        """Recall as of the last report; None while there are no results to measure it by."""
        return None if self._meter is None else self._meter.measure().recall

    def observe(self, report: Report) -> RecallMeter:
        """Take in a batch; returns the meter, which measures recall up to this batch."""
        bucket = report.profile.bucket
        meter = self._meter
        if meter is None or (meter.period, meter.bucket) != (report.period, bucket):
            # A restart may have changed the period: then recall is measured anew, and what came
            # before is not known.
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


def null_precisions(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
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
            columns: dict[str, Any] = {}
            if NEVER < report.watermark < FOREVER:
                columns["null_precision"] = then.measure(report.watermark, period)
                if report.watermark < last.watermark - last.retention:
                    columns["null_precision_settled"] = now.measure(report.watermark, period)
            yield columns


def settled_recalls(reports: Sequence[Report]) -> Iterator[dict[str, Any]]:
    """For each batch the lowest recall of any period that ended in it, by all that is known now.

    Columns for :func:`~recalljoin.spark.progress.progress_table`; none for a batch whose periods
    are less than the horizon behind the last batch.
    """
    before = NEVER
    # A restart may have changed the period: then what came before is not known.
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

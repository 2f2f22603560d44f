"""What cells report of a batch, and how reports of cells and of batches are added."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from operator import add
from typing import TYPE_CHECKING, Any

from recalljoin.engine.output import time_type
from recalljoin.engine.times import NEVER
from recalljoin.errors import StateVersionError
from recalljoin.quality.horizon import Kept
from recalljoin.quality.profile import Profile, profile_of_cells
from recalljoin.quality.told_sources import ToldSource, packed, unpacked
from recalljoin.spark.hot_keys import Heavy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recalljoin.quality.adaptation import Adaptation
    from recalljoin.quality.cell import Cell
    from recalljoin.query.durations import TimeUnit
    from recalljoin.spark.cell import CellPlan

LAYOUT = 3
"""Layout of the reports that are written, and the only layout that can be read."""
BATCH = "batch"
"""Among the seconds by stage: how long the whole batch took, from its planning to the report."""
FEW_SOURCES = 5
"""So many sources of an old batch are kept by name."""
_LONGEST = ("route", BATCH)
"""Stages of which the longest counts: every cell reports about the same tasks, or waits as long."""


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
    loads: tuple[int, ...]
    """For each cell the tuples taken in and the results found."""
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
    furthest: tuple[ToldSource, ...] = ()
    """The sources that are furthest behind, the furthest first; of old batches the first few."""
    source_clocks: tuple[int, ...] = ()
    """Clocks that half, 90 % and 99 % of all sources have reached at least."""
    n_early: int = 0
    """Tuples released although a stream was still behind them, as too much was waiting."""
    target: float | None = None
    """The recall asked for; None where K is fixed."""
    max_wait: int | None = None
    """The longest K allowed; None for no limit."""
    time_type: str = "int64"
    """Arrow's name for the type of the time of results."""
    emit: str = "ordered"
    """When results leave."""
    idle: tuple[bool, ...] = ()
    """For each stream whether it was silent for longer than ``idle_after``."""
    phase: str | None = None
    """Whether K rests on few periods, on what is usual, or follows a change; None: unknown."""
    recall_before: float | None = None
    """Recall over the last period, as estimated when the batch was planned."""
    adaptations: tuple[tuple[int, int], ...] = ()
    """Where K changes inside a batch: the times at which K was adapted, and the new K."""
    heavy: tuple[Heavy, ...] = ()
    """Keys that many tuples have, over all cells; every cell reports the same."""
    figures: dict[str, float | None] | None = None
    """Recall over the last period and its bounds, as measured after the batch; None if that is not
    noted, as in the reports of cells."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by stage; unlike all other fields, it differs between attempts of a batch."""

    @property
    def n_refused(self) -> int:
        """Rows refused, for whatever reason."""
        return sum(sum(counts.values()) for counts in self.refused)

    @property
    def shortened(self) -> Report:
        """As it is kept of an old batch: with the few sources that were furthest behind."""
        return replace(self, furthest=self.furthest[:FEW_SOURCES])

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
        # Names repeat in every batch, and pack well.
        content["furthest"] = packed(self.furthest) if self.furthest else ()
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
        # A report of an earlier release knows the busiest cell only.
        content.setdefault("loads", [content.pop("n_busiest", 0)])
        content.setdefault("idle", ())
        content.setdefault("source_clocks", ())
        for name in _TUPLES:
            content[name] = tuple(content[name])
        content["adaptations"] = tuple((at, k) for at, k in content["adaptations"])
        content["furthest"] = _furthest_in(content.get("furthest", ()))
        content["heavy"] = tuple(Heavy(*each) for each in content["heavy"])
        content["profile"] = Profile.from_json(content["profile"])
        return cls(**content)


def _furthest_in(told: str | Iterable[list[Any]]) -> tuple[ToldSource, ...]:
    """The sources in a report; earlier releases did not pack them, nor note their streams."""
    rows = unpacked(told) if isinstance(told, str) else told
    return tuple(ToldSource(*each, *[None] * (3 - len(each))) for each in rows)


_TUPLES = (
    "streams", "windows", "local_times", "n_arrived", "refused", "loads", "idle", "source_clocks",
)  # fmt: skip


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
        target=plan.target,
        max_wait=plan.max_wait,
        time_type=str(time_type(plan.query)),
        emit=plan.query.emit,
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
        loads=(n_delivered + profile.n_produced + profile.n_lost,),
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
            before = seconds.get(stage, 0.0)
            seconds[stage] = max(before, value) if stage in _LONGEST else before + value
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
        loads=tuple(load for report in cells for load in report.loads),
        n_restored=sum(report.n_restored for report in cells),
        profile=profile_of_cells([report.profile for report in cells]),
        seconds=seconds,
    )


def one_after_the_other(one: Report, other: Report) -> Report:
    """Two stretches of batches put together: sums, and of all else what ``other``, the later, has.

    The sums of stretches without times are sums still, though their profiles cannot be shown to a
    policy.
    """
    seconds = dict(one.seconds)
    for stage, value in other.seconds.items():
        seconds[stage] = seconds.get(stage, 0.0) + value
    return replace(
        other,
        earliest=min(one.earliest, other.earliest),
        has_data=one.has_data or other.has_data,
        n_arrived=tuple(map(add, one.n_arrived, other.n_arrived)),
        refused=tuple(map(_both_refused, one.refused, other.refused)),
        n_early=one.n_early + other.n_early,
        n_delivered=one.n_delivered + other.n_delivered,
        loads=_both_loads(one.loads, other.loads),
        n_restored=one.n_restored + other.n_restored,
        profile=one.profile + other.profile,
        adaptations=(),
        heavy=(),
        figures=None,
        seconds=seconds,
    )


def _both_loads(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Loads of the same cells; a restart may have changed their number."""
    return tuple(map(add, one, other)) if len(one) == len(other) else other


def _both_refused(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in {**one, **other}}

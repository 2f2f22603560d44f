"""From a query and its settings to the plans of the cells and of the control source."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from recalljoin.engine.ahead import max_ahead_of
from recalljoin.engine.doubts import integer_streams
from recalljoin.engine.settings import EngineSettings
from recalljoin.errors import InvalidQuery, InvalidSetting
from recalljoin.quality.adaptation import PolicyPlan, plan_policy
from recalljoin.quality.cell import Measures
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.query.durations import MAX_TIME, in_unit, nanoseconds, too_long
from recalljoin.query.expressions import Column
from recalljoin.query.kinds import SOURCES_IN_TICKS, tick_only_faults
from recalljoin.query.sizes import n_bytes
from recalljoin.spark.ahead import AheadRule
from recalljoin.spark.batch_planner import ControlPlan
from recalljoin.spark.cell import ByTick, ByTuple, CellPlan
from recalljoin.spark.cells import NOT_HOT, Hot, Layout, make_grid
from recalljoin.spark.columns import bind_frames
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.hashing import hashed
from recalljoin.spark.hot_keys import can_split
from recalljoin.spark.kafka_partitions import follow_partitions, follows_partitions
from recalljoin.spark.learning import taught
from recalljoin.spark.notices import Notices
from recalljoin.spark.packing import needed_schema
from recalljoin.spark.plan_text import plan_text
from recalljoin.spark.source_parcels import follows_sources
from recalljoin.spark.waiting import WaitLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import DurationLike
    from recalljoin.query.model import Query
    from recalljoin.spark.chained import Upstream
    from recalljoin.spark.options import HotKeys, RunSettings

_SHORTEST_HEARTBEAT = 500


@dataclass(frozen=True)
class JoinPlan:
    """A join that is ready to be run."""

    query: BoundQuery
    frames: Mapping[str, DataFrame]
    """The DataFrame of each stream, with the columns that Spark computes for the condition."""
    cells: CellPlan
    policy: PolicyPlan
    horizon: HorizonPlan | None
    """Chooses how long tuples are remembered; None where the cell chooses."""
    finds_hot_keys: bool
    """Whether keys that many tuples have are looked for."""
    limits: WaitLimits
    """How much may wait for a stream that is behind."""
    name: str
    """Name of the metrics in the query's progress."""

    @property
    def layout(self) -> Layout:
        """The cells and where they live."""
        return self.cells.layout

    def control(self, *, flush: bool, upstream: tuple[Upstream, ...] = ()) -> ControlPlan:
        """The plan of the control source."""
        assert self.cells.log is not None
        idle_after = self.cells.idle_after
        return ControlPlan(
            log=self.cells.log,
            layout=self.layout,
            identity=self.cells.identity,
            policy=self.policy,
            horizon=self.horizon,
            heartbeat=None if idle_after is None else max(idle_after // 2, _SHORTEST_HEARTBEAT),
            flush=flush,
            notices=Notices(integer_streams(self.query), self.query.time_unit),
            finds_hot_keys=self.finds_hot_keys,
            limits=self.limits,
            sources=SourcePlan.of(self.policy.settings) if follows_sources(self.query) else None,
            partitions=follows_partitions(self.query),
            upstream=upstream,
            name=self.name,
            text=plan_text(self),
        )


def plan_join(
    query: Query,
    frames: Mapping[str, DataFrame],
    settings: RunSettings,
    *,
    n_cells: int,
    n_groups: int,
    control_log: str | None,
    is_recorded: bool = False,
) -> JoinPlan:
    """Bind a query to the DataFrames of its streams and divide its work.

    Parameters
    ----------
    query
        The query as the user states it.
    frames
        The DataFrame of each stream.
    settings
        How the join is run.
    n_cells, n_groups
        Numbers of cells and groups, if the settings leave them open.
    control_log
        Folder in which cells leave reports; None for no reports.
    is_recorded
        Whether the frames are recordings, which one task joins.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    InvalidSetting
        When settings contradict each other.
    """
    bound, wide = bind_frames(query, frames, time_unit=settings.time_unit)
    if bound.counts_only:
        message = (
            "SELECT count(*) is for local runs; in Spark select columns and count the DataFrame, "
            "or read the number of results from the query's progress"
        )
        raise InvalidQuery(message)
    if settings.follow_partitions and settings.arrival == "tick" and not is_recorded:
        bound, wide = follow_partitions(bound, wide)
    target = replace(PolicySettings.of(bound), takes_leads=not follows_partitions(bound))
    policy = plan_policy(
        target,
        recall=bound.quality.recall if bound.quality else None,
        k=None if settings.k is None else _units(settings.k, "k", bound),
        choice=settings.policy,
        options=settings.policy_options,
    )
    if settings.learn_from is not None:
        policy = taught(policy, settings.learn_from, bound.unit)
    groups = n_groups if settings.groups is None else settings.groups
    by_tuple = _arrives_by_tuple(settings)
    if by_tuple:
        faults = list(tick_only_faults(bound.how, bound.emit))
        if follows_sources(bound):
            faults.append(f"{SOURCES_IN_TICKS}: leave arrival='tuple' out")
        if faults:
            raise InvalidSetting("; ".join(faults))
        n_cells = 1
    if is_recorded and not bound.residual:
        # Cells of one task are threads. Ticks of an equi-join are too short for that.
        n_cells = 1
    grid = make_grid(bound, n_cells if settings.cells is None else settings.cells)
    layout = Layout(grid, min(groups, grid.n_cells))
    idle_after = None
    if settings.idle_after is not None:
        idle_after = in_unit(nanoseconds(settings.idle_after, name="idle_after"), "ms")
    retention = None
    if settings.retention is not None:
        retention = _units(settings.retention, "retention", bound)
    horizon = HorizonPlan(
        target, retention, n_bytes(settings.horizon_memory, name="horizon_memory")
    )
    named_hot = hot_of(bound, settings.hot_keys)
    if not can_split(grid):
        named_hot = NOT_HOT if bound.how == "full" else named_hot
    cells = CellPlan(
        query=_for_cells(bound, by_tuple=by_tuple),
        layout=layout,
        settings=EngineSettings(
            arrival=settings.arrival,
            folded=True,
            slack=True,
        ),
        identity=identity_of(bound, named_hot, settings.arrival),
        log=None if control_log is None else ControlLog(control_log),
        period=target.period,
        target=target.recall if bound.quality is not None else None,
        max_wait=target.max_wait if bound.quality is not None else None,
        measures=Measures.of(target),
        mode=ByTuple(policy, horizon) if by_tuple else ByTick(),
        idle_after=idle_after,
        late_rows=settings.late_rows,
        ahead=_ahead(bound, settings.max_ahead, frames),
        named_hot=named_hot,
    )
    if by_tuple:
        # The cell chooses K itself, and ignores the K in the offsets.
        policy = PolicyPlan(target, "none")
    finds = settings.hot_keys == "auto" and can_split(grid)
    return JoinPlan(
        bound,
        wide,
        cells,
        policy,
        None if by_tuple else horizon,
        finds_hot_keys=finds,
        limits=_wait_limits(query, settings),
        name=settings.name,
    )


def _arrives_by_tuple(settings: RunSettings) -> bool:
    if settings.arrival == "tick":
        return False
    if settings.cells not in (None, 1):
        message = (
            "tuples that arrive one by one are joined by one operator instance: `cells` must be 1 "
            f"with arrival='tuple', got {settings.cells!r}; use arrival='tick' for many cells"
        )
        raise InvalidSetting(message)
    for name, is_set in (("idle_after", settings.idle_after), ("late_rows", settings.late_rows)):
        if is_set:
            message = f"`{name}` is there with arrival='tick' only"
            raise InvalidSetting(message)
    return True


def _wait_limits(query: Query, settings: RunSettings) -> WaitLimits:
    memory, max_wait = settings.buffer_memory, None
    if query.quality is not None and query.quality.max_wait is not None:
        max_wait = in_unit(nanoseconds(query.quality.max_wait, name="max_wait"), "ms")
    return WaitLimits(
        max_buffered=settings.max_buffered,
        buffer_memory=None if memory is None else n_bytes(memory, name="buffer_memory"),
        when_full=settings.when_full,
        max_wait=max_wait,
    )


def _ahead(
    bound: BoundQuery, given: DurationLike | None, frames: Mapping[str, DataFrame]
) -> AheadRule | None:
    max_ahead = max_ahead_of(bound, given)
    if max_ahead is None:
        return None
    recorded = not any(frame.isStreaming for frame in frames.values())
    return AheadRule.of(bound, max_ahead, recorded=recorded)


def _for_cells(bound: BoundQuery, *, by_tuple: bool) -> BoundQuery:
    # The target may change while a checkpoint is in use, and cells need not know it. Nor need cells
    # know arrival columns, unless these columns tell the order of tuples.
    streams = bound.streams if by_tuple else tuple(replace(s, arrival=None) for s in bound.streams)
    return replace(bound, quality=None, streams=streams)


def _units(length: DurationLike, name: str, bound: BoundQuery) -> int:
    units = in_unit(nanoseconds(length, name=name), bound.unit)
    if units > MAX_TIME:
        raise InvalidSetting(too_long(name, length, bound.unit))
    return units


def hot_of(bound: BoundQuery, named: HotKeys) -> Hot:
    """The keys that a user names as hot.

    Raises
    ------
    InvalidSetting
        When a column is no key of the join, or a value does not have the column's type.
    """
    if isinstance(named, str):
        return NOT_HOT
    columns = {
        f"{bound.streams[s].name}.{expression.name}": c
        for c, equality in enumerate(bound.classes)
        for s, expression in equality.members.items()
        if isinstance(expression, Column) and expression.name in bound.streams[s].schema.names
    }
    hot = NOT_HOT
    for column, values in named.items():
        if column not in columns:
            others = "none; a field or an expression must first become a column"
            known = ", ".join(sorted(columns)) or others
            message = (
                f"`hot_keys` names {column!r}, which is no column that must equal one of another "
                f"stream; such columns are: {known}"
            )
            raise InvalidSetting(message)
        kind = bound.classes[columns[column]].type
        try:
            hashes = hashed(pa.array(values, kind))
        except (pa.ArrowException, TypeError, ValueError) as error:
            message = f"`hot_keys` of {column!r} must be values of type {kind}, got {values!r}"
            raise InvalidSetting(message) from error
        keys = [()] * columns[column] + [tuple(sorted({int(each) for each in hashes}))]
        hot |= Hot(tuple(keys))
    return hot


def _sources(bound: BoundQuery) -> dict[str, dict[str, str | None]]:
    # A checkpoint goes on without its partitions.
    if not follows_sources(bound) or follows_partitions(bound):
        return {}
    return {"sources": {stream.name: stream.source for stream in bound.streams}}


def identity_of(bound: BoundQuery, named_hot: Hot = NOT_HOT, arrival: str = "tick") -> str:
    """What must stay the same while a checkpoint is in use, as JSON."""
    streams = {
        stream.name: f"window {stream.window} {bound.unit}, time {bound.time_text(stream)}"
        for stream in bound.streams
    }
    columns = {
        stream.name: ", ".join(f"{f.name} {f.type}" for f in needed_schema(bound, s))
        for s, stream in enumerate(bound.streams)
    }
    classes = [" = ".join(repr(e) for _, e in sorted(c.members.items())) for c in bound.classes]
    condition = sorted(classes) + sorted(repr(each.expression) for each in bound.residual)
    return json.dumps(
        {
            "streams": streams,
            "condition": condition,
            "columns": columns,
            "hot_keys": named_hot.keys,
            "arrival": arrival,
            **_sources(bound),
            **({} if bound.how == "inner" else {"how": bound.how}),
            **({} if bound.emit == "ordered" else {"emit": bound.emit}),
        }
    )

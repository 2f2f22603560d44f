"""One operator instance under a policy, on recorded arrivals.

The recording is cut at the adaptation points. The tuples between two adaptation points go through
the pipeline at once, with the K in force. Then recall is measured, and the policy looks at the
profile of the interval and chooses the next K.

    boundaries      |         |         |            the clock, max iT, reaches start + n L
    arrivals   . . . . . . . . . . . . . . . . .
    slices     [ - - - K0 - - ][ - K1 - ][ - K2 -    the tuple that reaches it is still in the old
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.errors import InvalidSetting
from recalljoin.quality.adaptation import Adaptation
from recalljoin.quality.cell import Cell, Measures
from recalljoin.quality.horizon import DEFAULT_LIMIT, HorizonPlan
from recalljoin.quality.latency import LatencyMeter
from recalljoin.quality.policy import ArrivalPolicy, lead_of, leap_of
from recalljoin.quality.recall import RecallMeter, Timeline
from recalljoin.quality.record import Reported, RunRecord, Schedule
from recalljoin.quality.replay import Replay, TickReplay, TupleReplay
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.engine.step import Step
    from recalljoin.quality.policy import BufferSizePolicy
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings
    from recalljoin.query.bound_query import BoundQuery


def true_results(query: BoundQuery, arrivals: Arrivals) -> Timeline:
    """All true results by their time: one run that waits for the end of the input."""
    if query.how == "inner":
        pipeline = Pipeline(replace(query, emit="ordered"), EngineSettings(rows=False, lost=False))
        drain(pipeline.push(arrivals, k=MAX_TIME))
    else:
        pipeline = Pipeline(query, EngineSettings(arrival="tick", rows=False, lost=False))
        tick = np.zeros(len(arrivals), dtype=np.int64)
        drain(pipeline.push_ticks(arrivals, tick, n_ticks=1, k=MAX_TIME))
    _, step = drain(pipeline.flush())
    assert not step.late.any()
    return Timeline.of(*step.produced)


def run_adaptive(
    query: BoundQuery,
    arrivals: Arrivals,
    policy: BufferSizePolicy,
    settings: PolicySettings,
    *,
    arrival: Literal["tuple", "tick"] = "tuple",
    tick: int | None = None,
    truth: Timeline | None = None,
    clock: Int64s | None = None,
    slack: bool = True,
    retention: int | None = None,
    horizon_memory: int = DEFAULT_LIMIT,
) -> RunRecord:
    """Run a policy over recorded arrivals and record how it went.

    Parameters
    ----------
    query
        What to join; results are counted, not produced.
    arrivals
        The whole input.
    policy
        Chooses K; it must be new.
    settings
        Target, period and interval, as the policy has them.
    arrival, tick
        Whether tuples arrive one by one or in ticks, and the length of a tick on the arrival
        column.
    truth
        True results, if they are known. By default, the results produced and the results counted
        as lost by the end of the run; that is the same unless tuples came beyond the retention
        horizon.
    clock
        When each tuple arrived, for latencies; by default the largest timestamp so far.
    slack
        Keep the histogram of required slack even if the policy does not ask for it. Without it
        a run is faster, and latencies count from the trigger's arrival instead of the last
        member's.
    retention
        How long tuples are remembered after they have left their window, to count what is lost
        with tuples that come even later. By default this length follows the delays
        (:class:`~recalljoin.quality.horizon.Horizon`).
    horizon_memory
        Limit of bytes for remembered tuples, where ``retention`` follows the delays.
    """
    engine = EngineSettings(arrival=arrival, rows=False, slack=slack or policy.uses_slack)
    cell = Cell(Pipeline(query, engine), Measures.of(settings))
    source: Replay
    if arrival == "tuple":
        source = TupleReplay(cell, arrivals, clock)
    else:
        if tick is None:
            message = "`tick` must be given when tuples arrive in ticks"
            raise InvalidSetting(message)
        source = TickReplay([cell], arrivals, clock, tick, sources=SourcePlan.of(settings))
    horizon = HorizonPlan(settings, retention, horizon_memory)
    return run_replay(source, policy, settings, truth=truth, horizon=horizon)


@dataclass
class _Log:
    """What is noted down during a run."""

    n_in_order: int = 0
    n_late: int = 0
    n_beyond: int = 0

    def __post_init__(self) -> None:
        self.produced_ts: list[Int64s] = []
        self.produced_n: list[Int64s] = []
        self.nulls: list[Int64s] = []
        self.false_nulls: list[Int64s] = []
        self.lost_ts: list[Int64s] = []
        self.lost_n: list[Int64s] = []

    def observe(self, step: Step) -> None:
        ts, n = step.produced
        if step.told is not None:
            # Rows that have left in error are taken out below, wherever they were counted.
            ts, n = ts[n >= 0], n[n >= 0]
            self.nulls.append(step.told.nulls)
            self.false_nulls.append(step.told.false_nulls)
        self.produced_ts.append(ts)
        self.produced_n.append(n)
        self.lost_ts.append(step.lost_ts)
        self.lost_n.append(step.lost_n)
        self.n_in_order += len(self.produced_ts[-1])
        self.n_late += step.n_late
        self.n_beyond += int(step.beyond.sum())

    @property
    def produced(self) -> Timeline:
        ts, n = np.concatenate(self.produced_ts), np.concatenate(self.produced_n)
        if self.false_nulls:
            order = np.argsort(ts, kind="stable")
            ts, n = ts[order], n[order]
            np.subtract.at(n, np.searchsorted(ts, np.concatenate(self.false_nulls)), 1)
        return Timeline.of(ts, n)

    @property
    def lost(self) -> Timeline:
        return Timeline.of(np.concatenate(self.lost_ts), np.concatenate(self.lost_n))

    @property
    def counted(self) -> Timeline:
        """All results that are known: produced and lost."""
        produced = self.produced
        return Timeline.of(
            np.concatenate([produced.ts, *self.lost_ts]),
            np.concatenate([np.diff(produced.until), *self.lost_n]),
        )


class _Told:
    """What the join itself reports of its recall at adaptation points."""

    def __init__(self, settings: PolicySettings) -> None:
        self._meter = RecallMeter(
            period=settings.period, windows=settings.windows, bucket=settings.bucket
        )
        self._recalls: list[tuple[float | None, ...]] = []

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self._meter.observe(profile)
        measured = self._meter.measure()
        self._recalls.append((measured.recall, measured.at_least, measured.at_most))

    @property
    def reported(self) -> Reported:
        return Reported(*np.array(self._recalls, dtype=np.float64).reshape(-1, 3).T)


def run_replay(
    source: Replay,
    policy: BufferSizePolicy,
    settings: PolicySettings,
    *,
    truth: Timeline | None = None,
    horizon: HorizonPlan | None = None,
) -> RunRecord:
    """Let a recording pass under a policy; :func:`run_adaptive` for any kind of replay.

    Parameters
    ----------
    source
        The recording on its way through one operator instance or several.
    policy, settings, truth
        As in :func:`run_adaptive`.
    horizon
        How long tuples are remembered; by default this length follows the delays.
    """
    log = _Log()
    latency = LatencyMeter()
    points: list[tuple[int, int, int, int]] = []
    estimated: list[float | None] = []
    took: list[float] = []
    slacks: list[Int64s] = []
    horizons: list[int] = []
    waits: list[tuple[float, int]] = []
    leads: list[int] = []
    latest = source.clocks.latest
    told = _Told(settings)
    remembered = (horizon or HorizonPlan(settings)).make()
    adaptation = Adaptation(policy, settings.interval, remembered)
    source.remember_for(remembered.retention)
    ends = source.adaptation_points(adaptation.clock)
    by_arrival = policy if isinstance(policy, ArrivalPolicy) else None
    began = time.perf_counter()
    begin = 0
    for end in [*ends.tolist(), source.n_steps]:
        if end == begin:
            continue
        expected = policy.estimated_recall
        if by_arrival is None:
            k = np.full(end - begin, policy.k)
        else:
            k = source.slack_of(by_arrival, begin, end)
        source.lead, source.leap = lead_of(policy), leap_of(policy)
        step = source.push(begin, end, k)
        slacks.append(source.in_effect(step, begin, end, k))
        watermarks, waited = source.watermarks(begin, end, slacks[-1])
        waits.append((float(waited.sum(dtype=np.float64)), len(waited)))
        log.observe(step)
        latency.observe(
            step,
            arrived=source.arrived_at(step),
            released=source.released_at(step, begin, end, watermarks),
        )
        if len(points) < len(ends):
            points.append((int(latest[end - 1]), step.join_time, int(k[-1]), log.n_in_order))
            estimated.append(expected)
            horizons.append(remembered.retention)
            leads.append(source.lead)
            told.observe(source.profile)
            adaptation.observe(source.profile, source.n_delivered(begin, end))
            adaptation.adapt(source.kept)
            took.append(adaptation.seconds)
            source.remember_for(remembered.retention)
        begin = end
    log.observe(source.flush())
    seconds = time.perf_counter() - began
    clock, join_time, k_at, n_seen = np.array(points, dtype=np.int64).reshape(-1, 4).T
    refused: dict[str, int] = {}
    for (_, reason), rows in source.arrivals.refused.items():
        refused[reason] = refused.get(reason, 0) + rows.num_rows
    record = RunRecord(
        policy=policy.name,
        target=settings.recall,
        period=settings.period,
        unit=source.query.unit,
        clock=clock,
        join_time=join_time,
        k=k_at,
        recall=np.full(len(points), np.nan),
        reported=told.reported,
        waits=np.array(waits, dtype=np.float64).reshape(-1, 2),
        lead=np.array(leads, dtype=np.int64),
        horizon=np.array(horizons, dtype=np.int64),
        estimated_recall=tuple(estimated),
        counts=join_time >= source.earliest + settings.period,
        schedule=Schedule.of(slacks),
        produced=log.produced,
        n_seen=n_seen,
        n_true=0,
        n_lost=log.lost.total,
        n_nulls=sum(map(len, log.nulls)) if log.nulls else None,
        n_false_nulls=sum(map(len, log.false_nulls)) if log.nulls else None,
        n_late=log.n_late,
        n_beyond=log.n_beyond,
        refused=refused,
        n_tuples=len(source.arrivals),
        # Results that leave at once do not wait for K.
        latency=latency.latency() if source.query.emit == "ordered" else None,
        adaptation_seconds=np.array(took),
        seconds=seconds,
    )
    return record.against(log.counted if truth is None else truth)

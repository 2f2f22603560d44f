"""One input through the engine and through the reference, told in terms that can be compared.

A `Script` says how an input is run: the K schedule, how it is cut into pushes, after which of them
the engine is written and read back. `through_engine` and `through_reference` tell what happened
as an `Account`; the two accounts of a script must be equal. The reference's side is in
``reference_runs``, the scripts are drawn in ``engine_scripts``.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa

from recalljoin.engine import operator
from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import Held, marks_of
from recalljoin.engine.source_clocks import SourceClocks
from recalljoin.engine.state import restore, snapshot
from recalljoin.engine.step import Step, drain
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.query.model import Query, Stream
from tests.reference.conditions import KINDS, Condition
from tests.reference.model import (
    MINUS_INFINITY,
    PLUS_INFINITY,
    Instant,
)
from tests.strategies import Case
from tests.unfolding import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recalljoin.engine.settings import EngineSettings
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.kinds import Emit, How


Arrival = Literal["tuple", "tick"]

ARRIVAL = "arrived"
"""Column with the position in the input; it names a tuple in the results."""


@dataclass(frozen=True)
class Script:
    """How a case is run.

    Attributes
    ----------
    k
        For each arrival, or each tick, the slack in force.
    cuts
        Where the input is cut into pushes: numbers of arrivals, or of ticks, growing.
    rewritten
        Pushes after which the engine is written, thrown away and restored.
    retentions
        For each push, and for the flush, how long tuples are remembered from there on; None to
        leave that as it is.
    idle
        For each tick the streams declared idle.
    leads
        For each tick how far the base time may be ahead of the slowest source, FOREVER for any
        distance; empty where sources are not followed.
    epoch, spare, max_wait
        How sources are followed.
    stretch, chunk
        How much the engine takes and enumerates at once; set low to meet the seams. A chunk holds
        at least one block of a scan.
    how, emit
        Kind of join, and when results leave.
    """

    case: Case
    settings: EngineSettings
    k: tuple[int, ...]
    cuts: tuple[int, ...] = ()
    rewritten: frozenset[int] = frozenset()
    retentions: tuple[int | None, ...] = ()
    idle: tuple[frozenset[int], ...] = ()
    leads: tuple[int, ...] = ()
    epoch: int = 1
    spare: float = 0.0
    max_wait: int = FOREVER
    stretch: int = operator.STRETCH
    chunk: int = operator.CHUNK
    short: int = operator.SHORT
    """Chains of so many tuples are walked rather than copied."""
    how: How = "inner"
    emit: Emit = "ordered"

    @property
    def in_ticks(self) -> bool:
        """Whether tuples arrive in ticks."""
        return self.settings.arrival == "tick"

    @property
    def length(self) -> int:
        """Number of arrivals, or of ticks."""
        return len(self.k)

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Begin and end of every push."""
        edges = [0, *self.cuts, self.length]
        return list(itertools.pairwise(edges))

    def retention_from(self, piece: int) -> int | None:
        """How long tuples are remembered from a push on, if that changes there."""
        return self.retentions[piece] if piece < len(self.retentions) else None

    @property
    def bound(self) -> BoundQuery:
        """The query as the engine takes it."""
        query = bound_query(self.case, counts=not self.settings.rows)
        return replace(query, how=self.how, emit=self.emit)


class Event(NamedTuple):
    """What became of one tuple when the join operator received it."""

    arrival: int
    delay: int
    base_time: Instant
    late: bool
    beyond: bool
    n_join: int
    n_cross: int
    results: tuple[tuple[int, tuple[int, ...]], ...]
    """Timestamp and members' arrivals of the results it produced, sorted; none when counting."""


class Clocks(NamedTuple):
    """Where the clocks stand after a push."""

    join_time: Instant
    base_time: Instant
    local_times: tuple[Instant, ...]
    n_buffered: int


@dataclass
class Account:
    """All that happened in a run."""

    events: list[Event] = field(default_factory=list)
    clocks: list[Clocks] = field(default_factory=list)
    lost: Counter[int] = field(default_factory=Counter)
    """Lost results by timestamp."""
    slack: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Results by what became of them and by the bin of their required slack."""

    @property
    def results(self) -> list[tuple[int, tuple[int, ...]]]:
        """All results, in the order of their triggers."""
        return [result for event in self.events for result in event.results]

    @property
    def n_produced(self) -> int:
        """Results produced."""
        return sum(event.n_join for event in self.events if not event.late)

    @property
    def n_lost(self) -> int:
        """Results counted as lost."""
        return sum(event.n_join for event in self.events if event.late)


# The engine -------------------------------------------------------------------------------------


def bound_query(case: Case, *, counts: bool = False) -> BoundQuery:
    """The case's query, bound."""
    return _bound(case.condition.kind, case.m, case.windows, counts)


_KIND_BY_NAME: dict[str, Callable[[int], Condition]] = {kind(2).kind: kind for kind in KINDS}


@functools.lru_cache(maxsize=4096)
def _bound(kind: str, m: int, windows: tuple[int, ...], counts: bool) -> BoundQuery:
    case = Case(_KIND_BY_NAME[kind](m), windows, ())
    query = Query(
        streams=[
            Stream(name, window=window, arrival=ARRIVAL)
            for name, window in zip(case.names(), windows, strict=True)
        ],
        condition=case.condition.sql,
        select="count(*)" if counts else "*",
    )
    schemas = {name: _schema(case, i) for i, name in enumerate(case.names())}
    return query.bind(schemas)


def _schema(case: Case, stream: int) -> pa.Schema:
    return case.schema(stream).append(pa.field(ARRIVAL, pa.int64()))


def tables_of(case: Case) -> dict[str, pa.Table]:
    """The input of every stream by name, with its positions."""
    return {
        name: case.table(i).append_column(
            ARRIVAL, pa.array([e.arrival for e in case.arrivals if e.stream == i], pa.int64())
        )
        for i, name in enumerate(case.names())
    }


@contextmanager
def taken_as(script: Script) -> Iterator[None]:
    """The engine takes and enumerates as much at once as the script says."""
    with (
        mock.patch.object(operator, "STRETCH", script.stretch),
        mock.patch.object(operator, "CHUNK", script.chunk),
        mock.patch.object(operator, "SHORT", script.short),
    ):
        yield


def through_engine(script: Script) -> Account:
    """Run a script through the engine."""
    with taken_as(script):
        return EngineRun(script).account()


class EngineRun:
    """One run through the engine, piece by piece."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.arrivals = arrivals_of(script.bound, tables_of(script.case))
        self.pipeline = Pipeline(script.bound, script.settings)
        self.sources = SourceClocks(epoch=script.epoch, spare=script.spare, most=100)
        self.slowest = NEVER
        self.told = Account()
        self.results: list[tuple[int, tuple[int, ...]]] = []
        self.last_result = -(2**63)
        self.numbers = [
            [e.arrival for e in script.case.arrivals if e.stream == i] for i in range(script.case.m)
        ]

    def account(self) -> Account:
        """Run all pieces and tell what happened."""
        for piece, (begin, end) in enumerate(self.script.pieces):
            self.remember(piece)
            if self.script.in_ticks:
                outcome = drain(self.push_ticks(begin, end))
            else:
                k = np.array(self.script.k[begin:end], dtype=np.int64)
                outcome = drain(self.pipeline.push(self.arrivals.slice(begin, end), k=k))
            self.take(*outcome)
            if piece in self.script.rewritten:
                content = snapshot(self.pipeline).to_pybytes()
                self.pipeline = restore(self.script.bound, content, self.script.settings)
                known = json.loads(json.dumps(self.sources.snapshot()))
                self.sources = SourceClocks(
                    epoch=self.script.epoch, spare=self.script.spare, most=100
                )
                self.sources.restore(known)
        self.remember(len(self.script.pieces))
        self.take(*drain(self.pipeline.flush()))
        return self.told

    def remember(self, piece: int) -> None:
        """Change the retention where the script says so."""
        retention = self.script.retention_from(piece)
        if retention is not None:
            self.pipeline.remember_for(retention)

    def push_ticks(self, begin: int, end: int) -> Any:
        """The step of some ticks."""
        tick = np.array([e.tick for e in self.script.case.arrivals], dtype=np.int64)
        first, last = np.searchsorted(tick, (begin, end))
        part: Arrivals = self.arrivals.slice(int(first), int(last))
        idle = None
        if self.script.idle:
            idle = np.zeros((end - begin, self.script.case.m), dtype=np.bool_)
            for n in range(begin, end):
                idle[n - begin, list(self.script.idle[n])] = True
        return self.pipeline.push_ticks(
            part,
            tick[first:last] - begin,
            n_ticks=end - begin,
            k=np.array(self.script.k[begin:end], dtype=np.int64),
            idle=idle,
            held=self.held(tick[first:last] - begin, part, idle, begin, end),
        )

    def held(self, tick: Any, part: Arrivals, idle: Any, begin: int, end: int) -> Held | None:
        """How sources hold the join up in some ticks; None where they are not followed."""
        if not self.script.leads:
            return None
        marks = marks_of(tick, part.stream, part.ts, n_ticks=end - begin, m=self.script.case.m)
        _, fronts = self.pipeline.progress.fronts_after(marks, idle=idle)
        source = np.array(
            [e.source for e in self.script.case.arrivals if begin <= e.tick < end], dtype=np.int64
        )
        ones = np.ones(len(source), dtype=np.int64)
        before = self.slowest
        slowest, _ = self.sources.advance(tick, source, part.ts, ones, fronts[1:])
        self.slowest = int(slowest[-1]) if len(slowest) else before
        leads = np.array(self.script.leads[begin:end], dtype=np.int64)
        return Held(slowest, leads, self.script.max_wait, before)

    def take(self, batches: Sequence[pa.RecordBatch], step: Step) -> None:
        """Write down what a step brought."""
        if self.script.settings.folded:
            batches = self._in_order([rows_of(batch, self.pipeline) for batch in batches], step)
        for batch in batches:
            assert batch.num_rows > 0
            assert self.script.settings.folded or batch.num_rows <= self.script.chunk
            batch.validate(full=True)
            times = batch.column("result_time").to_pylist()
            members = [
                batch.column(i).field(ARRIVAL).to_pylist() for i in range(self.script.case.m)
            ]
            assert [self.last_result, *times] == sorted([self.last_result, *times])
            self.last_result = times[-1]
            self.results += zip(times, zip(*members, strict=True), strict=True)
        assert int(step.lost_n.sum()) == step.n_lost
        assert (step.lost_n > 0).all()
        for i in range(len(step.ts)):
            self.told.events.append(self._event(step, i))
        assert not self.results or not self.script.settings.rows
        for ts, n in zip(step.lost_ts.tolist(), step.lost_n.tolist(), strict=True):
            self.told.lost[ts] += n
        for fate, bins in zip(("produced", "lost"), step.slack, strict=True):
            for at in np.nonzero(bins)[0].tolist():
                self.told.slack[fate, at] += int(bins[at])
        pipeline = self.pipeline
        assert (step.join_time, step.base_time) == (pipeline.join_time, pipeline.base_time)
        self.told.clocks.append(
            Clocks(
                _instant(pipeline.join_time),
                _instant(pipeline.base_time),
                tuple(_instant(t) for t in pipeline.local_times.tolist()),
                pipeline.n_buffered,
            )
        )

    def _in_order(self, batches: Sequence[pa.RecordBatch], step: Step) -> list[pa.RecordBatch]:
        """All results of a step in the order of their triggers, the last of their members."""
        if not batches:
            return []
        received = {
            self.numbers[s][row]: i
            for i, (s, row) in enumerate(zip(step.stream, step.row, strict=True))
        }
        results = pa.concat_batches(batches)
        members = [results.column(i).field(ARRIVAL).to_pylist() for i in range(self.script.case.m)]
        triggers = [
            max(received.get(one, -1) for one in each) for each in zip(*members, strict=True)
        ]
        return [results.take(pa.array(np.argsort(triggers, kind="stable")))]

    def _event(self, step: Step, i: int) -> Event:
        n_join = int(step.n_join[i])
        results: list[tuple[int, tuple[int, ...]]] = []
        if self.script.settings.rows and not step.late[i]:
            results, self.results = self.results[:n_join], self.results[n_join:]
        arrival = self.numbers[step.stream[i]][step.row[i]]
        assert self.script.case.arrivals[arrival].ts == step.ts[i]
        return Event(
            arrival=arrival,
            delay=int(step.delay[i]),
            base_time=_instant(int(step.base[i])),
            late=bool(step.late[i]),
            beyond=bool(step.beyond[i]),
            n_join=n_join,
            n_cross=int(step.n_cross[i]),
            results=tuple(sorted(results)),
        )


def _instant(time: int) -> Instant:
    return {NEVER: MINUS_INFINITY, FOREVER: PLUS_INFINITY}.get(time, time)

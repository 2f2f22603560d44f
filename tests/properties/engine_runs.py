"""One input through the engine and through the reference, told in terms that can be compared.

A `Script` says how an input is run: the K schedule, how it is cut into pushes, after which of them
the engine is written and read back. `through_engine` and `through_reference` tell what happened
as an `Account`; the two accounts of a script must be equal.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from recalljoin.engine import (
    Arrivals,
    EngineSettings,
    Pipeline,
    Step,
    arrivals_of,
    drain,
    operator,
    restore,
    snapshot,
)
from recalljoin.engine.disorder import FOREVER, MAX_TIME, NEVER
from recalljoin.engine.program import BLOCK
from recalljoin.query import BoundQuery, Query, Stream
from tests.reference.conditions import KINDS, Condition
from tests.reference.memory import Memory
from tests.reference.model import (
    MINUS_INFINITY,
    PLUS_INFINITY,
    Annotated,
    Instant,
    Outcome,
    Received,
    StreamTuple,
)
from tests.reference.per_tuple import PerTupleJoin
from tests.reference.tick import TickDisorderHandling, TickJoin
from tests.strategies import Case, cases, schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

ARRIVAL = "arrived"
"""Column with the position in the input; it names a tuple in the results."""

# For tests that run every example many times over, or large ones.
FEW = settings(max_examples=max(1, settings().max_examples // 5))
FEW_RETENTIONS = (None, 0, 1, 4, 15, 100, 2**61)


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
    idle
        For each tick the streams declared idle.
    stretch, chunk
        How much the engine takes and enumerates at once; set low to meet the seams. A chunk holds
        at least one block of a scan.
    """

    case: Case
    settings: EngineSettings
    k: tuple[int, ...]
    cuts: tuple[int, ...] = ()
    rewritten: frozenset[int] = frozenset()
    idle: tuple[frozenset[int], ...] = ()
    stretch: int = operator.STRETCH
    chunk: int = operator.CHUNK

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

    @property
    def bound(self) -> BoundQuery:
        """The query as the engine takes it."""
        return bound_query(self.case, counts=not self.settings.rows)


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
    delays: list[int] = field(default_factory=list)
    """Of all tuples, in the order the engine is given them."""
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


def same_accounts(script: Script, *, near: bool = False) -> Account:
    """Run a script both ways and compare; returns the account both give."""
    engine, reference = through_engine(script), through_reference(script, near=near)
    assert engine.events == reference.events
    assert engine.clocks == reference.clocks
    assert engine.delays == reference.delays
    assert engine.lost == reference.lost
    assert engine.slack == reference.slack
    return engine


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


def through_engine(script: Script) -> Account:
    """Run a script through the engine."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(operator, "STRETCH", script.stretch))
        stack.enter_context(mock.patch.object(operator, "CHUNK", script.chunk))
        return EngineRun(script).account()


class EngineRun:
    """One run through the engine, piece by piece."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.arrivals = arrivals_of(script.bound, tables_of(script.case))
        self.pipeline = Pipeline(script.bound, script.settings)
        self.told = Account()
        self.results: list[tuple[int, tuple[int, ...]]] = []
        self.last_result = -(2**63)
        self.numbers = [
            [e.arrival for e in script.case.arrivals if e.stream == i] for i in range(script.case.m)
        ]

    def account(self) -> Account:
        """Run all pieces and tell what happened."""
        for piece, (begin, end) in enumerate(self.script.pieces):
            if self.script.in_ticks:
                outcome = drain(self.push_ticks(begin, end))
            else:
                k = np.array(self.script.k[begin:end], dtype=np.int64)
                outcome = drain(self.pipeline.push(self.arrivals.slice(begin, end), k=k))
            self.take(*outcome)
            if piece in self.script.rewritten:
                content = snapshot(self.pipeline).to_pybytes()
                self.pipeline = restore(self.script.bound, content, self.script.settings)
        self.take(*drain(self.pipeline.flush()))
        return self.told

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
        )

    def take(self, batches: Sequence[pa.RecordBatch], step: Step) -> None:
        """Write down what a step brought."""
        for batch in batches:
            assert 0 < batch.num_rows <= self.script.chunk * self.script.case.m
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
        self.told.delays += step.arrived_delay.tolist()
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


# The reference ----------------------------------------------------------------------------------


class _LateByStream(TickDisorderHandling):
    """Late tuples of one tick are received by stream, then arrival, as the engine does it.

    Their order is not pinned. It only moves a lost result from one of them to another.
    """

    def take(self, tuples: Iterable[StreamTuple]) -> list[Annotated]:
        return sorted(super().take(tuples), key=lambda e: (e.stream, e.arrival))


class _NearMemory(Memory):
    """Looks for what is lost with a late tuple near it only: no result reaches further.

    The same results as from all tuples ever received, without trying every combination of them.
    """

    def take_late(self, e: Annotated, *, in_window: bool, beyond_horizon: bool) -> Received:
        everything = self.received
        reach = self.query.largest_window
        self.received = [
            [other for other in pool if abs(other.ts - e.ts) <= reach] for pool in everything
        ]
        received = super().take_late(e, in_window=in_window, beyond_horizon=beyond_horizon)
        self.received = everything
        self.received[e.stream].append(e)
        return received


def through_reference(script: Script, *, near: bool = False) -> Account:
    """Run a script through the reference, which knows neither cuts nor snapshots.

    ``near`` makes it fast enough for some hundred tuples.
    """
    told = Account()
    received: list[Received] = []
    arrivals = script.case.arrivals
    if script.in_ticks:
        ticks = TickJoin(script.case.query, horizon=script.settings.retention)
        ticks.disorder = _LateByStream(script.case.m)
        if near:
            ticks.memory = _NearMemory(script.case.query)
        for begin, end in script.pieces:
            for n in range(begin, end):
                tuples = [e for e in arrivals if e.tick == n]
                idle = script.idle[n] if script.idle else frozenset()
                received += ticks.step(tuples, k=script.k[n], idle=idle)
            told.clocks.append(_tick_clocks(ticks))
        received += ticks.flush()
        told.clocks.append(_tick_clocks(ticks))
        in_order = sorted(arrivals, key=lambda e: (e.tick, e.stream, e.arrival))
    else:
        join = PerTupleJoin(script.case.query, horizon=script.settings.retention)
        if near:
            join.join.memory = _NearMemory(script.case.query)
        for begin, end in script.pieces:
            for n in range(begin, end):
                join.disorder.set_k(script.k[n])
                received += join.push(arrivals[n])
            told.clocks.append(_tuple_clocks(join))
        received += join.flush()
        last = _tuple_clocks(join)
        told.clocks.append(last._replace(n_buffered=0))
        in_order = list(arrivals)
    delays = {r.e.arrival: r.e.delay for r in received}
    told.delays = [delays[e.arrival] for e in in_order]
    told.events = [_event(r, rows=script.settings.rows) for r in received]
    for r in received:
        for fate, outcomes in (("produced", r.produced), ("lost", r.lost)):
            for outcome in outcomes:
                if script.settings.granularity:
                    told.slack[fate, _bin(outcome, script.settings.granularity)] += 1
        told.lost.update(outcome.result.ts for outcome in r.lost)
    return told


def _event(r: Received, *, rows: bool) -> Event:
    return Event(
        arrival=r.e.arrival,
        delay=r.e.delay,
        base_time=r.e.base_time,
        late=r.late,
        beyond=r.beyond_horizon,
        n_join=len(r.lost) if r.late else r.n_join,
        n_cross=r.n_cross,
        results=tuple(sorted((o.result.ts, o.result.arrivals) for o in r.produced)) if rows else (),
    )


def _bin(outcome: Outcome, granularity: int) -> int:
    """Bin of a required slack; the engine has an end to its bins."""
    if outcome.slack < 0:
        return 0
    return min(1 + int(outcome.slack) // granularity, operator.MAX_BINS - 1)


def _tuple_clocks(join: PerTupleJoin) -> Clocks:
    disorder = join.disorder
    held = sum(len(slack.buffer) for slack in disorder.slacks) + len(disorder.synchronizer.buffer)
    return Clocks(join.join.join_time, disorder.base_time, tuple(disorder.local_times), held)


def _tick_clocks(join: TickJoin) -> Clocks:
    disorder = join.disorder
    return Clocks(
        disorder.watermark, disorder.base_time, tuple(disorder.local_times), len(disorder.buffer)
    )


# Scripts ----------------------------------------------------------------------------------------


def settings_of(arrival: str, *, rows: bool | None = None) -> SearchStrategy[EngineSettings]:
    """Draw settings of an engine that counts what is lost."""
    return st.builds(
        EngineSettings,
        arrival=st.just(arrival),
        rows=st.booleans() if rows is None else st.just(rows),
        lost=st.just(True),
        granularity=st.sampled_from((0, 1, 2, 7, 50)),
        retention=st.sampled_from(FEW_RETENTIONS),
    )


@st.composite
def scripts(
    draw: DrawFn,
    arrival: str,
    *,
    rows: bool | None = None,
    source: SearchStrategy[Case] | None = None,
    idles: bool = True,
    rewrites: bool = False,
) -> Script:
    """Draw a case and a way to run it."""
    case = within_range(draw(cases() if source is None else source))
    length = len(case.arrivals)
    idle: tuple[frozenset[int], ...] = ()
    if arrival == "tick":
        # Some ticks may pass after the last tuple.
        length = max((e.tick for e in case.arrivals), default=-1) + 1 + draw(st.integers(0, 2))
        if idles and draw(st.booleans()):
            idle = draw(_idle_spells(case.m, length))
    cuts = draw(st.lists(st.integers(0, length), max_size=5).map(sorted))
    n_pieces = len(cuts) + 1
    return Script(
        case=case,
        settings=draw(settings_of(arrival, rows=rows)),
        k=tuple(draw(schedules(length))),
        cuts=tuple(cuts),
        rewritten=draw(st.frozensets(st.integers(0, n_pieces - 1))) if rewrites else frozenset(),
        idle=idle,
        stretch=draw(st.sampled_from((operator.STRETCH, 1, 3, 10))),
        chunk=draw(st.sampled_from((operator.CHUNK, BLOCK, BLOCK + 88))),
    )


def large_case(condition: Condition, seed: int, n: int) -> Case:
    """A case of ``n`` tuples, long enough for rings to start over and slots to be used again."""
    rng = np.random.default_rng(seed)
    m = condition.m
    lag = rng.choice((0, 0, 3, 11), m)
    step = rng.choice((0, 1, 1, 2), n)
    step[rng.integers(0, n, 3)] = 60  # gaps
    now = np.cumsum(step) + int(rng.choice((0, -500, 2**60)))
    stream = rng.choice(m, n, p=rng.dirichlet(np.full(m, 3.0)))
    delay = rng.choice((0, 0, 0, 0, 1, 4, 9, 30, 120), n)
    tick = np.cumsum(rng.choice((0, 0, 0, 0, 1, 2), n))
    arrivals = []
    for i in range(n):
        s = int(stream[i])
        values = {
            name: domain.values[int(rng.integers(len(domain.values)))]
            for name, domain in condition.columns[s].items()
        }
        ts = int(now[i] - lag[s] - delay[i])
        arrivals.append(StreamTuple(s, ts, i, values, int(tick[i] - tick[0])))
    windows = tuple(int(w) for w in rng.choice((0, 2, 6, 12, 25), m))
    return Case(condition, windows, tuple(arrivals))


@st.composite
def large_scripts(draw: DrawFn, arrival: str, *, n: int = 400) -> Script:
    """Draw a large case, cut into many pushes, with a snapshot now and then."""
    m = draw(st.sampled_from((2, 2, 3)))
    condition = draw(st.sampled_from(KINDS))(m)
    case = large_case(condition, draw(st.integers(0, 2**32)), n)
    length = n if arrival == "tuple" else case.arrivals[-1].tick + 1
    size = draw(st.sampled_from((7, 40, 150)))
    cuts = tuple(range(size, length, size))
    return Script(
        case=case,
        settings=draw(settings_of(arrival)),
        k=tuple((draw(schedules(20)) * (length // 20 + 1))[:length]),
        cuts=cuts,
        rewritten=frozenset(range(0, len(cuts), 5)),
        stretch=draw(st.sampled_from((operator.STRETCH, 20))),
        chunk=draw(st.sampled_from((operator.CHUNK, BLOCK))),
    )


def within_range(case: Case) -> Case:
    """The same case with times beyond what the engine takes brought back to the edge."""
    clamped = [replace(e, ts=max(-MAX_TIME, min(MAX_TIME, e.ts))) for e in case.arrivals]
    return replace(case, arrivals=tuple(clamped))


def _idle_spells(m: int, length: int) -> SearchStrategy[tuple[frozenset[int], ...]]:
    """Draw for every tick the streams declared idle, in spells."""
    spells = st.lists(
        st.tuples(st.integers(0, m - 1), st.integers(0, max(length, 1)), st.integers(1, 6)),
        max_size=4,
    )
    return spells.map(
        lambda drawn: tuple(
            frozenset(s for s, begin, n in drawn if begin <= tick < begin + n)
            for tick in range(length)
        )
    )

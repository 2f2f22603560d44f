"""Hypothesis strategies: how to run random cases through the engine and the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from recalljoin.engine import operator
from recalljoin.engine.block_machine import BLOCK
from recalljoin.engine.settings import EngineSettings
from recalljoin.query.durations import MAX_TIME
from tests.properties.engine_runs import Arrival, Script
from tests.reference.conditions import KINDS, Condition
from tests.reference.model import StreamTuple
from tests.strategies import Case, cases, schedules

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

FEW_RETENTIONS = (None, 0, 1, 4, 15, 100, 2**61)


def settings_of(arrival: str, *, rows: bool | None = None) -> SearchStrategy[EngineSettings]:
    """Draw settings of an engine that counts what is lost."""
    return st.builds(
        EngineSettings,
        arrival=st.just(arrival),
        rows=st.booleans() if rows is None else st.just(rows),
        folded=st.booleans(),
        lost=st.just(True),
        slack=st.booleans(),
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
    remembers: bool = False,
) -> Script:
    """Draw a case and a way to run it; ``remembers``: with a retention that changes."""
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
        retentions=tuple(draw(_retentions(n_pieces + 1))) if remembers else (),
        idle=idle,
        stretch=draw(st.sampled_from((operator.STRETCH, 1, 3, 10))),
        chunk=draw(st.sampled_from((operator.CHUNK, BLOCK, BLOCK + 88))),
        short=draw(st.sampled_from((operator.SHORT, 0, 1000))),
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
        retentions=tuple(draw(_retentions(len(cuts) + 2))) if draw(st.booleans()) else (),
        stretch=draw(st.sampled_from((operator.STRETCH, 20))),
        chunk=draw(st.sampled_from((operator.CHUNK, BLOCK))),
        short=draw(st.sampled_from((operator.SHORT, 0, 1000))),
    )


@st.composite
def extreme_scripts(draw: DrawFn, arrival: Arrival) -> Script:
    """Draw times, windows, slacks and retention at the edges of what the engine takes."""
    condition = draw(st.sampled_from(KINDS))(2)
    times = st.sampled_from((-MAX_TIME, -MAX_TIME + 1, -1, 0, 1, MAX_TIME - 1, MAX_TIME))
    drawn = draw(st.lists(st.tuples(st.integers(0, 1), times, st.booleans()), max_size=12))
    arrivals = []
    tick = 0
    for n, (stream, ts, next_tick) in enumerate(drawn):
        tick += bool(n) and next_tick
        values = {
            name: draw(st.sampled_from(domain.values))
            for name, domain in condition.columns[stream].items()
        }
        arrivals.append(StreamTuple(stream, ts, n, values, tick))
    edges = st.sampled_from((0, 1, MAX_TIME - 1, MAX_TIME))
    case = Case(condition, draw(st.tuples(edges, edges)), tuple(arrivals))
    length = len(arrivals) if arrival == "tuple" else tick + 1
    settings_drawn = EngineSettings(
        arrival=arrival,
        rows=draw(st.booleans()),
        slack=draw(st.booleans()),
        retention=draw(st.none() | edges),
    )
    cuts = draw(st.lists(st.integers(0, length), max_size=3).map(sorted))
    return Script(
        case=case,
        settings=settings_drawn,
        k=tuple(draw(edges) for _ in range(length)),
        cuts=tuple(cuts),
        rewritten=draw(st.frozensets(st.integers(0, len(cuts)))),
        retentions=tuple(draw(st.none() | edges) for _ in range(len(cuts) + 2)),
    )


def _retentions(n: int) -> SearchStrategy[list[int | None]]:
    """Draw where the retention changes, and to what."""
    return st.lists(st.sampled_from((None, 0, 1, 4, 15, 40, 100, 2**61)), min_size=n, max_size=n)


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

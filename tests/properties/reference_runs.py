"""The reference's side of a script, and the comparison with the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.engine.times import FOREVER
from tests.properties.engine_runs import Account, Clocks, Event, Script, through_engine
from tests.reference.memory import Memory
from tests.reference.model import PLUS_INFINITY
from tests.reference.per_tuple import PerTupleJoin
from tests.reference.sources import Sources
from tests.reference.tick import TickJoin

if TYPE_CHECKING:
    from tests.reference.model import Annotated, Instant, Received


def same_accounts(script: Script, *, near: bool = False) -> Account:
    """Run a script both ways and compare; returns the account both give."""
    engine, reference = through_engine(script), through_reference(script, near=near)
    assert engine.events == reference.events
    assert engine.clocks == reference.clocks
    assert engine.lost == reference.lost
    assert engine.slack == reference.slack
    return engine


class _NearMemory(Memory):
    """Looks for what is lost with a late tuple near it only: no result reaches further.

    The same results as from all tuples ever received, without trying every combination of them.
    """

    def take_late(
        self, e: Annotated, *, in_window: bool, beyond_horizon: bool, base_time: Instant
    ) -> Received:
        everything = self.received
        reach = self.query.largest_window
        self.received = [
            [other for other in pool if abs(other.ts - e.ts) <= reach] for pool in everything
        ]
        received = super().take_late(
            e, in_window=in_window, beyond_horizon=beyond_horizon, base_time=base_time
        )
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
        sources = Sources(epoch=script.epoch, spare=script.spare) if script.leads else None
        ticks = TickJoin(script.case.query, horizon=script.settings.retention, sources=sources)
        if near:
            ticks.memory = _NearMemory(script.case.query)
        for piece, (begin, end) in enumerate(script.pieces):
            retention = script.retention_from(piece)
            if retention is not None:
                ticks.remember_for(retention)
            for n in range(begin, end):
                tuples = [e for e in arrivals if e.tick == n]
                idle = script.idle[n] if script.idle else frozenset()
                lead = _infinite(script.leads[n]) if script.leads else PLUS_INFINITY
                received += ticks.step(
                    tuples, k=script.k[n], idle=idle, lead=lead, max_wait=_infinite(script.max_wait)
                )
            told.clocks.append(_tick_clocks(ticks))
        received += ticks.flush()
        told.clocks.append(_tick_clocks(ticks))
    else:
        join = PerTupleJoin(script.case.query, horizon=script.settings.retention)
        if near:
            join.join.memory = _NearMemory(script.case.query)
        for piece, (begin, end) in enumerate(script.pieces):
            retention = script.retention_from(piece)
            if retention is not None:
                join.join.remember_for(retention)
            for n in range(begin, end):
                join.disorder.set_k(script.k[n])
                received += join.push(arrivals[n])
            told.clocks.append(_tuple_clocks(join))
        retention = script.retention_from(len(script.pieces))
        if retention is not None:
            join.join.remember_for(retention)
        received += join.flush()
        last = _tuple_clocks(join)
        told.clocks.append(last._replace(n_buffered=0))
    told.events = [_event(r, rows=script.settings.rows) for r in received]
    for r in received:
        for fate, outcomes in (("produced", r.produced), ("lost", r.lost)):
            for outcome in outcomes:
                if script.settings.slack:
                    told.slack[fate, bin_of(outcome.slack)] += 1
        told.lost.update(outcome.result.ts for outcome in r.lost)
    return told


def _infinite(length: int) -> Instant:
    return PLUS_INFINITY if length == FOREVER else length


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


def bin_of(slack: Instant) -> int:
    """Bin of a required slack, counted octave by octave."""
    if slack < 0:
        return 0
    first, width, at = 0, 1, 1
    # 256 bins of one unit, then 128 bins to an octave.
    while int(slack) >= 256 * width:
        first, at, width = 256 * width, at + (256 if width == 1 else 128), 2 * width
    return at + (int(slack) - first) // width


def _tuple_clocks(join: PerTupleJoin) -> Clocks:
    disorder = join.disorder
    held = sum(len(slack.buffer) for slack in disorder.slacks) + len(disorder.synchronizer.buffer)
    return Clocks(join.join.join_time, disorder.base_time, tuple(disorder.local_times), held)


def _tick_clocks(join: TickJoin) -> Clocks:
    disorder = join.disorder
    return Clocks(
        disorder.watermark, disorder.base_time, tuple(disorder.local_times), len(disorder.buffer)
    )

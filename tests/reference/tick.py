"""Tick arrival: all tuples of a tick are there at once, and a watermark decides.

``docs/semantics.md``, "Tick by tick". There is no K-slack and no Synchronizer here: the
watermark trails the slowest stream by K, which is what the two come to when streams are dense.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.reference.memory import Memory
from tests.reference.model import (
    MINUS_INFINITY,
    PLUS_INFINITY,
    Annotated,
    Instant,
    Query,
    Received,
    Run,
    StreamTuple,
)
from tests.reference.sources import Sources, held_back

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tests.reference.per_tuple import Slack


def release_order(e: Annotated) -> tuple[int, int, int, int]:
    """(ts, tick, stream, arrival) order."""
    return (e.ts, e.origin.tick, e.stream, e.arrival)


class TickDisorderHandling:
    """Local times, base time, watermark and the one buffer."""

    def __init__(self, m: int, sources: Sources | None = None) -> None:
        self.sources = sources
        self.front: Instant = MINUS_INFINITY  # the slowest stream; it never falls
        self.local_times: list[Instant] = [MINUS_INFINITY] * m
        self.base_time: Instant = MINUS_INFINITY
        self.watermark: Instant = MINUS_INFINITY
        self.buffer: list[Annotated] = []  # kept in release order

    def annotate(self, e: StreamTuple) -> Annotated:
        """Delay and base time, both as the tick before left them."""
        local_time = self.local_times[e.stream]
        delay = int(local_time) - e.ts if local_time > e.ts else 0
        return Annotated(e, delay, self.base_time)

    def take(self, tuples: Iterable[StreamTuple]) -> list[Annotated]:
        """Step 1: buffer the tuples that are in time, return the late ones.

        Late tuples of one tick are taken in release order. Another order would move a lost result
        from one of them to another of the same tick, which may be beyond the horizon.
        """
        annotated = [self.annotate(e) for e in tuples]
        late = [e for e in annotated if e.ts <= self.watermark]
        for e in annotated:
            if e.ts > self.watermark:
                insort(self.buffer, e, key=release_order)
        return sorted(late, key=release_order)

    def advance(
        self,
        tuples: Collection[StreamTuple],
        *,
        k: Slack,
        idle: Collection[int],
        lead: Instant = PLUS_INFINITY,
        max_wait: Instant = PLUS_INFINITY,
    ) -> None:
        """Step 3: bring local times, base time and watermark up to date."""
        for e in tuples:
            self.local_times[e.stream] = max(self.local_times[e.stream], e.ts)
        returned = {e.stream for e in tuples}
        counted = [i for i in range(len(self.local_times)) if i not in idle or i in returned]
        # With every stream idle there is nobody to set a new time: the base time stands.
        slowest = min((self.local_times[i] for i in counted), default=MINUS_INFINITY)
        self.front = max(self.front, slowest)
        base_time = self.front
        if self.sources is not None:
            base_time = held_back(self.front, self.sources.step(tuples, self.front), lead)
        self.base_time = max(self.base_time, base_time)
        if isinstance(k, int):
            trailing = self.base_time - k
        else:
            # Not in docs/semantics.md, which knows one K only: for Theorem 1, a K per stream.
            trailing = min((self.local_times[i] - k[i] for i in counted), default=MINUS_INFINITY)
        self.watermark = max(self.watermark, trailing, self.front - max_wait)

    def release(self) -> list[Annotated]:
        """Step 4: everything up to the watermark, in release order."""
        leaving = []
        while self.buffer and self.buffer[0].ts <= self.watermark:
            leaving.append(self.buffer.pop(0))
        return leaving


class TickJoin:
    """One operator instance under tick arrival.

    Parameters
    ----------
    query
        Windows and condition.
    horizon
        Losses are counted for late tuples with ts >= watermark - horizon. None: the largest
        window.
    sources
        Clocks of sources that the join waits for.
    """

    def __init__(
        self, query: Query, *, horizon: int | None = None, sources: Sources | None = None
    ) -> None:
        self.query = query
        self.horizon = query.largest_window if horizon is None else horizon
        self.complete_since: Instant = MINUS_INFINITY
        self.disorder = TickDisorderHandling(query.m, sources)
        self.memory = Memory(query)

    def remember_for(self, horizon: int) -> None:
        """Change the horizon between two ticks; a longer one brings nothing back."""
        if horizon > self.horizon:
            reached = self.disorder.watermark - self.horizon
            self.complete_since = max(self.complete_since, reached)
        self.horizon = horizon

    def step(
        self,
        tuples: Collection[StreamTuple],
        *,
        k: Slack,
        idle: Collection[int] = (),
        lead: Instant = PLUS_INFINITY,
        max_wait: Instant = PLUS_INFINITY,
    ) -> list[Received]:
        """One tick: its tuples (perhaps none), its K, the streams declared idle.

        With sources, also how far the base time may be ahead of the slowest source, and the
        watermark behind the slowest stream.

        A stream declared idle that has a tuple in this very tick has returned, and counts.
        """
        received = []
        watermark = self.disorder.watermark  # w(n-1), which stands in for the join time
        for e in self.disorder.take(tuples):
            received.append(
                self.memory.take_late(
                    e,
                    in_window=e.ts >= watermark - self.query.windows[e.stream],
                    beyond_horizon=e.ts < max(watermark - self.horizon, self.complete_since),
                    base_time=e.base_time,
                )
            )
        self.disorder.advance(tuples, k=k, idle=idle, lead=lead, max_wait=max_wait)
        received += [self.memory.join_in_order(e) for e in self.disorder.release()]
        return received

    def flush(self) -> list[Received]:
        """End the input: the watermark goes to plus infinity."""
        self.disorder.watermark = PLUS_INFINITY
        return [self.memory.join_in_order(e) for e in self.disorder.release()]


@dataclass(frozen=True)
class TickRun(Run):
    """A run in ticks, with base time and watermark after every tick; not those of the flush."""

    base_times: tuple[Instant, ...]
    watermarks: tuple[Instant, ...]


def run_ticks(
    query: Query,
    arrivals: Iterable[StreamTuple],
    *,
    k: Slack | Callable[[int], Slack] = 0,
    idle: Callable[[int], Collection[int]] = lambda _tick: (),
    horizon: int | None = None,
    remember: Callable[[int], int | None] = lambda _tick: None,
    n_ticks: int | None = None,
) -> TickRun:
    """Run a bounded input to its end, every tick from 0 to the last, empty ones too.

    Parameters
    ----------
    query, arrivals, horizon
        As in `TickJoin`; each tuple says which tick it arrives in.
    k
        One K, one per stream, or a function from the tick's number to either.
    idle
        From the tick's number to the streams declared idle.
    remember
        From the tick's number to the horizon from there on, where it changes.
    n_ticks
        Number of ticks. None: up to the last that holds a tuple.
    """
    join = TickJoin(query, horizon=horizon)
    arrivals = list(arrivals)
    received: list[Received] = []
    base_times: list[Instant] = []
    watermarks: list[Instant] = []
    if n_ticks is None:
        n_ticks = max((e.tick for e in arrivals), default=-1) + 1
    for n in range(n_ticks):
        tuples = [e for e in arrivals if e.tick == n]
        changed = remember(n)
        if changed is not None:
            join.remember_for(changed)
        received += join.step(tuples, k=k(n) if callable(k) else k, idle=idle(n))
        base_times.append(join.disorder.base_time)
        watermarks.append(join.disorder.watermark)
    received += join.flush()
    return TickRun(tuple(received), tuple(base_times), tuple(watermarks))

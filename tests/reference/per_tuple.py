"""Per-tuple arrival: the paper to the letter, with the pins of ``docs/semantics.md``.

One tuple travels ``KSlack`` (Sec. III-A) -> ``Synchronizer`` (Algorithm 1) -> ``MSWJ``
(Algorithm 2). Line numbers in comments are those of the paper's listings.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, TypeAlias

from tests.reference.memory import Memory
from tests.reference.model import (
    MINUS_INFINITY,
    Annotated,
    Instant,
    Query,
    Received,
    Run,
    StreamTuple,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# One K for all streams (the Same-K policy), or one for each.
Slack: TypeAlias = "int | Sequence[int]"


def by_ts(e: Annotated) -> tuple[int, int]:
    """(ts, arrival) order."""
    return (e.ts, e.arrival)


class KSlack:
    """Sorts one stream with a buffer of ``k`` time units.

    Tuples leave only when the local time has just grown. One that comes late waits for that too,
    even with ``k = 0``.
    """

    def __init__(self, k: int = 0) -> None:
        self.k = k
        self.local_time: Instant = MINUS_INFINITY
        self.buffer: list[Annotated] = []

    def push(self, e: StreamTuple, *, base_time: Instant = MINUS_INFINITY) -> list[Annotated]:
        """Take a tuple, annotate it with its delay, return what leaves."""
        has_grown = e.ts > self.local_time
        if has_grown:
            self.local_time = e.ts
        delay = 0 if has_grown else int(self.local_time) - e.ts
        insort(self.buffer, Annotated(e, delay, base_time), key=by_ts)
        leaving = []
        if has_grown:
            while self.buffer and self.buffer[0].ts + self.k <= self.local_time:
                leaving.append(self.buffer.pop(0))
        return leaving


class Synchronizer:
    """Algorithm 1. Equal timestamps leave in the order of their arrival in the input."""

    def __init__(self, m: int) -> None:
        self.sync_time: Instant = MINUS_INFINITY  # line 1
        self.buffer: list[Annotated] = []  # line 2, kept in (ts, arrival) order
        self._held = [0] * m  # tuples of each stream in the buffer

    def push(self, e: Annotated) -> list[Annotated]:
        """Take a tuple, return what leaves."""
        if not e.ts > self.sync_time:  # line 9
            return [e]  # line 10
        insort(self.buffer, e, key=by_ts)  # line 5
        self._held[e.stream] += 1
        leaving = []
        while all(self._held):  # line 6
            self.sync_time = self.buffer[0].ts  # line 7
            while self.buffer and self.buffer[0].ts == self.sync_time:  # line 8
                first = self.buffer.pop(0)
                self._held[first.stream] -= 1
                leaving.append(first)
        return leaving


class MSWJ:
    """Algorithm 2, and the count of what late tuples lose.

    Parameters
    ----------
    query
        Windows and condition.
    horizon
        Losses are counted for late tuples with ts >= join time - horizon. None: the largest
        window.
    """

    def __init__(self, query: Query, *, horizon: int | None = None) -> None:
        self.query = query
        self.horizon = query.largest_window if horizon is None else horizon
        self.complete_since: Instant = MINUS_INFINITY
        self.join_time: Instant = MINUS_INFINITY  # line 1
        self.memory = Memory(query)

    def remember_for(self, horizon: int) -> None:
        """Change the horizon between two tuples; a longer one brings nothing back."""
        if horizon > self.horizon:
            reached = self.join_time - self.horizon
            self.complete_since = max(self.complete_since, reached)
        self.horizon = horizon

    def push(self, e: Annotated, *, k: int = 0, base_time: Instant = MINUS_INFINITY) -> Received:
        """Take a tuple; return what it produced, or lost.

        ``k`` and ``base_time`` are those in effect now. A tuple can wait in its K-slack while the
        join passes it; what is lost with it needed more slack than there was, whatever the base
        time was when the tuple arrived.
        """
        if e.ts >= self.join_time:  # line 3
            self.join_time = e.ts  # line 4
            return self.memory.join_in_order(e)  # lines 5 to 8
        in_effect = max(0, min(k, base_time - self.join_time))
        return self.memory.take_late(
            e,
            base_time=max(e.base_time, self.join_time + in_effect),
            # Line 9 prints >, the text of Sec. III-A has >=. A tuple at the very edge of its
            # window still joins tuples at the join time, so >= it is.
            in_window=e.ts >= self.join_time - self.query.windows[e.stream],
            beyond_horizon=e.ts < max(self.join_time - self.horizon, self.complete_since),
        )


class DisorderHandling:
    """The K-slack components and the Synchronizer: arrivals in, join order out."""

    def __init__(self, m: int, *, k: Slack = 0) -> None:
        self.slacks = [KSlack() for _ in range(m)]
        self.synchronizer = Synchronizer(m)
        self.set_k(k)

    def set_k(self, k: Slack) -> None:
        """Change K, of all streams or of each; felt at the next release."""
        ks = [k] * len(self.slacks) if isinstance(k, int) else list(k)
        for slack, own in zip(self.slacks, ks, strict=True):
            slack.k = own

    @property
    def local_times(self) -> list[Instant]:
        """Local time iT of every stream."""
        return [slack.local_time for slack in self.slacks]

    @property
    def base_time(self) -> Instant:
        """Local time of the slowest stream."""
        return min(self.local_times)

    def push(self, e: StreamTuple) -> list[Annotated]:
        """Take the next arrival, return what reaches the join."""
        leaving = []
        for released in self.slacks[e.stream].push(e, base_time=self.base_time):
            leaving.extend(self.synchronizer.push(released))
        return leaving

    def flush(self) -> list[Annotated]:
        """End the input: all that is buffered, wherever it is, leaves in one sorted run."""
        buffered = [e for slack in self.slacks for e in slack.buffer] + self.synchronizer.buffer
        return sorted(buffered, key=by_ts)


class PerTupleJoin:
    """One complete operator instance."""

    def __init__(self, query: Query, *, k: Slack = 0, horizon: int | None = None) -> None:
        self.disorder = DisorderHandling(query.m, k=k)
        self.join = MSWJ(query, horizon=horizon)

    def push(self, e: StreamTuple) -> list[Received]:
        """Take the next arrival; return what the join received because of it."""
        leaving = self.disorder.push(e)
        k, base_time = min(slack.k for slack in self.disorder.slacks), self.disorder.base_time
        return [self.join.push(released, k=k, base_time=base_time) for released in leaving]

    def flush(self) -> list[Received]:
        """End the input."""
        return [self.join.push(released) for released in self.disorder.flush()]


def run_per_tuple(
    query: Query,
    arrivals: Iterable[StreamTuple],
    *,
    k: Slack | Callable[[int], Slack] = 0,
    horizon: int | None = None,
) -> Run:
    """Run a bounded input to its end.

    Parameters
    ----------
    query, arrivals, horizon
        As in `PerTupleJoin`; tuples in the order of their arrival.
    k
        One K, one per stream, or a function from the number of tuples arrived so far to either:
        the K in effect when the next one arrives.
    """
    join = PerTupleJoin(query, horizon=horizon)
    received: list[Received] = []
    for n, e in enumerate(arrivals):
        join.disorder.set_k(k(n) if callable(k) else k)
        received += join.push(e)
    received += join.flush()
    return Run(tuple(received))


def run_join_alone(
    query: Query, tuples: Iterable[StreamTuple], *, horizon: int | None = None
) -> Run:
    """Run Algorithm 2 alone on tuples in just this order, as if they had left the Synchronizer so.

    They carry no delay and no base time.
    """
    join = MSWJ(query, horizon=horizon)
    annotated = [Annotated(e, delay=0, base_time=MINUS_INFINITY) for e in tuples]
    return Run(tuple(join.push(e) for e in annotated))


def max_k_slack(arrivals: Iterable[StreamTuple], m: int) -> list[int]:
    """K of the Max-K-slack baseline after each arrival: the largest delay seen, in any stream."""
    slacks = [KSlack() for _ in range(m)]
    schedule = []
    largest = 0
    for e in arrivals:
        slacks[e.stream].push(e)
        largest = max(largest, int(slacks[e.stream].local_time) - e.ts)
        schedule.append(largest)
    return schedule

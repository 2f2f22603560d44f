"""Tuples, queries and results of the reference join."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

# Clocks start at minus infinity and a flushed watermark stands at plus infinity. Python compares
# integers with these exactly, however large the integer, so nothing is ever rounded.
MINUS_INFINITY = float("-inf")
PLUS_INFINITY = float("inf")
Instant: TypeAlias = int | float  # an integer, or one of the two infinities

Row: TypeAlias = Mapping[str, object]
Predicate: TypeAlias = Callable[[Sequence[Row]], bool]


@dataclass(frozen=True)
class StreamTuple:
    """One tuple as it arrives.

    Attributes
    ----------
    stream
        Index of its stream, from 0.
    ts
        Event time.
    arrival
        Position in the input, counted over all streams; no two tuples share one.
    values
        Its columns other than ``ts``.
    tick
        Number of the tick it arrives in; per-tuple arrival does not look at it.
    source
        Number of its source; only a join that follows sources looks at it.
    """

    stream: int
    ts: int
    arrival: int
    values: Row = field(default_factory=dict, compare=False)
    tick: int = 0
    source: int = 0

    @property
    def row(self) -> Row:
        """All columns, ``ts`` among them: what a condition can read."""
        return {"ts": self.ts, **self.values}


@dataclass(frozen=True)
class Annotated:
    """A tuple with what it carries from its arrival on: delay(e) and the base time B(e)."""

    origin: StreamTuple
    delay: int
    base_time: Instant

    @property
    def stream(self) -> int:
        """Index of the tuple's stream."""
        return self.origin.stream

    @property
    def ts(self) -> int:
        """Event time of the tuple."""
        return self.origin.ts

    @property
    def arrival(self) -> int:
        """Position of the tuple in the input."""
        return self.origin.arrival


@dataclass(frozen=True)
class Result:
    """One tuple of every stream, in stream order."""

    members: tuple[StreamTuple, ...]

    @property
    def ts(self) -> int:
        """Event time of the trigger, the latest member."""
        return max(e.ts for e in self.members)

    @property
    def arrivals(self) -> tuple[int, ...]:
        """Input positions of the members: names the result without its values."""
        return tuple(e.arrival for e in self.members)


@dataclass(frozen=True)
class Query:
    """Windows per stream and a condition over one row of each stream; no condition: cross join."""

    windows: tuple[int, ...]
    predicate: Predicate = lambda _rows: True

    @property
    def m(self) -> int:
        """Number of streams."""
        return len(self.windows)

    @property
    def largest_window(self) -> int:
        """The default retention horizon."""
        return max(self.windows)

    def holds(self, members: Sequence[StreamTuple]) -> bool:
        """Whether the condition, windows aside, holds for these members."""
        return self.predicate([e.row for e in members])

    def is_true(self, members: Sequence[StreamTuple]) -> bool:
        """Whether these members form a true result.

        The trigger's own window is tested along with the others: its ts lies in every window
        that ends at its ts, so this changes nothing, and no rule for ties is needed.
        """
        trigger_ts = max(e.ts for e in members)
        return all(
            trigger_ts - self.windows[e.stream] <= e.ts <= trigger_ts for e in members
        ) and self.holds(members)


@dataclass(frozen=True)
class Outcome:
    """A result produced or lost, and its required slack.

    Produced: the largest base time of a member, minus the result's ts. Lost: the base time of
    the late tuple it was lost with, minus the result's ts.
    """

    result: Result
    slack: Instant


@dataclass(frozen=True)
class Received:
    """What happened when the join operator received one tuple.

    Attributes
    ----------
    e
        The tuple.
    late
        Whether it was late there.
    in_window
        Whether it entered its window: always if in order, if still in scope when late.
    beyond_horizon
        Late, and so late that the results lost with it are not counted.
    produced
        Results it triggered; their order among themselves is not part of the contract.
    lost
        Results it would have completed, had it not been late.
    n_join, n_cross
        Productivity of an in-order tuple: its join results and its cross-join results. Both 0
        for a late one: estimating those is the Tuple-Productivity Profiler's business.
    """

    e: Annotated
    late: bool
    in_window: bool
    beyond_horizon: bool = False
    produced: tuple[Outcome, ...] = ()
    lost: tuple[Outcome, ...] = ()
    n_join: int = 0
    n_cross: int = 0


@dataclass(frozen=True)
class Run:
    """Everything the join operator received, in that order."""

    received: tuple[Received, ...]

    @property
    def produced(self) -> list[Result]:
        """All results, in the order in which they left."""
        return [o.result for r in self.received for o in r.produced]

    @property
    def lost(self) -> list[Result]:
        """All results counted as lost, in the order of their late tuples."""
        return [o.result for r in self.received for o in r.lost]

    @property
    def late(self) -> list[StreamTuple]:
        """All late tuples."""
        return [r.e.origin for r in self.received if r.late]

    @property
    def beyond_horizon(self) -> list[StreamTuple]:
        """Late tuples whose losses were not counted."""
        return [r.e.origin for r in self.received if r.beyond_horizon]

    def required_slack(self, result: Result) -> Instant:
        """Largest base time of the result's members, minus its ts."""
        return max(self._base_times[arrival] for arrival in result.arrivals) - result.ts

    @functools.cached_property
    def _base_times(self) -> dict[int, Instant]:
        return {r.e.arrival: r.e.base_time for r in self.received}

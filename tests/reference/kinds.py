"""Results at once, and outer, semi and anti joins, as ``docs/join-kinds.md`` tells them.

Tick arrival only. Every new tuple is tried with all tuples ever received, so that a result is
found in the tick of its last member, whoever triggers it. What then becomes of the result, and of
tuples without one, is decided by the watermark alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.reference.memory import with_one_of_each_other
from tests.reference.model import MINUS_INFINITY, PLUS_INFINITY, Annotated, Instant, Query, Result
from tests.reference.tick import TickDisorderHandling, release_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tests.reference.model import StreamTuple

Emit: TypeAlias = Literal["ordered", "eager"]
How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]

PRESERVED: dict[How, tuple[int, ...]] = {
    "inner": (),
    "left": (0,),
    "right": (1,),
    "full": (0, 1),
    "semi": (0,),
    "anti": (0,),
}
"""Streams whose tuples come out, or are judged, without a partner."""


@dataclass(frozen=True)
class Row:
    """A row that has left.

    Attributes
    ----------
    arrivals
        Positions of its members in the input; None in place of a partner that there is not.
    ts
        Its result time.
    tick
        The tick in which it left; None for the end of the input.
    """

    arrivals: tuple[int | None, ...]
    ts: int
    tick: int | None


@dataclass(frozen=True)
class Found:
    """A result that was found: when its last member came, and whether that was in time."""

    result: Result
    slack: Instant
    watermark: Instant
    """The watermark before the tick of its last member."""
    last: Annotated

    @property
    def in_time(self) -> bool:
        """Whether it is produced; otherwise it is lost."""
        return self.result.ts > self.watermark


@dataclass
class Judged:
    """What is known of one tuple of a preserved stream.

    Attributes
    ----------
    verdict
        v = ts + W: from this watermark on no result can hold the tuple.
    too_late
        Whether the verdict had been passed when the tuple came.
    beyond
        Whether the tuple was late and beyond the horizon when it came.
    found
        Results with the tuple, produced or counted as lost.
    has_left
        Whether the tuple left without a partner.
    """

    e: Annotated
    verdict: int
    too_late: bool
    beyond: bool
    found: list[Found] = field(default_factory=list)
    has_left: bool = False

    @property
    def is_false(self) -> bool:
        """Whether it left without a partner, and a partner came later."""
        return self.has_left and bool(self.found)

    @property
    def is_lost(self) -> bool:
        """Whether it has no partner, and came too late to say so."""
        return self.too_late and not self.beyond and not self.found

    @property
    def slack(self) -> Instant:
        """The slack that its row without a partner requires."""
        return self.e.base_time - self.verdict


class KindJoin:
    """One operator instance that emits and joins in any of the ways.

    Parameters
    ----------
    query
        Windows and condition; two streams unless ``how`` is inner.
    how, emit
        Kind of join, and when results leave.
    horizon
        As in `tests.reference.tick.TickJoin`.
    """

    def __init__(
        self, query: Query, *, how: How = "inner", emit: Emit = "ordered", horizon: int | None
    ) -> None:
        self.query, self.how, self.emit = query, how, emit
        self.horizon = query.largest_window if horizon is None else horizon
        self.complete_since: Instant = MINUS_INFINITY
        self.disorder = TickDisorderHandling(query.m)
        self.received: list[list[Annotated]] = [[] for _ in range(query.m)]
        self.found: list[Found] = []
        self.waiting: list[Found] = []
        self.judged: dict[int, Judged] = {}
        self.rows: list[Row] = []
        self.watermarks: list[Instant] = []
        self._semi: set[int] = set()

    def remember_for(self, horizon: int) -> None:
        """Change the horizon between two ticks; a longer one brings nothing back."""
        if horizon > self.horizon:
            reached = self.disorder.watermark - self.horizon
            self.complete_since = max(self.complete_since, reached)
        self.horizon = horizon

    def step(self, tuples: Collection[StreamTuple], *, k: int, idle: Collection[int] = ()) -> None:
        """One tick: its tuples, its K, the streams declared idle."""
        before = self.disorder.watermark
        for e in sorted(map(self.disorder.annotate, tuples), key=release_order):
            self._arrive(e, before)
        self.disorder.advance(tuples, k=k, idle=idle)
        self._release(before, len(self.watermarks))
        self.watermarks.append(self.disorder.watermark)

    def flush(self) -> None:
        """End the input: the watermark goes to plus infinity."""
        before, self.disorder.watermark = self.disorder.watermark, PLUS_INFINITY
        self._release(before, None)

    def _arrive(self, e: Annotated, before: Instant) -> None:
        """Find the results of which the tuple is the last member."""
        edge = max(before - self.horizon, self.complete_since)
        beyond = e.ts <= before and e.ts < edge
        if e.stream in PRESERVED[self.how]:
            verdict = e.ts + self.query.windows[e.stream]
            self.judged[e.arrival] = Judged(e, verdict, before >= verdict, beyond)
        for members in with_one_of_each_other(e, self.received):
            origins = tuple(member.origin for member in members)
            if self.query.is_true(origins):
                result = Result(origins)
                found = Found(result, e.base_time - result.ts, before, e)
                # What is lost with a tuple beyond the horizon is not known.
                if found.in_time or not beyond:
                    self._find(found)
        self.received[e.stream].append(e)

    def _find(self, found: Found) -> None:
        self.found.append(found)
        for arrival in found.result.arrivals:
            if arrival in self.judged:
                self.judged[arrival].found.append(found)
        if found.in_time:
            self.waiting.append(found)

    def _release(self, before: Instant, tick: int | None) -> None:
        """Let results and verdicts of this tick leave."""
        now = self.disorder.watermark
        leaving = [f for f in self.waiting if self.emit == "eager" or f.result.ts <= now]
        self.waiting = [f for f in self.waiting if f not in leaving]
        rows = []
        for found in leaving:
            if self.how == "semi":
                e = found.result.members[0]
                if e.arrival not in self._semi:
                    self._semi.add(e.arrival)
                    rows.append(Row((e.arrival,), e.ts, tick))
            elif self.how != "anti":
                rows.append(Row(found.result.arrivals, found.result.ts, tick))
        for judged in self.judged.values():
            due = before < judged.verdict <= now and not judged.too_late
            if due and not judged.found:
                judged.has_left = True
                if self.how != "semi":
                    rows.append(Row(self._alone(judged), judged.verdict, tick))
        self.rows += rows if self.emit == "eager" else sorted(rows, key=lambda row: row.ts)

    def _alone(self, judged: Judged) -> tuple[int | None, ...]:
        if self.how == "anti":
            return (judged.e.arrival,)
        members: list[int | None] = [None, None]
        members[judged.e.stream] = judged.e.arrival
        return tuple(members)


@dataclass(frozen=True)
class KindRun:
    """A run to the end of the input."""

    join: KindJoin

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order in which they left."""
        return self.join.rows

    @property
    def produced(self) -> set[Result]:
        """Results that were found in time."""
        return {f.result for f in self.join.found if f.in_time}

    @property
    def lost(self) -> set[Result]:
        """Results that were counted as lost."""
        return {f.result for f in self.join.found if not f.in_time}

    @property
    def judged(self) -> list[Judged]:
        """What is known of every tuple of a preserved stream."""
        return list(self.join.judged.values())

    @property
    def nulls(self) -> set[int]:
        """Tuples that left without a partner, by their arrival."""
        return {j.e.arrival for j in self.judged if j.has_left}

    @property
    def false_nulls(self) -> set[int]:
        """Tuples of these that had a partner, as far as it came within the horizon."""
        return {j.e.arrival for j in self.judged if j.is_false}

    @property
    def lost_nulls(self) -> set[int]:
        """Tuples without a partner that came too late to leave."""
        return {j.e.arrival for j in self.judged if j.is_lost}

    @property
    def lost_semi(self) -> set[int]:
        """Tuples of which all results were lost."""
        return {
            j.e.arrival
            for j in self.judged
            if j.found and not any(found.in_time for found in j.found)
        }

    @property
    def watermarks(self) -> dict[int | None, Instant]:
        """The watermark before each tick, and before the end of the input (None)."""
        marks: list[Instant] = [MINUS_INFINITY, *self.join.watermarks]
        before: dict[int | None, Instant] = dict(enumerate(marks[:-1]))
        return before | {None: marks[-1]}


def run_kinds(
    query: Query,
    arrivals: Iterable[StreamTuple],
    *,
    how: How = "inner",
    emit: Emit = "ordered",
    k: int | Callable[[int], int] = 0,
    horizon: int | None = None,
) -> KindRun:
    """Run a bounded input to its end, every tick from 0 to the last, empty ones too."""
    join = KindJoin(query, how=how, emit=emit, horizon=horizon)
    by_tick: dict[int, list[StreamTuple]] = defaultdict(list)
    for e in arrivals:
        by_tick[e.tick].append(e)
    for n in range(max(by_tick, default=-1) + 1):
        join.step(by_tick[n], k=k(n) if callable(k) else k)
    join.flush()
    return KindRun(join)

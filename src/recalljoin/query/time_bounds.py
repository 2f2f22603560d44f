"""Windows from the condition: how far apart in time the members of a result can be.

Comparisons of event times, such as ``c.ts BETWEEN i.ts AND i.ts + INTERVAL 10 MINUTES``, bound the
differences of times. Shortest paths among the bounds say, for each stream, how much younger than
its tuples the other members of a result can be. A window of that size loses no result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.types as pt

from recalljoin.query.arrow_types import time_unit as unit_of
from recalljoin.query.durations import NANOSECONDS_PER, TimeUnit
from recalljoin.query.expressions import Call, Column, Expression, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Bound(NamedTuple):
    """The time of stream ``late`` is at most ``most`` units after the time of ``early``."""

    late: int
    early: int
    most: int


class _Linear(NamedTuple):
    """A sum of event times, each with a sign, and of nanoseconds."""

    times: dict[int, int]
    constant: int

    def minus(self, other: _Linear) -> _Linear:
        streams = self.times.keys() | other.times.keys()
        times = {s: self.times.get(s, 0) - other.times.get(s, 0) for s in streams}
        return _Linear({s: n for s, n in times.items() if n}, self.constant - other.constant)


_ZERO = _Linear({}, 0)


class TimeBounds:
    """What comparisons of event times say.

    Parameters
    ----------
    times
        For each stream its column of event time.
    unit
        Unit of the query.
    time_unit
        What integer times count in.
    """

    def __init__(self, times: Sequence[Column], unit: TimeUnit, time_unit: TimeUnit) -> None:
        self._times = tuple(times)
        self._unit = NANOSECONDS_PER[unit]
        self._integer_unit = NANOSECONDS_PER[time_unit]

    def of(self, part: Expression) -> list[Bound]:
        """The bounds that a part of the condition is equivalent to; empty for other parts."""
        if not isinstance(part, Call):
            return []
        if part.function == "and":
            every = [self.of(arg) for arg in part.args]
            return [bound for bounds in every for bound in bounds] if all(every) else []
        if part.function in ("gt", "ge"):
            function, (other, one) = {"gt": "lt", "ge": "le"}[part.function], part.args
        elif part.function in ("lt", "le", "eq"):
            function, (one, other) = part.function, part.args
        else:
            return []
        if function != "eq" and isinstance(one, Call) and one.function == "abs":
            inner = self._linear(one.args[0])
            sides = [inner, None if inner is None else _ZERO.minus(inner)]
        else:
            sides = [self._linear(one)]
        right = self._linear(other)
        found = [self._bound(side, right, strict=function == "lt") for side in sides]
        if function == "eq":
            found.append(self._bound(right, sides[0], strict=False))
        bounds = [bound for bound in found if bound is not None]
        return bounds if len(bounds) == len(found) else []

    def windows(self, bounds: Sequence[Bound]) -> list[int | None]:
        """For each stream the smallest window that loses no result; None without a bound."""
        m = len(self._times)
        most = [[0 if i == j else math.inf for j in range(m)] for i in range(m)]
        for late, early, limit in bounds:
            most[late][early] = min(most[late][early], limit)
        for via in range(m):
            for i in range(m):
                for j in range(m):
                    most[i][j] = min(most[i][j], most[i][via] + most[via][j])
        largest = [max(most[other][s] for other in range(m)) for s in range(m)]
        return [None if size == math.inf else max(0, int(size)) for size in largest]

    def unbounded(self, bounds: Sequence[Bound], stream: int) -> list[int]:
        """The streams whose times may be any length of time after the times of ``stream``."""
        reached, pending = {stream}, [stream]
        while pending:
            here = pending.pop()
            found = {bound.late for bound in bounds if bound.early == here} - reached
            reached |= found
            pending.extend(found)
        return [s for s in range(len(self._times)) if s not in reached]

    def _bound(self, one: _Linear | None, other: _Linear | None, *, strict: bool) -> Bound | None:
        """What ``one <= other`` says of two event times, or ``one < other``."""
        if one is None or other is None:
            return None
        difference = one.minus(other)
        signs = {sign: s for s, sign in difference.times.items()}
        if len(difference.times) != 2 or set(signs) != {1, -1}:
            return None
        # Times are whole units of the query.
        most, rest = divmod(-difference.constant, self._unit)
        return Bound(signs[1], signs[-1], most - 1 if strict and rest == 0 else most)

    def _linear(self, expression: Expression) -> _Linear | None:
        if expression in self._times:
            return _Linear({self._times.index(expression): 1}, 0)
        if isinstance(expression, Literal) and expression.value is not None:
            if pt.is_duration(expression.type):
                size = NANOSECONDS_PER[unit_of(expression.type)]
            elif pt.is_integer(expression.type):
                size = self._integer_unit
            else:
                return None
            return _Linear({}, expression.value * size)
        if not isinstance(expression, Call):
            return None
        args = [self._linear(arg) for arg in expression.args]
        if any(arg is None for arg in args):
            return None
        first, *others = (arg for arg in args if arg is not None)
        match expression.function:
            case "cast":
                return first
            case "add":
                return first.minus(_ZERO.minus(others[0]))
            case "subtract":
                return first.minus(others[0])
            case "negate":
                return _ZERO.minus(first)
        return None


def is_implied(bounds: Sequence[Bound], windows: Sequence[int]) -> bool:
    """Whether the windows say exactly what the bounds say.

    In a result no member is later than an earlier member by more than the earlier one's window.
    """
    return bool(bounds) and all(windows[bound.early] == bound.most for bound in bounds)

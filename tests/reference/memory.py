"""What the join operator holds: a window per stream, and all it has ever received."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from tests.reference.model import Annotated, Instant, Outcome, Query, Received, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Memory:
    """Windows, and a memory of every tuple received.

    The windows are what Algorithm 2 probes. The rest exists to count losses; it is never
    cleaned, so that the retention horizon has exactly one effect here: which late tuples are
    counted.
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self.windows: list[list[Annotated]] = [[] for _ in range(query.m)]
        self.received: list[list[Annotated]] = [[] for _ in range(query.m)]

    def join_in_order(self, e: Annotated) -> Received:
        """Steps 1 to 3 of the paper for an in-order tuple: invalidate, join, insert."""
        others = [j for j in range(self.query.m) if j != e.stream]
        for j in others:
            oldest = e.ts - self.query.windows[j]
            self.windows[j] = [other for other in self.windows[j] if other.ts >= oldest]
        produced = []
        for members in with_one_of_each_other(e, self.windows):
            if self.query.holds([member.origin for member in members]):
                result = Result(tuple(member.origin for member in members))
                slack = max(member.base_time for member in members) - result.ts
                produced.append(Outcome(result, slack))
        n_cross = math.prod(len(self.windows[j]) for j in others)
        self.windows[e.stream].append(e)
        self.received[e.stream].append(e)
        return Received(
            e,
            late=False,
            in_window=True,
            produced=tuple(produced),
            n_join=len(produced),
            n_cross=n_cross,
        )

    def take_late(
        self, e: Annotated, *, in_window: bool, beyond_horizon: bool, base_time: Instant
    ) -> Received:
        """Insert a late tuple without probing, and count what is lost with it.

        The slack of what is lost is counted from ``base_time``.

        A true result is produced by its last member, in the order the join receives them, if that
        one is in order. So each result is lost at exactly one tuple: its last member, when late.
        """
        lost = []
        if not beyond_horizon:
            for members in with_one_of_each_other(e, self.received):
                origins = tuple(member.origin for member in members)
                if self.query.is_true(origins):
                    result = Result(origins)
                    lost.append(Outcome(result, base_time - result.ts))
        if in_window:
            self.windows[e.stream].append(e)
        self.received[e.stream].append(e)
        return Received(
            e,
            late=True,
            in_window=in_window,
            beyond_horizon=beyond_horizon,
            lost=tuple(lost),
        )


def with_one_of_each_other(
    e: Annotated, pools: Sequence[Sequence[Annotated]]
) -> Iterator[tuple[Annotated, ...]]:
    """All combinations of ``e`` with one tuple of every other stream, members in stream order."""
    return itertools.product(*([e] if j == e.stream else pool for j, pool in enumerate(pools)))

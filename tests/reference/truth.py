"""The true results: those of the same query over the same tuples sorted by ts.

Two ways to say it, so that each can be held against the other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.reference.model import Query, Result, StreamTuple
from tests.reference.per_tuple import run_join_alone

if TYPE_CHECKING:
    from collections.abc import Iterable


def true_results(query: Query, tuples: Iterable[StreamTuple]) -> list[Result]:
    """Try every combination of one tuple per stream; no window is kept, no order is assumed."""
    streams: list[list[StreamTuple]] = [[] for _ in range(query.m)]
    for e in tuples:
        streams[e.stream].append(e)
    results = [Result(members) for members in itertools.product(*streams) if query.is_true(members)]
    return sorted(results, key=lambda r: (r.ts, r.arrivals))


def results_of_sorted_input(query: Query, tuples: Iterable[StreamTuple]) -> list[Result]:
    """Algorithm 2 alone, over the tuples in (ts, arrival) order."""
    return run_join_alone(query, sorted(tuples, key=lambda e: (e.ts, e.arrival))).produced

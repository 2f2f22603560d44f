"""What policies are judged on: the paper's data, a simulated match and public recordings."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.engine import prepare
from recalljoin.datasets import PUBLIC, SimulatedMatch, make_syn_x3, make_syn_x4
from recalljoin.quality.adaptive import true_results
from recalljoin.quality.profiling import follow_tuples, no_clocks
from recalljoin.quality.recall import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.datasets import Dataset
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.quality.recall import Timeline
    from recalljoin.query.bound_query import BoundQuery


@dataclass(frozen=True)
class Case:
    """Streams with a join, a period and a way of arriving."""

    name: str
    make: Callable[[int], Dataset]
    """The streams of a seed; a recording is the same for every seed."""
    query: str = ""
    """Without the target; by default the query that belongs to the streams."""
    period: int = 60_000
    """Milliseconds over which recall is measured."""
    tick: int | None = None
    """Milliseconds on the arrival column; None where tuples arrive one by one."""
    seeded: bool = False

    @property
    def arrival(self) -> Literal["tuple", "tick"]:
        """How tuples arrive."""
        return "tuple" if self.tick is None else "tick"

    def text(self, dataset: Dataset) -> str:
        """The whole query."""
        return f"{self.query or dataset.query} WITH RECALL 0.95 OVER {self.period} ms"

    def digest(self) -> str:
        """Changes with what is joined and how."""
        what = f"{self.name} {self.query} {self.period} {self.tick}"
        return hashlib.sha256(what.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Prepared:
    """A case of one seed, ready to run."""

    query: BoundQuery
    arrivals: Arrivals
    truth: Timeline
    delays: Int64s
    """Of all tuples, each behind the newest of its own stream."""


@lru_cache(maxsize=12)
def recording(name: str, seed: int = 0) -> Prepared:
    """The streams of one seed, ready for the engine, and their true results."""
    case = CASES[name]
    dataset = case.make(seed)
    tables = {stream: dataset.table(stream) for stream in dataset.streams}
    query, arrivals = prepare(case.text(dataset), tables)
    before = no_clocks(len(query.streams))
    arrived, _ = follow_tuples(arrivals.stream, arrivals.ts, before=before)
    return Prepared(query, arrivals, true_results(query, arrivals), arrived.delay)


def _match(seed: int) -> Dataset:
    return SimulatedMatch(seed=seed)


@lru_cache(maxsize=4)
def _public(name: str) -> Dataset:
    return PUBLIC[name].read(Path(os.environ.get("RECALLJOIN_SHARED", "../shared")) / "data")


def _read(name: str, _: int) -> Dataset:
    return _public(name)


def _cases() -> list[Case]:
    cases = [
        Case("x3", make_syn_x3, seeded=True),
        Case("x4", make_syn_x4, seeded=True),
        Case("match", _match, seeded=True),
    ]
    for name, public in PUBLIC.items():
        for period in public.periods:
            short = name if len(public.periods) == 1 else f"{name} {period // 1000}s"
            one_by_one = Case(short, partial(_read, name), public.query, period)
            cases += [one_by_one, replace(one_by_one, name=f"{short} ticks", tick=public.tick)]
    return cases


CASES = {case.name: case for case in _cases()}

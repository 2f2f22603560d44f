"""What policies are judged on: the paper's data, a simulated match and public recordings."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.engine import prepare
from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4, read_binance, read_umts
from recalljoin.quality import Timeline, follow_tuples, true_results
from recalljoin.quality.arrived import no_clocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.datasets import Dataset
    from recalljoin.engine import Arrivals
    from recalljoin.engine.queues import Int64s
    from recalljoin.query import BoundQuery

NEARBY = "SELECT count(*) FROM s1 [500 ms], s2 [500 ms]"
TRADES = (
    "SELECT count(*) FROM s1 [1 SEC], s2 [1 SEC] "
    "WHERE s1.channel = 'trade' AND s2.channel = 'trade'"
)
QUOTES = (
    "SELECT count(*) FROM s1 [100 ms], s2 [100 ms] "
    "WHERE s1.channel = 'trade' AND s2.channel = 'bookTicker'"
)


@dataclass(frozen=True)
class Case:
    """Streams with a join, a period and a way of arriving."""

    name: str
    make: Callable[[int], Dataset]
    """The streams of a seed; a recording is the same for every seed."""
    query: str = ""
    """Without the target; by default the query that belongs to the streams."""
    period: str = "1 MINUTE"
    tick: int | None = None
    """Milliseconds on the arrival column; None where tuples arrive one by one."""
    seeded: bool = False

    @property
    def arrival(self) -> Literal["tuple", "tick"]:
        """How tuples arrive."""
        return "tuple" if self.tick is None else "tick"

    def text(self, dataset: Dataset) -> str:
        """The whole query."""
        return f"{self.query or dataset.query} WITH RECALL 0.95 OVER {self.period}"

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


def _data() -> Path:
    return Path(os.environ.get("RECALLJOIN_SHARED", "../shared")) / "data"


@lru_cache(maxsize=4)
def _umts(session: str) -> Dataset:
    return read_umts(_data() / "jr-ooo-dataset-umts" / f"{session}.csv.gz")


@lru_cache(maxsize=4)
def _feeds(time: Literal["E", "T"]) -> Dataset:
    names = ("spot_btcusdt_20240808.gz", "usdm_btcusdt_20240808.gz")
    return read_binance(*(_data() / "binance" / name for name in names), time=time)


def _match(seed: int) -> Dataset:
    return SimulatedMatch(seed=seed)


def _from_umts(session: str, _: int) -> Dataset:
    return _umts(session)


def _from_feeds(time: Literal["E", "T"], _: int) -> Dataset:
    return _feeds(time)


def _cases() -> list[Case]:
    cases = [
        Case("x3", make_syn_x3, seeded=True),
        Case("x4", make_syn_x4, seeded=True),
        Case("match", _match, seeded=True),
    ]
    for session in ("d-1", "d-2"):
        make = partial(_from_umts, session)
        cases += [
            Case(f"umts {session}", make, NEARBY),
            Case(f"umts {session} ticks", make, NEARBY, tick=100),
        ]
    for name, feeds, query in (
        ("trades", partial(_from_feeds, "E"), TRADES),
        ("quotes", partial(_from_feeds, "T"), QUOTES),
    ):
        for period, short in (("10 SEC", "10s"), ("1 MINUTE", "60s")):
            cases += [
                Case(f"{name} {short}", feeds, query, period),
                Case(f"{name} {short} ticks", feeds, query, period, tick=10),
            ]
    return cases


CASES = {case.name: case for case in _cases()}

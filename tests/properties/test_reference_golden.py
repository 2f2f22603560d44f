"""Disorder handling of the reference against the golden answers: which tuples are late.

The results themselves run into the billions there; counting them is the engine's business.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.reference.model import MINUS_INFINITY, Annotated, Instant, StreamTuple
from tests.reference.per_tuple import DisorderHandling, max_k_slack
from tests.reference.tick import TickDisorderHandling

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.data

INPUTS = ("syn3", "syn4", "soccer")
TICK = 100  # ms


@functools.cache
def arrivals(folder: Path) -> tuple[StreamTuple, ...]:
    """All streams in the order of their arrival; ties by stream, then row."""
    rows = []
    for stream, path in enumerate(sorted(folder.glob("s*.parquet"))):
        table = pq.read_table(path, columns=["arrival", "ts"]).to_pydict()
        rows += [
            (arrival, stream, row, ts)
            for row, (arrival, ts) in enumerate(zip(table["arrival"], table["ts"], strict=True))
        ]
    rows.sort()
    first = rows[0][0]
    return tuple(
        StreamTuple(stream, ts, n, tick=(arrival - first) // TICK)
        for n, (arrival, stream, _row, ts) in enumerate(rows)
    )


def expected(folder: Path, mode: str) -> list[dict[str, Any]]:
    """Answers for no K, a middling fixed K, and Max-K-slack; all of them would take long here."""
    answers: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return [answer for answer in answers[mode] if answer["k_ms"] in (0, 300)]


class LateCounter:
    """The join operator, reduced to lines 3 and 4 of Algorithm 2."""

    def __init__(self) -> None:
        self.join_time: Instant = MINUS_INFINITY
        self.late = 0

    def take(self, released: Iterable[Annotated]) -> None:
        for e in released:
            self.late += e.ts < self.join_time
            self.join_time = max(self.join_time, e.ts)


@pytest.mark.parametrize("name", INPUTS)
def test_as_many_tuples_are_late_as_the_golden_answers_say_per_tuple(
    golden_dir: Path, name: str
) -> None:
    tuples = arrivals(golden_dir / name)
    m = 1 + max(e.stream for e in tuples)
    largest_delays = max_k_slack(tuples, m)
    for answer in expected(golden_dir / name, "tuple"):
        disorder = DisorderHandling(m, k=answer["k_ms"])
        counter = LateCounter()
        for e, largest_delay in zip(tuples, largest_delays, strict=True):
            if answer["policy"] == "max":
                disorder.set_k(largest_delay)
            counter.take(disorder.push(e))
        counter.take(disorder.flush())
        assert counter.late == answer["late"], answer


@pytest.mark.parametrize("name", INPUTS)
def test_as_many_tuples_are_late_as_the_golden_answers_say_per_tick(
    golden_dir: Path, name: str
) -> None:
    tuples = arrivals(golden_dir / name)
    m = 1 + max(e.stream for e in tuples)
    for answer in expected(golden_dir / name, "tick_100ms"):
        disorder = TickDisorderHandling(m)
        late = 0
        # Ticks without a tuple change nothing while K is constant.
        for _, group in itertools.groupby(tuples, key=lambda e: e.tick):
            tick = list(group)
            late += len(disorder.take(tick))
            disorder.advance(tick, k=answer["k_ms"], idle=())
            disorder.release()
        assert late == answer["late"], answer

"""Hypothesis strategies: disordered arrivals of m streams, and queries to run on them.

A `Case` is neutral: tuples for the reference, SQL text and Arrow columns for the library.
"""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import strategies as st

from tests.reference.conditions import KINDS, Condition
from tests.reference.model import Query, StreamTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

# Far from zero, yet sums and differences of two of them still fit 64 bits.
HUGE = 2**61

# Brute force tries all combinations: the more streams, the fewer tuples.
MOST_TUPLES = {2: 40, 3: 36, 4: 30, 5: 25}
MOST_PLANNED = 50

SEEDS = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Case:
    """A query and its input.

    Attributes
    ----------
    condition, windows
        The query.
    arrivals
        Tuples of all streams in the order of their arrival; ticks never fall along it.
    """

    condition: Condition
    windows: tuple[int, ...]
    arrivals: tuple[StreamTuple, ...]

    @property
    def m(self) -> int:
        """Number of streams."""
        return self.condition.m

    @property
    def query(self) -> Query:
        """The query as the reference takes it."""
        return self.condition.query(self.windows)

    @property
    def largest_delay(self) -> int:
        """How far the latest tuple lags behind its stream's local time."""
        local_times: dict[int, int] = {}
        largest = 0
        for e in self.arrivals:
            local_time = max(local_times.get(e.stream, e.ts), e.ts)
            local_times[e.stream] = local_time
            largest = max(largest, local_time - e.ts)
        return largest

    def names(self) -> list[str]:
        """``s1`` .. ``sm``, as the condition's text calls the streams."""
        return [f"s{i + 1}" for i in range(self.m)]

    def schema(self, stream: int) -> pa.Schema:
        """Arrow schema of one stream, ``ts`` first."""
        columns = self.condition.columns[stream]
        types = {name: arrow_type(domain.type) for name, domain in columns.items()}
        return pa.schema({"ts": pa.int64(), **types})

    def table(self, stream: int) -> pa.Table:
        """Tuples of one stream as Arrow, in the order of their arrival."""
        rows = [dict(e.row) for e in self.arrivals if e.stream == stream]
        return pa.Table.from_pylist(rows, schema=self.schema(stream))


def arrow_type(name: str) -> pa.DataType:
    """Arrow type of a `Domain`'s type name."""
    parameters = re.fullmatch(r"decimal128\((\d+), (\d+)\)", name)
    if parameters:
        return pa.decimal128(int(parameters[1]), int(parameters[2]))
    return pa.type_for_alias(name)


def conditions(
    m: int, kinds: Sequence[Callable[[int], Condition]] = KINDS
) -> SearchStrategy[Condition]:
    """Draw a condition over m streams, of any of the given kinds."""
    return st.sampled_from(kinds).map(lambda kind: kind(m))


def windows(m: int) -> SearchStrategy[tuple[int, ...]]:
    """Draw a window for each stream, often different, sometimes 0."""
    sizes = (10, 20, 40, 5, 10, 20, 40, 10, 20, 40, 3, 1, 0)
    return SEEDS.map(lambda n: tuple(sizes[n // len(sizes) ** i % len(sizes)] for i in range(m)))


def slacks() -> SearchStrategy[int]:
    """Draw one K."""
    return st.sampled_from((0, 0, 0, 0, 1, 1, 2, 3, 5, 8, 20, 100))


def schedules(length: int) -> SearchStrategy[list[int]]:
    """Draw a K for each of ``length`` steps: one K, or stretches that grow and fall."""
    return slacks().map(lambda k: [k] * length) | SEEDS.map(
        lambda seed: _schedule_from(random.Random(seed), length)
    )


def _schedule_from(source: random.Random, length: int) -> list[int]:
    schedule: list[int] = []
    while len(schedule) < length:
        schedule += [source.choice((0, 0, 1, 2, 3, 5, 8, 20))] * source.randint(1, 8)
    return schedule[:length]


@st.composite
def arrivals(draw: DrawFn, condition: Condition, *, salt: object = None) -> tuple[StreamTuple, ...]:
    """Draw the tuples of all streams in the order of their arrival.

    They are planned from a seed, and Hypothesis decides which to keep: that it can shrink. Most of
    the examples Hypothesis tries are near copies of another; drawn from it tuple by tuple, most
    would be nearly the same streams, hardly a tuple of them late. So ``salt``, whatever else has
    been drawn, goes into the seed, and a copy that differs anywhere differs here.
    """
    seed = (draw(SEEDS), condition.kind, condition.m, salt)
    planned = _arrivals_from(random.Random(repr(seed)), condition)
    # A byte for each tuple; 0, which Hypothesis shrinks to, drops it.
    kept = draw(st.binary(min_size=MOST_PLANNED, max_size=MOST_PLANNED))
    chosen = [e for e, byte in zip(planned, kept, strict=False) if byte > 20]
    chosen = chosen[: MOST_TUPLES[condition.m]]
    first_tick = chosen[0].tick if chosen else 0  # ticks count from the first arrival of all
    return tuple(
        dataclasses.replace(e, arrival=n, tick=e.tick - first_tick) for n, e in enumerate(chosen)
    )


def _arrivals_from(source: random.Random, condition: Condition) -> list[StreamTuple]:
    """Plan what arrives.

    Time passes for all streams together; each lags behind by a constant of its own, and tuples by
    a delay of their own. Bursts repeat a tuple exactly, or with time passing between. There are
    ties and gaps, a stream that falls silent for good, a timestamp far from all others.
    """
    m = condition.m
    pace = source.choice(((0, 1), (0, 0, 1, 1, 2), (1, 2), (0, 0, 0, 0, 5)))
    delays = source.choice(((0, 1, 2), (0, 0, 2, 4, 8), (0, 0, 15), (0, 5, 10), (0,)))
    ticks = source.choice(((0, 0, 0, 1), (0, 1), (1,), (0, 0, 0, 0, 4)))
    variety = source.choice((1, 2, 2, 3, 9))  # of values: few of them meet often
    lag = [source.choice((0, 0, 0, 2, 6)) for _ in range(m)]
    origin = source.choice((0, 0, 0, 0, -20, HUGE, -HUGE))
    silent = source.randrange(m) if source.random() < 0.1 else None
    silent_from = source.randrange(12)
    planned: list[StreamTuple] = []
    now = 0
    tick = 0
    while len(planned) < MOST_PLANNED:
        now += 40 if source.random() < 0.02 else source.choice(pace)
        tick += source.choice(ticks)
        stream = source.randrange(m)
        if stream == silent and len(planned) >= silent_from:
            continue
        values = {
            name: source.choice(domain.values[:variety])
            for name, domain in condition.columns[stream].items()
        }
        delay = source.choice(delays)
        between = source.choice((0, 0, 1))
        for _ in range(source.choice((1, 1, 1, 1, 1, 1, 1, 2, 4))):
            ts = origin + now - lag[stream] - delay
            if source.random() < 0.003:
                ts = source.choice((HUGE, -HUGE))
            planned.append(StreamTuple(stream, ts, len(planned), values, tick))
            now += between
    return planned


@st.composite
def cases(
    draw: DrawFn,
    *,
    min_m: int = 2,
    max_m: int = 5,
    kinds: Sequence[Callable[[int], Condition]] = KINDS,
) -> Case:
    """Draw a query and its input."""
    # With fewer streams the same number of tuples gets further, and more of them are late.
    m = draw(st.sampled_from([m for m in (2, 2, 3, 3, 4, 5) if min_m <= m <= max_m]))
    condition = draw(conditions(m, kinds))
    sizes = draw(windows(condition.m))
    return Case(condition, sizes, draw(arrivals(condition, salt=sizes)))


@st.composite
def scheduled(draw: DrawFn, source: SearchStrategy[Case] | None = None) -> tuple[Case, list[int]]:
    """Draw a case, and a K before each of its arrivals; good for its ticks as well."""
    case = draw(cases() if source is None else source)
    ticks = max((e.tick for e in case.arrivals), default=0) + 1
    return case, draw(schedules(max(len(case.arrivals), ticks)))

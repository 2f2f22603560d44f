"""Streams with sources: phones, the simulated match, ten thousand and irregular devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.choosing_k_data import CASES
from benchmarks.engine import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.query.bound_query import BoundQuery

MINUTE = 60_000
QUERY = "SELECT count(*) FROM s1 [500 ms], s2 [500 ms] WHERE s1.room = s2.room"


@dataclass(frozen=True)
class Sourced:
    """Streams that say which source a tuple is from."""

    make: Callable[[int], tuple[str, dict[str, pa.Table]]]
    """The query, and the streams of a seed."""
    source: str
    """Column with the source."""
    tick: int = 100
    """Milliseconds."""
    seeded: bool = True


def _recorded(name: str, seed: int) -> tuple[str, dict[str, pa.Table]]:
    case = CASES[name]
    data = case.make(seed)
    return case.query or data.query, {stream: data.table(stream) for stream in data.streams}


def _table(ts: Int64s, arrival: Int64s, device: Int64s, room: Int64s) -> pa.Table:
    order = np.argsort(arrival, kind="stable")
    columns = {"ts": ts, "arrival": arrival, "device": device, "room": room}
    return pa.table({name: column[order] for name, column in columns.items()})


def many_devices(
    seed: int, *, n: int = 5_000, every: int = 5_000, minutes: int = 15
) -> tuple[str, dict[str, pa.Table]]:
    """Two streams of ``n`` devices each, of which some fall silent and some die.

    A device sends every ``every`` milliseconds. A hundred devices share a gateway. Once a minute a
    gateway of a stream falls silent for two to twenty seconds; in every second or so a single
    device does. What was held back then comes at once. One device in a hundred dies on the way.
    """
    random = np.random.default_rng(seed)
    length = minutes * MINUTE
    tables = {}
    for name in ("s1", "s2"):
        phase = random.integers(0, every, n)
        times = (phase[:, np.newaxis] + np.arange(0, length, every)).ravel()
        device = np.repeat(np.arange(n), len(times) // n)
        dies = np.where(random.random(n) < 0.01, random.integers(0, length, n), 2 * length)
        alive = times < dies[device]
        times, device = times[alive], device[alive]
        arrival = times + np.ceil(random.exponential(20, len(times))).astype(np.int64)
        silent = [(random.integers(0, n // 100), True) for _ in range(minutes)]
        silent += [(random.integers(0, n), False) for _ in range(minutes * 60)]
        for number, (who, is_gateway) in enumerate(silent):
            begin = number % minutes * MINUTE + random.integers(0, MINUTE)
            end = begin + int(random.uniform(2_000, 20_000))
            mine = device // 100 == who if is_gateway else device == who
            held = mine & (times >= begin) & (times < end)
            arrival[held] = np.maximum(arrival[held], end + (times[held] - begin) // 50)
        tables[name] = _table(times, arrival, device, random.integers(0, 50, len(times)))
    return QUERY, tables


def irregular_devices(
    seed: int, *, n: int = 20, minutes: int = 15
) -> tuple[str, dict[str, pa.Table]]:
    """Two streams of ``n`` devices each that send when they have something to say.

    The time between two tuples of a device is exponential, its mean from a tenth of a second to a
    minute. Nobody can see from a silence whether tuples are held back. Once a minute a device of
    each stream holds its tuples back for one to ten seconds.
    """
    random = np.random.default_rng(seed)
    length = minutes * MINUTE
    means = np.geomspace(100, MINUTE, n)
    tables = {}
    for name in ("s1", "s2"):
        parts = []
        for device, mean in enumerate(means):
            gaps = np.ceil(random.exponential(mean, int(2 * length / mean) + 50)).astype(np.int64)
            times = np.cumsum(gaps)
            times = times[times < length]
            arrival = times + np.ceil(random.exponential(20, len(times))).astype(np.int64)
            parts.append((times, arrival, np.full(len(times), device)))
        times, arrival, devices = (np.concatenate(each) for each in zip(*parts, strict=True))
        for minute in range(minutes):
            begin = minute * MINUTE + random.integers(0, MINUTE)
            end = begin + int(random.uniform(1_000, 10_000))
            held = (devices == random.integers(0, n)) & (times >= begin) & (times < end)
            arrival[held] = np.maximum(arrival[held], end + (times[held] - begin) // 50)
        tables[name] = _table(times, arrival, devices, random.integers(0, 4, len(times)))
    return QUERY, tables


SOURCED = {
    "umts-1": Sourced(lambda seed: _recorded("umts-1 ticks", seed), "device", seeded=False),
    "umts-2": Sourced(lambda seed: _recorded("umts-2 ticks", seed), "device", seeded=False),
    "match": Sourced(lambda seed: _recorded("match", seed), "sensor"),
    "many": Sourced(many_devices, "device"),
    "irregular": Sourced(irregular_devices, "device"),
}
"""All data, by name."""


@lru_cache(maxsize=2)
def streams_of(name: str, seed: int) -> tuple[BoundQuery, Arrivals]:
    """The streams of one seed, ready for the engine; the query names no sources."""
    query, tables = SOURCED[name].make(seed)
    return prepare(f"{query} WITH RECALL 0.95 OVER 1 MINUTE", tables)


def with_sources(query: BoundQuery, column: str) -> BoundQuery:
    """The query with a source in every stream."""
    streams = tuple(replace(stream, source=column) for stream in query.streams)
    return replace(query, streams=streams)

"""Profiles of a real run, for tests that need some."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from recalljoin.datasets import make_syn_x3
from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.quality.profiling import follow_tuples, no_clocks, profile_of
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from recalljoin.datasets import Synthetic
    from recalljoin.quality.profile import Profile
    from recalljoin.query.bound_query import BoundQuery

SETTINGS = PolicySettings(windows=(5000,) * 3, recall=0.95, period=5000)


@functools.cache
def bound_and_arrivals(dataset: Synthetic) -> tuple[BoundQuery, Arrivals]:
    """A generated input, counted over, ready for the engine."""
    tables = {name: dataset.table(name) for name in dataset.streams}
    written = parse_query(dataset.query)
    streams = tuple(replace(stream, arrival="arrival") for stream in written.streams)
    query = replace(written, streams=streams, select="count(*)")
    bound = query.bind({name: table.schema for name, table in tables.items()})
    return bound, arrivals_of(bound, tables)


@functools.cache
def a_run_of_profiles(k: int = 100) -> tuple[Profile, ...]:
    """The first 15 seconds of three streams, second by second."""
    bound, arrivals = bound_and_arrivals(make_syn_x3(seed=5, duration=15_000))
    pipeline = Pipeline(bound, EngineSettings(rows=False, slack=True))
    arrived, clocks = follow_tuples(arrivals.stream, arrivals.ts, before=no_clocks(3))
    profiles = []
    before = no_clocks(3)
    for begin in range(0, len(arrivals), 300):
        _, step = drain(pipeline.push(arrivals.slice(begin, begin + 300), k=k))
        part = arrived.take(slice(begin, begin + 300))
        windows = SETTINGS.windows
        profiles.append(profile_of(step, part, granularity=10, before=before, windows=windows))
        before = clocks.local[:, begin + 299]
    return tuple(profiles)

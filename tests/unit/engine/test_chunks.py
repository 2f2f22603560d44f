"""What a pipeline rebuilt from chunks keeps, on small cases worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.chunks import Chunk, is_over, last_in_window, rebuild
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.engine.times import NEVER
from recalljoin.query.model import Query, Stream
from tests.unit.engine.inputs import bound, rows_of

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

QUERY = bound(windows=(5, 5))
SETTINGS = EngineSettings(arrival="tick", retention=10)


def after(*ticks: list[tuple[int, int, int]]) -> tuple[Pipeline, list[Chunk]]:
    """A pipeline without slack that has seen these ticks, and its chunks."""
    pipeline = Pipeline(QUERY, SETTINGS)
    chunks = []
    for rows in ticks:
        arrivals = rows_of(QUERY, rows)
        times = tuple(arrivals.ts[arrivals.stream == s] for s in range(2))
        chunks.append(Chunk(arrivals.tables, times, pipeline.clocks))
        tick = np.zeros(len(arrivals), dtype=np.int64)
        drain(pipeline.push_ticks(arrivals, tick, n_ticks=1, k=0))
    return pipeline, chunks


@pytest.mark.parametrize(("ts", "n_kept"), [(85, 3), (84, 2)])
def test_a_late_tuple_the_join_did_not_keep_is_not_put_back(ts: int, n_kept: int) -> None:
    # The watermark stands at 100, window and retention reach back to 85.
    pipeline, chunks = after([(1, 100, 1), (2, 100, 1)], [(1, ts, 1)])
    assert pipeline.n_kept == n_kept
    again = rebuild(QUERY, SETTINGS, chunks, pipeline.clocks, pipeline.remembered)
    assert again.n_kept == n_kept


def test_a_chunk_is_in_windows_until_its_youngest_tuple_has_left_them() -> None:
    _, chunks = after([(1, 100, 1), (2, 90, 1)], [(1, 20, 1)], [])
    # A late tuple stays as long as if it had come in order just when it came.
    last = [last_in_window(QUERY, chunk) for chunk in chunks]
    assert last == [105, 95, NEVER]


def test_a_chunk_is_over_once_the_horizon_has_passed_too() -> None:
    assert not is_over(105, 10, 115)
    assert is_over(105, 10, 116)
    assert not is_over(105, 20, 116)
    assert is_over(NEVER, 10, NEVER)


@pytest.mark.parametrize("select", ["*", "count(*)"])
def test_a_rebuilt_pipeline_has_an_index_for_its_keys_and_not_for_its_tuples(select: str) -> None:
    # A tuple of each stream each ms, all of them kept, and 50 keys.
    schema = pa.schema({"ts": pa.int64(), "key": pa.int64()})
    streams = [Stream(name, window=5) for name in ("s1", "s2")]
    query = Query(streams=streams, condition="s1.key = s2.key", select=select)
    joined = query.bind({"s1": schema, "s2": schema})
    settings = EngineSettings(arrival="tick", retention=1_000_000)
    pipeline, chunks = Pipeline(joined, settings), []
    for begin in range(0, 100_000, 10_000):
        ts = np.arange(begin, begin + 10_000)
        table = pa.table({"ts": ts, "key": ts % 50}, schema=schema)
        chunks.append(Chunk((table, table), (ts, ts), pipeline.clocks))
        arrivals = arrivals_of(joined, {"s1": table, "s2": table})
        tick = np.zeros(len(arrivals), dtype=np.int64)
        drain(pipeline.push_ticks(arrivals, tick, n_ticks=1, k=0))
    again = rebuild(joined, settings, chunks, pipeline.clocks, pipeline.remembered)
    assert again.n_kept == pipeline.n_kept == 200_000
    for before, after in zip(_indexes(pipeline), _indexes(again), strict=True):
        assert len(after) <= 4 * len(before)


def _indexes(pipeline: Pipeline) -> list[Int64s]:
    windows = pipeline.operator.windows
    return [windows.chains.entries, windows.slots.table, windows.slots.buckets]

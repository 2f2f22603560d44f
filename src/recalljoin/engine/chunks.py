"""State of a tick-mode pipeline as chunks that are written once: one chunk a tick.

What a tuple carries (delay, base time, being late) follows from the clocks after the tick before
its own. Whether the tuple is still buffered follows from the present watermark. A chunk therefore
holds the clocks after the tick before, and the tick's tuples as they came, without tuples that
nobody can need any more. A tick appends one chunk and drops the chunks that nobody can need.
Nothing is rewritten, and a pipeline is rebuilt from chunks and present clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals
from recalljoin.engine.operator import STRETCH
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.progress import Advance
from recalljoin.engine.queues import push_all, with_room
from recalljoin.engine.rings import Sequence
from recalljoin.engine.step import drain
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.query.kinds import PRESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.pending import Pending
    from recalljoin.engine.progress import Clocks, Remembered
    from recalljoin.engine.settings import EngineSettings
    from recalljoin.query.bound_query import BoundQuery


@dataclass(frozen=True)
class Chunk:
    """The tuples of one tick; tuples that are no longer needed may be missing."""

    tables: tuple[pa.Table, ...]
    """For each stream its rows, in order of arrival."""
    times: tuple[Int64s, ...]
    """For each stream the timestamps of its rows."""
    before: Clocks
    """The clocks after the tick before."""
    number: int = 0
    """Number of the tick; the tuples of one tick may be divided over several chunks."""
    remembered: Remembered | None = None
    """How far back tuples were kept in the tick; needed only by joins whose tuples carry notes."""


def _reaches(query: BoundQuery) -> Int64s:
    """For each stream how long its tuples matter after they have been seen, retention aside.

    Whether a tuple has a partner follows from the partner, which must outlast the tuple.
    """
    windows = np.array([stream.window for stream in query.streams], dtype=np.int64)
    if query.how == "inner":
        return windows
    return windows + max(int(windows[s]) for s in PRESERVED[query.how])


def last_in_window(query: BoundQuery, chunk: Chunk) -> int:
    """The watermark after which no tuple of the chunk is in a window; NEVER for an empty chunk.

    A late tuple counts from the watermark it missed, as in the windows. The retention, which may
    change, says how long the chunk is needed after the returned watermark.
    """
    last = NEVER
    for reach, ts in zip(_reaches(query).tolist(), chunk.times, strict=True):
        if len(ts):
            now = max(int(ts.max()), chunk.before.watermark)
            last = max(last, now + reach)
    return last


def is_over(last: int, retention: int, watermark: int) -> bool:
    """Whether a chunk that was in windows until ``last`` can no longer be needed."""
    return last == NEVER or last + retention < watermark


def needed_at(
    query: BoundQuery, retention: int, chunk: Chunk, watermark: int
) -> list[NDArray[np.bool_]]:
    """For each stream, which tuples of the chunk can still be needed at the watermark."""
    return [
        _is_needed(np.maximum(ts, chunk.before.watermark), reach + retention, watermark)
        for reach, ts in zip(_reaches(query).tolist(), chunk.times, strict=True)
    ]


def _is_needed(seen: Int64s, reach: int | Int64s, watermark: int) -> NDArray[np.bool_]:
    """Whether tuples the join has seen at some time are in window or horizon at the watermark."""
    # A reach cannot be added to minus or plus infinity.
    needed: NDArray[np.bool_] = seen >= max(min(watermark, FOREVER // 2), NEVER // 2) - reach
    return needed


def rebuild(
    query: BoundQuery,
    settings: EngineSettings,
    chunks: Iterable[Chunk],
    now: Clocks,
    remembered: Remembered,
) -> Pipeline:
    """The pipeline that has taken in these chunks and stands at ``now``.

    Parameters
    ----------
    query, settings
        What the pipeline was made with; arrival by ticks.
    chunks
        In the order of their ticks; chunks that are no longer needed may be missing.
    now
        The clocks after the last tick.
    remembered
        How far back the pipeline's memory goes by now. Chunks may hold tuples that the pipeline
        had forgotten; no result that is counted has such a tuple.
    """
    pipeline = Pipeline(query, settings)
    chunks = list(chunks)
    if len(pipeline.operator.windows.notes):
        _join_again(pipeline, chunks, now)
    now.put_into(pipeline.progress)
    pipeline.operator.windows.remembered = remembered
    if not chunks or len(pipeline.operator.windows.notes):
        return pipeline
    arrivals = _all_arrivals(query, chunks)
    tick = _ticks(chunks, pipeline.m)
    pending = pipeline._prepared(arrivals)
    local = np.array([chunk.before.local_times for chunk in chunks], dtype=np.int64)
    base = np.array([chunk.before.base_time for chunk in chunks], dtype=np.int64)
    missed = np.array([chunk.before.watermark for chunk in chunks], dtype=np.int64)
    local_before = local[tick, pending.stream]
    delay = np.where(local_before > pending.ts, local_before - pending.ts, 0)
    pending = pending._replace(delay=delay, base=base[tick])
    late = pending.ts <= missed[tick]
    waits = ~late & (pending.ts > now.watermark)

    (waiting,) = np.nonzero(waits)
    queues = with_room(pipeline.ticks.queues, len(waiting))
    push_all(queues, pending.stream[waiting].astype(np.int64), pending.ts[waiting])
    pipeline.ticks.queues = queues

    seen = np.where(late, missed[tick], pending.ts)
    kept = ~waits
    sizes = np.array([stream.window for stream in query.streams], dtype=np.int64)
    reach = sizes[pending.stream] + remembered.retention
    # Tuples the join did not keep because they were too late even for counting.
    kept &= ~late | (pending.ts >= seen - reach)
    kept &= _is_needed(seen, reach, now.watermark)
    (kept_ids,) = np.nonzero(kept)
    # The join received a late tuple after all tuples that had made it late, and the late tuples of
    # one tick by their time. Numbers in `pending` grow with (tick, stream, arrival), which is the
    # order among tuples of equal time.
    by_time = np.where(late, pending.ts, 0)
    by_tick = np.where(late, tick, 0)
    order = np.lexsort((by_time[kept_ids], by_tick[kept_ids], late[kept_ids], seen[kept_ids]))
    _remember(pipeline, kept_ids[order], seen, late, pending)
    pipeline.pending = pending.taken(waiting)
    return pipeline


def _join_again(pipeline: Pipeline, chunks: list[Chunk], now: Clocks) -> None:
    """Let the ticks pass once more, as they passed before; their rows have left already.

    What is noted on a tuple follows from the tuples that it has met.
    """
    ticks = [list(same) for _, same in groupby(chunks, key=lambda c: (c.number, c.before))]
    operator = pipeline.operator
    # Nobody takes the rows, which need not be made.
    wanted, operator.rows = operator.rows, False
    # Where a tick began, the tick before had ended.
    begins = [tick[0].before.watermark for tick in ticks] + [now.watermark]
    for tick, watermark in zip(ticks, begins[1:], strict=True):
        before = tick[0].before
        before.put_into(pipeline.progress)
        pipeline.progress.watermark = watermark
        if tick[0].remembered is not None:
            operator.windows.remembered = tick[0].remembered
        arrivals = _all_arrivals(pipeline.query, tick)
        advance = Advance(
            np.array([before.local_times], dtype=np.int64),
            np.array([before.base_time], dtype=np.int64),
            before.watermark,
            np.array([watermark], dtype=np.int64),
            np.array([before.front, before.front], dtype=np.int64),
        )
        order = np.argsort(arrivals.stream, kind="stable")
        by_stream = Arrivals(
            arrivals.tables, arrivals.stream[order], arrivals.row[order], arrivals.ts[order]
        )
        tick_of = np.zeros(len(by_stream), dtype=np.int64)
        drain(pipeline._push_advance(by_stream, tick_of, advance))
    operator.rows = wanted


def _remember(
    pipeline: Pipeline, ids: Int64s, seen: Int64s, late: NDArray[np.bool_], pending: Pending
) -> None:
    part = pending.taken(ids)
    sequence = Sequence(
        part.stream, part.ts, seen[ids], part.base, part.base, part.row, late[ids], part.joinable,
        part.codes,
    )  # fmt: skip
    windows = pipeline.operator.windows
    # An index has room for as many new keys as tuples come at once, and nothing makes it smaller.
    for begin in range(0, len(ids), STRETCH):
        stretch = slice(begin, begin + STRETCH)
        some = sequence.part(stretch)
        windows.make_room(np.bincount(some.stream, minlength=pipeline.m))
        records = windows.remember(some, np.arange(begin, begin + len(some.ts), dtype=np.int64))
        windows.values[:, records] = part.values[:, stretch]
    pipeline.operator.n_received = len(ids)


def _all_arrivals(query: BoundQuery, chunks: list[Chunk]) -> Arrivals:
    """All tuples, ordered by tick and stream as the pipeline orders them."""
    m = len(query.streams)
    tables = tuple(pa.concat_tables([chunk.tables[s] for chunk in chunks]) for s in range(m))
    stream, row, ts = [], [], []
    n_seen = [0] * m
    for chunk in chunks:
        for s, times in enumerate(chunk.times):
            stream.append(np.full(len(times), s, dtype=np.int8))
            row.append(np.arange(n_seen[s], n_seen[s] + len(times)))
            ts.append(times)
            n_seen[s] += len(times)
    return Arrivals(tables, np.concatenate(stream), np.concatenate(row), np.concatenate(ts))


def _ticks(chunks: list[Chunk], m: int) -> Int64s:
    lengths = [len(chunk.times[s]) for chunk in chunks for s in range(m)]
    return np.repeat(np.repeat(np.arange(len(chunks)), m), lengths)

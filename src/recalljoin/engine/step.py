"""What a pipeline tells of the tuples that reached the join in one call."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrays import added

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s


_MOST_WAITING = 4
"""How many pieces of results instances may put out before the caller takes one."""
_LONG_ROUND = 0.04
"""Processor seconds of all instances together from which on threads are faster."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Told:
    """What verdicts have brought, by the times of the rows (:mod:`recalljoin.engine.verdicts`)."""

    pairs: bool
    """Whether pairs are rows of the join, too."""
    nulls: Int64s
    """Rows of tuples without a partner that have left."""
    false_nulls: Int64s
    """Rows of these, and of earlier steps, of which a partner came after all."""
    lost_nulls: Int64s
    """Tuples without a partner that came too late to leave."""
    found_nulls: Int64s
    """Tuples of these, and of earlier steps, of which a partner came after all."""
    semi: Int64s
    """Rows of tuples that have left because they have a partner."""
    lost_semi: Int64s
    """Tuples of which all results were lost."""
    needs: Int64s
    """What each K would have given (:data:`recalljoin.engine.verdicts.UNMATCHED`)."""
    false_rows: tuple[pa.Table, ...]
    """For each stream its tuples that were in ``false_nulls``."""

    @property
    def produced(self) -> tuple[Int64s, Int64s]:
        """Times of rows other than pairs, and how many; false nulls are taken back."""
        return _signed((self.nulls, self.semi), (self.false_nulls,))

    @property
    def lost(self) -> tuple[Int64s, Int64s]:
        """Times of lost rows other than pairs, and how many."""
        return _signed((self.lost_nulls, self.lost_semi), (self.found_nulls,))


def together(told: Sequence[Told | None]) -> Told | None:
    """What the verdicts of several instances have brought."""
    known = [each for each in told if each is not None]
    if not known:
        return None

    def times(name: str) -> Int64s:
        return np.concatenate([getattr(each, name) for each in known])

    return Told(
        pairs=known[0].pairs,
        nulls=times("nulls"),
        false_nulls=times("false_nulls"),
        lost_nulls=times("lost_nulls"),
        found_nulls=times("found_nulls"),
        semi=times("semi"),
        lost_semi=times("lost_semi"),
        needs=reduce(added, [each.needs for each in known]),
        false_rows=tuple(
            pa.concat_tables(rows) for rows in zip(*(e.false_rows for e in known), strict=True)
        ),
    )


def _signed(plus: tuple[Int64s, ...], minus: tuple[Int64s, ...]) -> tuple[Int64s, Int64s]:
    ts = np.concatenate((*plus, *minus))
    n = np.ones(len(ts), dtype=np.int64)
    n[sum(map(len, plus)) :] = -1
    return ts, n


def _no_ticks() -> Int64s:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Step:
    """What happened between two calls, tuple by tuple in the order of the join sequence."""

    stream: NDArray[np.int8]
    ts: Int64s
    row: Int64s
    """Number of the tuple in its stream, by arrival."""
    delay: Int64s
    base: Int64s
    """Base time at arrival, before the tuple was counted."""
    now: Int64s
    """How far the join had come when it received the tuple."""
    late: NDArray[np.bool_]
    n_join: Int64s
    """Results produced by an in-order tuple, or lost with a late one."""
    n_cross: Float64s
    """Results of the cross join, for in-order tuples."""
    beyond: NDArray[np.bool_]
    """Late tuples beyond the retention horizon; results lost with them are not known."""
    lost_ts: Int64s
    """Times of lost rows, which may repeat; ``lost_n`` has the number for each."""
    lost_n: Int64s
    slack: Int64s
    """``[produced or lost, bin]`` of required slack (:mod:`recalljoin.engine.slack_bins`)."""
    join_time: int
    """How far the join has come: its largest timestamp, or the watermark in tick mode."""
    base_time: int
    counted_since: int
    """The edge of the retention horizon: losses with earlier tuples are not counted."""
    tick_span: int = 0
    """Largest advance of the slowest stream within one tick; 0 where tuples arrive one by one."""
    n_uncomputable: int = 0
    """How often a condition could not be computed, because of an overflow or a division by zero.
    The candidate then does not match."""
    told: Told | None = None
    """What verdicts have brought; None for an inner join."""
    fronts: Int64s = field(default_factory=_no_ticks)
    """Clock of the slowest stream before the first tick and after each; none without ticks."""
    watermarks: Int64s = field(default_factory=_no_ticks)
    """Watermark after each tick."""

    @property
    def produced(self) -> tuple[Int64s, Int64s]:
        """Times of the rows produced, which may repeat, and how many at each.

        A row that has left in error is taken back when that is known.
        """
        pairs = self.ts, self.n_join
        if self.late.any():
            pairs = self.ts[~self.late], self.n_join[~self.late]
        if self.told is None:
            return pairs
        if not self.told.pairs:
            return self.told.produced
        (ts, n), (more, n_more) = pairs, self.told.produced
        return np.concatenate((ts, more)), np.concatenate((n, n_more))

    @property
    def n_produced(self) -> int:
        """Rows produced, without those that have left in error."""
        return int(self.produced[1].sum())

    @property
    def n_left(self) -> int:
        """Rows that have left, right or wrong."""
        return self.n_produced + (0 if self.told is None else len(self.told.false_nulls))

    @property
    def n_lost(self) -> int:
        """Rows lost for good, as far as the retention horizon allows counting."""
        return int(self.lost_n.sum())

    @property
    def n_late(self) -> int:
        """Tuples that reached the join out of order."""
        return int(self.late.sum())


def drain(steps: Generator[pa.RecordBatch, None, _T]) -> tuple[list[pa.RecordBatch], _T]:
    """All results in one list, and what ``steps`` returns; for inputs known to be small."""
    batches = []
    while True:
        try:
            batches.append(next(steps))
        except StopIteration as end:
            return batches, end.value


class Rounds:
    """Rounds of work of several operator instances, side by side where that is faster.

    Threads that hold the interpreter's lock in turn wait for it longer than a short round takes.
    So instances work one after the other, until a round has taken long enough.
    """

    def __init__(self) -> None:
        self._seconds = 0.0

    def run(
        self, works: Sequence[Generator[pa.RecordBatch, None, _T]]
    ) -> Generator[pa.RecordBatch, None, list[_T]]:
        """One round: yields results as they come, and returns what each instance returns."""
        is_long, self._seconds = self._seconds > _LONG_ROUND, 0.0
        timed = [self._timed(work) for work in works]
        if is_long:
            returned = yield from side_by_side(timed)
        else:
            returned = []
            for work in timed:
                returned.append((yield from work))
        return returned

    def _timed(
        self, work: Generator[pa.RecordBatch, None, _T]
    ) -> Generator[pa.RecordBatch, None, _T]:
        while True:
            begin = time.thread_time()
            try:
                results = next(work)
            except StopIteration as end:
                returned: _T = end.value
                return returned
            finally:
                self._seconds += time.thread_time() - begin
            yield results


def side_by_side(
    works: Sequence[Generator[pa.RecordBatch, None, _T]],
) -> Generator[pa.RecordBatch, None, list[_T]]:
    """Let several operator instances work at once, as threads of this process.

    Yields results as they come, in the order of each instance, and returns what each instance
    returns. Kernels run outside the interpreter's lock, so that each instance can use a core. If an
    instance fails or the caller gives up, the other instances stop at their next piece of results.
    """
    if len(works) == 1:
        only = yield from works[0]
        return [only]
    stopped = threading.Event()
    done: queue.Queue[tuple[int, bool, object]] = queue.Queue(_MOST_WAITING)

    def put(number: int, is_end: bool, item: object) -> None:
        while not stopped.is_set():
            try:
                done.put((number, is_end, item), timeout=0.5)
            except queue.Full:
                continue
            return

    def work(number: int) -> None:
        try:
            while not stopped.is_set():
                try:
                    results = next(works[number])
                except StopIteration as end:
                    put(number, True, end.value)
                    return
                put(number, False, results)
        except BaseException as error:
            put(number, True, _Failed(error))

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(works))]
    for thread in threads:
        thread.start()
    returned: dict[int, _T] = {}
    try:
        while len(returned) < len(works):
            number, is_end, item = done.get()
            if isinstance(item, _Failed):
                raise item.error
            if is_end:
                returned[number] = item  # type: ignore[assignment]
            else:
                yield item
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    return [returned[number] for number in range(len(works))]


@dataclass(frozen=True)
class _Failed:
    error: BaseException

"""Disorder handling: which tuples reach the join operator now, and in which order.

There is one component for each mode of arrival. Both turn arrivals into the *join sequence*:

* :class:`TupleDisorder`: K-slack and Synchronizer as published (paper, Sec. III, Alg. 1);
* :class:`TickDisorder`: all tuples of a tick are there at once, and leave when the watermark
  passes them.

Both components know timestamps and arrival numbers only. The caller gives out arrival numbers
(``id``), which grow with arrival and come back when the tuple leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import inlined, lean
from recalljoin.engine.queues import (
    EMPTY,
    FRONT_ID,
    FRONT_TS,
    Queues,
    drop_front,
    empty_queues,
    n_held,
    push,
    with_room,
)
from recalljoin.engine.times import NEVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s


class Released(NamedTuple):
    """A stretch of the join sequence."""

    id: Int64s
    """Arrival numbers, in the order the join operator receives them."""
    late: NDArray[np.bool_]
    """Out of order at the join operator."""
    now: Int64s
    """Join time after each tuple; for a late tuple of tick mode, the watermark it missed."""

    def up_to(self, n: int) -> Released:
        """The first ``n`` tuples."""
        return Released(self.id[:n], self.late[:n], self.now[:n])


class Annotations(NamedTuple):
    """What every arriving tuple carries through the buffers."""

    delay: Int64s
    """Local time of its stream after its arrival, minus its timestamp."""
    base: Int64s
    """Base time just before its arrival; :data:`NEVER` until every stream has arrived."""
    n_left: Int64s
    """How many tuples have left in the same push before this tuple arrived."""


def slack_in_effect(
    released: Released, annotations: Annotations, k: Int64s, base_time: int
) -> Int64s:
    """Slack in effect when each tuple reached the join; 0 for tuples in order.

    The slack in effect is the K of the arrival that released the tuple, unless K has just risen.
    After a rise the base time is less than K ahead of the join time, which does not go back, and
    that distance is the slack in effect. ``base_time`` is the base time after all tuples.
    """
    in_effect = np.zeros(len(released.id), dtype=np.int64)
    (late,) = np.nonzero(released.late)
    if len(late):
        let_go_by = np.searchsorted(annotations.n_left, late, side="right") - 1
        next_one = np.minimum(let_go_by + 1, len(k) - 1)
        base = np.where(let_go_by == next_one, base_time, annotations.base[next_one])
        in_effect[late] = np.clip(base - released.now[late], 0, k[let_go_by])
    return in_effect


@dataclass
class TupleDisorder:
    """K-slack for each stream, then the Synchronizer (per-tuple arrival).

    Parameters
    ----------
    m
        Number of streams.
    """

    m: int

    def __post_init__(self) -> None:
        self.local_times = np.full(self.m, NEVER, dtype=np.int64)
        # Rows 0..m-1 are the K-slack buffers, rows m..2m-1 the Synchronizer's buffers, by stream.
        self.queues = empty_queues(2 * self.m)
        # T_sync of Alg. 1 and the join time, the largest ts the join operator has received.
        self.clocks = np.full(2, NEVER, dtype=np.int64)

    @property
    def join_time(self) -> int:
        """Largest timestamp the join operator has received."""
        return int(self.clocks[1])

    @property
    def base_time(self) -> int:
        """Local time of the slowest stream."""
        return int(self.local_times.min())

    def push(
        self, stream: NDArray[np.int8], ts: Int64s, first_id: int, *, k: Int64s
    ) -> tuple[Released, Annotations]:
        """Let tuples arrive one by one; ``k[i]`` is the slack in force when tuple ``i`` arrives."""
        n = len(ts)
        released = _room_for(n + self.n_buffered)
        annotations = Annotations(*(np.empty(n, dtype=np.int64) for _ in range(3)))
        at, count = 0, 0
        while at < n:
            # A tuple that moves on from K-slack needs room in the Synchronizer as well.
            self.queues = with_room(self.queues, self.n_buffered + 1)
            at, count = _arrive(
                stream, ts, first_id, k, self.local_times, self.queues, self.n_buffered,
                self.clocks, *released, *annotations, at, count,
            )  # fmt: skip
        return released.up_to(count), annotations

    def flush(self) -> Released:
        """End of input: all buffered tuples leave together in (ts, arrival) order."""
        room = self.n_buffered
        released = _room_for(room)
        _leave_together(self.queues, self.clocks, *released)
        return released

    @property
    def n_buffered(self) -> int:
        """Tuples held in all buffers."""
        return n_held(self.queues)


@dataclass
class TickDisorder:
    """Buffers that are emptied up to the watermark at the end of each tick.

    Each stream has its own buffer, as one stream is more in order than all streams together.

    Parameters
    ----------
    m
        Number of streams.
    """

    m: int

    def __post_init__(self) -> None:
        self.queues = empty_queues(self.m)

    def push(
        self,
        tick: Int64s,
        stream: NDArray[np.int8],
        ts: Int64s,
        first_id: int,
        *,
        before: int,
        watermarks: Int64s,
    ) -> Released:
        """Let whole ticks arrive.

        Parameters
        ----------
        tick
            For each tuple its tick as an index into ``watermarks``, never falling; within a tick
            tuples are ordered by stream, then arrival.
        stream, ts, first_id
            Streams and times of the tuples, and the arrival number of the first tuple.
        before
            The watermark before the first of the ticks.
        watermarks
            The watermark after each tick, never falling.
        """
        self.queues = with_room(self.queues, int(np.bincount(stream, minlength=1).max()))
        room = len(ts) + self.n_buffered
        released = _room_for(room)
        count = _arrive_in_ticks(
            tick, stream, ts, first_id, before, watermarks, self.queues, *released
        )
        released = released.up_to(count)
        (late,) = np.nonzero(released.late)
        if len(late):
            # Late tuples of one tick go by their time. Which tuple a lost result is counted at then
            # does not depend on the order in which tasks have sent the tuples.
            ids = released.id[late]
            at = ids - first_id
            released.id[late] = ids[np.lexsort((ts[at], tick[at]))]
        return released

    @property
    def n_buffered(self) -> int:
        """Tuples held back by the watermark."""
        return n_held(self.queues)


def _room_for(n: int) -> Released:
    return Released(
        np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    )


@lean
def _arrive(
    stream: NDArray[np.int8],
    ts: Int64s,
    first_id: int,
    k: Int64s,
    local_times: Int64s,
    queues: Queues,
    n_buffered: int,
    clocks: Int64s,
    out_id: Int64s,
    out_late: NDArray[np.bool_],
    out_now: Int64s,
    out_delay: Int64s,
    out_base: Int64s,
    out_left: Int64s,
    start: int,
    count: int,
) -> tuple[int, int]:
    """Let tuples arrive from ``start`` on; return where that stopped and how many have left.

    Arrival stops early only when all buffered tuples together might not fit one queue.
    """
    m = len(local_times)
    state = queues.state
    base = _smallest(local_times)
    # Arrivals are never more than this number ahead of departures.
    room = queues.run.shape[1] - n_buffered + start - count
    for i in range(start, len(ts)):
        if i - count >= room:
            return i, count
        s = int(stream[i])
        out_base[i] = base
        out_left[i] = count
        push(queues, s, ts[i], first_id + i)
        was = local_times[s]
        if ts[i] <= was:
            out_delay[i] = was - ts[i]
            continue
        out_delay[i] = 0
        local_times[s] = ts[i]
        if was == base:
            base = _smallest(local_times)
        # K-slack: only growth releases, everything with ts + K <= local time.
        limit = ts[i] - k[i]
        while state[s, FRONT_TS] <= limit:
            released, number = state[s, FRONT_TS], state[s, FRONT_ID]
            drop_front(queues, s)
            count = _synchronize(
                queues, m, s, released, number, clocks, out_id, out_late, out_now, count
            )
    return len(ts), count


@inlined
def _smallest(times: Int64s) -> int:
    smallest: int = times[0]
    for time in times:
        smallest = min(smallest, time)
    return smallest


@inlined
def _synchronize(
    queues: Queues,
    m: int,
    s: int,
    ts: int,
    number: int,
    clocks: Int64s,
    out_id: Int64s,
    out_late: NDArray[np.bool_],
    out_now: Int64s,
    count: int,
) -> int:
    """Alg. 1 for one tuple that leaves K-slack."""
    if ts <= clocks[0]:
        return _emit(ts, number, clocks, out_id, out_late, out_now, count)
    state = queues.state
    waited_for_s = state[m + s, FRONT_TS] == EMPTY
    push(queues, m + s, ts, number)
    if not waited_for_s:
        # Another stream is still missing, or the loop below would have emptied this buffer.
        return count
    while True:
        # First the smallest time, then the smallest number there: two loops without branches.
        earliest, latest = EMPTY, NEVER
        for j in range(m, 2 * m):
            earliest = min(earliest, state[j, FRONT_TS])
            latest = max(latest, state[j, FRONT_TS])
        # Once begun, all tuples of one timestamp leave, in order of arrival over all streams,
        # even if a stream runs out on the way. New tuples are later than T_sync, so a tuple at
        # T_sync shows that tuples of its timestamp have begun to leave.
        if earliest == EMPTY or (latest == EMPTY and earliest != clocks[0]):
            return count
        chosen, smallest = -1, EMPTY
        for j in range(m, 2 * m):
            if state[j, FRONT_TS] == earliest and state[j, FRONT_ID] < smallest:
                chosen, smallest = j, state[j, FRONT_ID]
        clocks[0] = earliest
        drop_front(queues, chosen)
        count = _emit(earliest, smallest, clocks, out_id, out_late, out_now, count)


@inlined
def _emit(
    ts: int,
    number: int,
    clocks: Int64s,
    out_id: Int64s,
    out_late: NDArray[np.bool_],
    out_now: Int64s,
    count: int,
) -> int:
    out_id[count] = number
    out_late[count] = ts < clocks[1]
    clocks[1] = max(clocks[1], ts)
    out_now[count] = clocks[1]
    return count + 1


@inlined
def _first(state: Int64s) -> int:
    """The queue with the earliest tuple, by arrival among equal times; -1 if all are empty."""
    chosen, earliest, smallest = -1, EMPTY, EMPTY
    for row in range(len(state)):
        ts, number = state[row, FRONT_TS], state[row, FRONT_ID]
        if ts < earliest or (ts == earliest and number < smallest):
            chosen, earliest, smallest = row, ts, number
    return chosen


@lean
def _leave_together(
    queues: Queues, clocks: Int64s, out_id: Int64s, out_late: NDArray[np.bool_], out_now: Int64s
) -> None:
    state = queues.state
    for count in range(len(out_id)):
        row = _first(state)
        ts, number = state[row, FRONT_TS], state[row, FRONT_ID]
        drop_front(queues, row)
        _emit(ts, number, clocks, out_id, out_late, out_now, count)
    clocks[0] = max(clocks[0], clocks[1])


@lean
def _arrive_in_ticks(
    tick: Int64s,
    stream: NDArray[np.int8],
    ts: Int64s,
    first_id: int,
    before: int,
    watermarks: Int64s,
    queues: Queues,
    out_id: Int64s,
    out_late: NDArray[np.bool_],
    out_now: Int64s,
) -> int:
    state = queues.state
    count = 0
    i = 0
    previous = before
    for n in range(len(watermarks)):
        # Late tuples go first, to be in the windows when this tick's released tuples probe.
        while i < len(ts) and tick[i] == n:
            if ts[i] <= previous:
                out_id[count] = first_id + i
                out_late[count] = True
                out_now[count] = previous
                count += 1
            else:
                push(queues, int(stream[i]), ts[i], first_id + i)
            i += 1
        previous = watermarks[n]
        row = _first(state)
        while row >= 0 and state[row, FRONT_TS] <= previous:
            out_id[count] = state[row, FRONT_ID]
            out_late[count] = False
            out_now[count] = state[row, FRONT_TS]
            count += 1
            drop_front(queues, row)
            row = _first(state)
    return count

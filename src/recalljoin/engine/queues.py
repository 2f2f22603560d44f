"""Sorting buffers for streams that are nearly in order.

A queue keeps what it holds in two lanes: a *run*, to which a tuple that is not older than the
run's last one is appended, and a *heap* for all others. Leaving the run costs one step, so a
queue of n tuples with h of them out of order costs O(n + h log h), whatever the disorder.

All queues of a component share a few arrays, one row a queue; they are plain arrays because
compiled code cannot keep objects between calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recalljoin.engine.compiled import compiled, inlined

Int64s = NDArray[np.int64]

# A tuple in a lane: its timestamp, and its number in order of arrival.
TS, ID = range(2)
# Columns of Queues.state: ends of the run, size of the heap, the smallest tuple of both.
RUN_HEAD, RUN_TAIL, HEAP_SIZE, FRONT_TS, FRONT_ID = range(5)
EMPTY = np.iinfo(np.int64).max
"""The front of an empty queue: later than any timestamp."""


class Queues(NamedTuple):
    """Arrays of ``n`` queues."""

    run: Int64s
    heap: Int64s
    state: Int64s


def empty_queues(n: int, capacity: int = 64) -> Queues:
    """``n`` queues with nothing in them."""
    state = np.zeros((n, 5), dtype=np.int64)
    state[:, FRONT_TS:] = EMPTY
    run, heap = (np.empty((n, capacity, 2), dtype=np.int64) for _ in range(2))
    return Queues(run, heap, state)


def with_room(queues: Queues, extra: int) -> Queues:
    """The same queues, able to take ``extra`` more tuples each.

    Runs are moved to the front of their rows; rows double, so the cost is spread over the pushes
    that filled them.
    """
    state = queues.state
    held = int((state[:, RUN_TAIL] - state[:, RUN_HEAD] + state[:, HEAP_SIZE]).max())
    capacity = queues.run.shape[1]
    if int(state[:, RUN_TAIL].max()) + extra <= capacity and held + extra <= capacity:
        return queues
    roomy = empty_queues(len(state), max(capacity, 2 * (held + extra)))
    roomy.state[:] = state
    for row, (head, tail, size) in enumerate(state[:, :FRONT_TS]):
        roomy.run[row, : tail - head] = queues.run[row, head:tail]
        roomy.heap[row, :size] = queues.heap[row, :size]
        roomy.state[row, RUN_HEAD : RUN_TAIL + 1] = 0, tail - head
    return roomy


def n_held(queues: Queues) -> int:
    """Tuples in all queues together."""
    state = queues.state
    return int((state[:, RUN_TAIL] - state[:, RUN_HEAD] + state[:, HEAP_SIZE]).sum())


def held_ids(queues: Queues) -> tuple[Int64s, Int64s]:
    """Ids of the tuples in all queues, growing, and the queue of each."""
    ids, rows = [], []
    for row, (head, tail, size) in enumerate(queues.state[:, :FRONT_TS]):
        ids += [queues.run[row, head:tail, ID], queues.heap[row, :size, ID]]
        rows.append(np.full(tail - head + size, row, dtype=np.int64))
    held = np.concatenate(ids)
    order = np.argsort(held)
    return held[order], np.concatenate(rows)[order]


def renumber(queues: Queues, old: Int64s) -> None:
    """Replace every id by its place in ``old``, the growing list of all ids held."""
    for row, (head, tail, size) in enumerate(queues.state[:, :FRONT_TS]):
        for lane in (queues.run[row, head:tail], queues.heap[row, :size]):
            lane[:, ID] = np.searchsorted(old, lane[:, ID])
        if queues.state[row, FRONT_TS] != EMPTY:
            queues.state[row, FRONT_ID] = np.searchsorted(old, queues.state[row, FRONT_ID])


@inlined
def push(queues: Queues, row: int, ts: int, number: int) -> None:
    """Put one tuple in; there must be room."""
    run, heap, state = queues
    if ts < state[row, FRONT_TS] or (ts == state[row, FRONT_TS] and number < state[row, FRONT_ID]):
        state[row, FRONT_TS] = ts
        state[row, FRONT_ID] = number
    tail = state[row, RUN_TAIL]
    if tail == state[row, RUN_HEAD]:
        # An empty run starts over at the front of its row, which keeps it in the cache.
        state[row, RUN_HEAD] = 0
        state[row, RUN_TAIL] = 1
        run[row, 0, TS] = ts
        run[row, 0, ID] = number
        return
    last = run[row, tail - 1, TS]
    if ts > last or (ts == last and number > run[row, tail - 1, ID]):
        state[row, RUN_TAIL] = tail + 1
        run[row, tail, TS] = ts
        run[row, tail, ID] = number
        return
    at = state[row, HEAP_SIZE]
    state[row, HEAP_SIZE] = at + 1
    while at > 0:
        parent = (at - 1) >> 1
        above = heap[row, parent, TS]
        if above < ts or (above == ts and heap[row, parent, ID] < number):
            break
        heap[row, at, TS] = above
        heap[row, at, ID] = heap[row, parent, ID]
        at = parent
    heap[row, at, TS] = ts
    heap[row, at, ID] = number


@inlined
def drop_front(queues: Queues, row: int) -> None:
    """Take the smallest tuple out; the queue must not be empty."""
    run, heap, state = queues
    head = state[row, RUN_HEAD]
    if head < state[row, RUN_TAIL] and run[row, head, ID] == state[row, FRONT_ID]:
        head += 1
        state[row, RUN_HEAD] = head
    else:
        _drop_top(heap[row], state, row)
    ts, number = EMPTY, EMPTY
    if head < state[row, RUN_TAIL]:
        ts, number = run[row, head, TS], run[row, head, ID]
    if state[row, HEAP_SIZE] > 0:
        top = heap[row, 0, TS]
        if top < ts or (top == ts and heap[row, 0, ID] < number):
            ts, number = top, heap[row, 0, ID]
    state[row, FRONT_TS] = ts
    state[row, FRONT_ID] = number


@compiled
def _drop_top(heap: Int64s, state: Int64s, row: int) -> None:
    size = state[row, HEAP_SIZE] - 1
    state[row, HEAP_SIZE] = size
    ts, number = heap[size, TS], heap[size, ID]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            heap[other, TS] < heap[child, TS]
            or (heap[other, TS] == heap[child, TS] and heap[other, ID] < heap[child, ID])
        ):
            child = other
        if ts < heap[child, TS] or (ts == heap[child, TS] and number < heap[child, ID]):
            break
        heap[at, TS] = heap[child, TS]
        heap[at, ID] = heap[child, ID]
        at = child
    heap[at, TS] = ts
    heap[at, ID] = number


@compiled
def push_all(queues: Queues, rows: Int64s, ts: Int64s) -> None:
    """Put tuples into the queues given by ``rows``, numbered from 0 on; there must be room."""
    for number in range(len(ts)):
        push(queues, rows[number], ts[number], number)

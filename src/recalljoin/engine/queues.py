"""Sorting buffers for streams that are nearly in order.

A queue has two lanes: a *run*, to which a tuple is appended if it is not older than the last tuple
of the run, and a *heap* for all other tuples. Leaving the run costs one step. A queue of n tuples,
h of them out of order, therefore costs O(n + h log h), whatever the disorder.

All queues of a component share a few plain arrays, with one row for each queue, because compiled
code cannot keep objects between calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import inlined, lean

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

# A tuple in a lane: its timestamp, and its number in order of arrival.
TS, ID = range(2)
# Columns of Queues.state: both ends of the run, which only grow; size of the heap; the smallest
# tuple of run and heap.
RUN_HEAD, RUN_TAIL, HEAP_SIZE, FRONT_TS, FRONT_ID = range(5)
EMPTY = np.iinfo(np.int64).max
"""The front of an empty queue: later than any timestamp."""


class Queues(NamedTuple):
    """Arrays of ``n`` queues.

    A run is a ring, whose length is a power of two. The memory that a run walks through is in
    proportion to the tuples it holds, and stays in the cache.
    """

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

    Rows double, so the cost is spread over the pushes that filled them.
    """
    state = queues.state
    wanted = int((state[:, RUN_TAIL] - state[:, RUN_HEAD] + state[:, HEAP_SIZE]).max()) + extra
    if wanted <= capacity(queues):
        return queues
    roomy = empty_queues(len(state), 1 << (wanted - 1).bit_length())
    for row, (head, tail, size) in enumerate(state[:, :FRONT_TS]):
        roomy.run[row, : tail - head] = _run_of(queues, row)
        roomy.heap[row, :size] = queues.heap[row, :size]
        roomy.state[row] = 0, tail - head, *state[row, HEAP_SIZE:]
    return roomy


def capacity(queues: Queues) -> int:
    """Tuples each queue can hold."""
    return int(queues.run.shape[1])


def _run_of(queues: Queues, row: int) -> Int64s:
    """A copy of one run, oldest first."""
    run: Int64s = queues.run[row, _places(queues, row)]
    return run


def _places(queues: Queues, row: int) -> Int64s:
    """Where the tuples of one run are, oldest first."""
    head, tail = queues.state[row, RUN_HEAD : RUN_TAIL + 1]
    places: Int64s = np.arange(head, tail) & (capacity(queues) - 1)
    return places


def n_held(queues: Queues) -> int:
    """Tuples in all queues together."""
    return int(held_by_queue(queues).sum())


def held_by_queue(queues: Queues) -> Int64s:
    """Tuples in each queue."""
    state = queues.state
    held: Int64s = state[:, RUN_TAIL] - state[:, RUN_HEAD] + state[:, HEAP_SIZE]
    return held


def held_ids(queues: Queues) -> tuple[Int64s, Int64s]:
    """Ids of the tuples in all queues, growing, and the queue of each."""
    ids, rows = [], []
    for row, (head, tail, size) in enumerate(queues.state[:, :FRONT_TS]):
        ids += [_run_of(queues, row)[:, ID], queues.heap[row, :size, ID]]
        rows.append(np.full(tail - head + size, row, dtype=np.int64))
    held = np.concatenate(ids)
    order = np.argsort(held)
    return held[order], np.concatenate(rows)[order]


def renumber(queues: Queues, old: Int64s) -> None:
    """Replace every id by its place in ``old``, the growing list of all ids held."""
    for row, size in enumerate(queues.state[:, HEAP_SIZE]):
        places = _places(queues, row)
        queues.run[row, places, ID] = np.searchsorted(old, queues.run[row, places, ID])
        queues.heap[row, :size, ID] = np.searchsorted(old, queues.heap[row, :size, ID])
        if queues.state[row, FRONT_TS] != EMPTY:
            queues.state[row, FRONT_ID] = np.searchsorted(old, queues.state[row, FRONT_ID])


@inlined
def push(queues: Queues, row: int, ts: int, number: int) -> None:
    """Put one tuple in; there must be room."""
    run, heap, state = queues
    mask = run.shape[1] - 1
    if ts < state[row, FRONT_TS] or (ts == state[row, FRONT_TS] and number < state[row, FRONT_ID]):
        state[row, FRONT_TS] = ts
        state[row, FRONT_ID] = number
    tail = state[row, RUN_TAIL]
    last = run[row, (tail - 1) & mask, TS]
    if (
        tail == state[row, RUN_HEAD]
        or ts > last
        or (ts == last and number > run[row, (tail - 1) & mask, ID])
    ):
        state[row, RUN_TAIL] = tail + 1
        run[row, tail & mask, TS] = ts
        run[row, tail & mask, ID] = number
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
    mask = run.shape[1] - 1
    head, tail = state[row, RUN_HEAD], state[row, RUN_TAIL]
    if head < tail and run[row, head & mask, ID] == state[row, FRONT_ID]:
        head += 1
        state[row, RUN_HEAD] = head
    else:
        _drop_top(heap[row], state, row)
    ts, number = EMPTY, EMPTY
    if head < tail:
        ts, number = run[row, head & mask, TS], run[row, head & mask, ID]
    if state[row, HEAP_SIZE] > 0:
        top = heap[row, 0, TS]
        if top < ts or (top == ts and heap[row, 0, ID] < number):
            ts, number = top, heap[row, 0, ID]
    state[row, FRONT_TS] = ts
    state[row, FRONT_ID] = number


@lean
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


@lean
def push_all(queues: Queues, rows: Int64s, ts: Int64s) -> None:
    """Put tuples into the queues given by ``rows``, numbered from 0 on; there must be room."""
    for number in range(len(ts)):
        push(queues, rows[number], ts[number], number)

"""Two-lane queues against a list that is sorted after every step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.queues import (
    EMPTY,
    FRONT_ID,
    FRONT_TS,
    drop_front,
    empty_queues,
    held_ids,
    n_held,
    push,
    push_all,
    renumber,
    with_room,
)

times = st.integers(-5, 5) | st.integers(-(2**61), 2**61)
# Mostly growing, as in a stream that is nearly in order: both lanes are in use.
steps = st.lists(
    st.tuples(st.integers(0, 2), st.none() | st.tuples(times, st.integers(0, 400))), max_size=60
)


def test_an_empty_queue_holds_nothing_and_its_front_is_later_than_any_time() -> None:
    queues = empty_queues(2)
    assert n_held(queues) == 0
    assert queues.state[:, FRONT_TS].tolist() == [EMPTY, EMPTY]
    assert [part.tolist() for part in held_ids(queues)] == [[], []]


@given(steps=steps, growing=st.booleans())
def test_tuples_leave_in_order_of_ts_then_number(
    steps: list[tuple[int, tuple[int, int] | None]], growing: bool
) -> None:
    queues = empty_queues(3, capacity=1)
    twins: list[list[tuple[int, int]]] = [[], [], []]
    used: set[int] = set()
    for n, (row, arriving) in enumerate(steps):
        if arriving is not None:
            ts, number = arriving
            ts, number = (ts + n, n) if growing else (ts, number)
            if number in used:
                continue
            used.add(number)
            queues = with_room(queues, 1)
            push(queues, row, ts, number)
            twins[row].append((ts, number))
            twins[row].sort()
        elif twins[row]:
            drop_front(queues, row)
            _, number = twins[row].pop(0)
            used.discard(number)
        for each, twin in enumerate(twins):
            front = (int(queues.state[each, FRONT_TS]), int(queues.state[each, FRONT_ID]))
            assert front == (twin[0] if twin else (EMPTY, EMPTY))
    assert n_held(queues) == sum(map(len, twins))
    ids, rows = held_ids(queues)
    held = sorted((number, row) for row, twin in enumerate(twins) for _, number in twin)
    assert list(zip(ids.tolist(), rows.tolist(), strict=True)) == held


@given(numbers=st.lists(st.integers(0, 10**6), unique=True, max_size=30), data=st.data())
def test_renumbering_keeps_the_order_in_which_tuples_leave(
    numbers: list[int], data: st.DataObject
) -> None:
    ts = data.draw(st.lists(st.integers(0, 4), min_size=len(numbers), max_size=len(numbers)))
    queues = with_room(empty_queues(1), len(numbers))
    for t, number in zip(ts, numbers, strict=True):
        push(queues, 0, t, number)
    old, _ = held_ids(queues)
    renumber(queues, old)
    left = []
    while queues.state[0, FRONT_TS] != EMPTY:
        left.append(int(old[queues.state[0, FRONT_ID]]))
        drop_front(queues, 0)
    assert left == [number for _, number in sorted(zip(ts, numbers, strict=True))]


def test_a_queue_grows_by_moving_what_it_holds() -> None:
    queues = empty_queues(1, capacity=2)
    for number, ts in enumerate([5, 7, 3]):
        queues = with_room(queues, 1)
        push(queues, 0, ts, number)
    drop_front(queues, 0)
    grown = with_room(queues, 1000)
    assert grown.run.shape[1] >= 1000
    assert n_held(grown) == 2
    assert grown.state[0, FRONT_TS] == 5


def test_room_is_made_once_for_many_pushes() -> None:
    queues = with_room(empty_queues(1), 100)
    assert with_room(queues, 10) is queues


def test_a_run_that_has_been_emptied_starts_over_and_needs_no_more_room() -> None:
    queues = empty_queues(1, capacity=8)
    for n in range(100):
        queues = with_room(queues, 1)
        push(queues, 0, n, n)
        drop_front(queues, 0)
    assert queues.run.shape[1] == 8


def test_many_tuples_are_put_in_with_their_places_as_numbers() -> None:
    queues = with_room(empty_queues(2), 4)
    push_all(queues, np.array([0, 1, 0, 1]), np.array([9, 8, 7, 8]))
    assert held_ids(queues)[1].tolist() == [0, 1, 0, 1]
    assert queues.state[:, FRONT_ID].tolist() == [2, 1]

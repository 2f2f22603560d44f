"""Rings of tuples, slots and chains of keys: growth, reuse, forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.engine.chains import entry_of
from recalljoin.engine.plan import Plan
from recalljoin.engine.progress import Remembered
from recalljoin.engine.rings import (
    FIRST,
    LINKS,
    MASK,
    N_WINDOW,
    NONE,
    OFFSET,
    TS,
    Sequence,
    expire_window,
)
from recalljoin.engine.slots import N_TUPLES, NEXT_SLOT
from recalljoin.engine.times import NEVER
from recalljoin.engine.windows import Windows

BOTH = pytest.mark.parametrize("chained", [False, True])


def windows(
    *, sizes: tuple[int, ...] = (10, 10), retention: int = 0, chained: bool = False
) -> Windows:
    """Windows of streams that all share one key."""
    plan = Plan(sizes, (frozenset(range(len(sizes))),), counts_by_tree=not chained)
    return Windows(plan, retention=retention)


def take_in(
    into: Windows,
    rows: list[tuple[int, int, int]],
    *,
    now: list[int] | None = None,
    joinable: bool = True,
) -> None:
    """Put ``(stream, ts, key)`` in; those behind ``now`` are late."""
    stream, ts, key = (np.array(column) for column in zip(*rows, strict=True))
    seen = np.maximum.accumulate(ts) if now is None else np.array(now)
    n = len(rows)
    sequence = Sequence(
        stream=stream.astype(np.int8),
        ts=ts,
        now=seen,
        base=np.full(n, -(2**62)),
        lost_base=np.full(n, -(2**62)),
        row=np.arange(n),
        late=ts < seen,
        joinable=np.full(n, joinable),
        codes=key[np.newaxis],
    )
    into.make_room(np.bincount(stream, minlength=into.plan.m))
    into.remember(sequence, np.arange(n))


def kept(of: Windows, s: int) -> list[int]:
    """Timestamps of a stream's tuples, in join sequence."""
    ts: list[int] = of.rings.records[of.places_of(s), TS].tolist()
    return ts


def n_slots_in_use(of: Windows) -> int:
    return int((of.slots.table[: of.slots.state[NEXT_SLOT], N_TUPLES] > 0).sum())


@BOTH
def test_tuples_are_kept_in_the_order_they_were_received(chained: bool) -> None:
    held = windows(chained=chained)
    take_in(held, [(0, 5, 1), (1, 6, 1), (0, 3, 2), (0, 7, 1)])
    assert (kept(held, 0), kept(held, 1)) == ([5, 3, 7], [6])
    assert held.n_kept == 4


@BOTH
def test_a_tuple_is_kept_until_window_and_retention_have_passed(chained: bool) -> None:
    held = windows(chained=chained, sizes=(10, 10), retention=5)
    take_in(held, [(0, 0, 1), (0, 1, 1)])
    held.forget(15)
    assert kept(held, 0) == [0, 1]
    held.forget(16)
    assert kept(held, 0) == [1]


@BOTH
def test_windows_of_different_sizes_are_forgotten_each_in_its_time(chained: bool) -> None:
    held = windows(chained=chained, sizes=(3, 20))
    take_in(held, [(0, 0, 1), (1, 0, 1)])
    held.forget(10)
    assert (kept(held, 0), kept(held, 1)) == ([], [0])


@BOTH
def test_a_late_tuple_stays_as_long_as_what_was_received_with_it(chained: bool) -> None:
    # Positions are given back from the oldest on; a late tuple goes by how far the join had come.
    held = windows(chained=chained)
    take_in(held, [(0, 20, 1), (0, 12, 1), (0, 21, 1)], now=[20, 20, 21])
    held.forget(30)
    assert kept(held, 0) == [20, 12, 21]
    held.forget(31)
    assert kept(held, 0) == [21]


def test_rings_grow_with_their_content_and_keep_it() -> None:
    held = windows()
    rows = [(n % 2, n, n % 7) for n in range(1000)]
    for begin in range(0, 1000, 50):
        take_in(held, rows[begin : begin + 50])
    assert kept(held, 0) == list(range(0, 1000, 2))
    assert kept(held, 1) == list(range(1, 1000, 2))
    assert n_slots_in_use(held) == 7


@BOTH
def test_a_ring_starts_over_and_does_not_grow_when_its_content_does_not(chained: bool) -> None:
    held = windows(chained=chained)
    capacity = len(held.rings.records)
    for now in range(0, 10_000, 10):
        take_in(held, [(s, now + i, i) for i in range(10) for s in (0, 1)])
        held.forget(now + 10)
    assert len(held.rings.records) == capacity
    assert kept(held, 0) == list(range(9990, 10_000))


def test_slots_of_keys_that_are_gone_are_used_again() -> None:
    held = windows()
    sizes = set()
    for now in range(0, 20_000, 10):
        take_in(held, [(s, now + i, 1000 * now + i) for i in range(10) for s in (0, 1)])
        held.forget(now + 10)
        sizes.add((len(held.slots.table), len(held.slots.buckets)))
    assert len(sizes) == 1
    assert n_slots_in_use(held) == 10


def test_slots_grow_with_the_number_of_keys() -> None:
    held = windows(sizes=(10**6, 10**6))
    for begin in range(0, 3000, 100):
        take_in(held, [(0, begin + i, begin + i) for i in range(100)])
    assert n_slots_in_use(held) == 3000
    # All keys are still found: the other stream needs no new slots.
    take_in(held, [(1, 5000, key) for key in range(3000)])
    assert n_slots_in_use(held) == 3000


def test_a_tuple_that_can_be_in_no_result_has_no_slot() -> None:
    held = windows()
    take_in(held, [(0, 1, 5)], joinable=False)
    assert n_slots_in_use(held) == 0
    assert held.n_kept == 1
    held.forget(100)
    assert held.n_kept == 0


def test_the_number_of_tuples_in_a_window_counts_late_ones_while_they_are_in_scope() -> None:
    held = windows()
    take_in(held, [(0, 20, 1), (0, 12, 1), (0, 5, 1), (0, 21, 1)], now=[20, 20, 20, 21])

    def in_window(now: int) -> int:
        expire_window(held.rings, held.late, 0, now - 10)
        return int(held.rings.table[0, N_WINDOW])

    # 5 came when the window reached back to 10.
    assert [in_window(now) for now in (21, 22, 23, 30, 31, 32)] == [3, 3, 2, 2, 1, 0]


def chain(of: Windows, s: int, key: int) -> list[int]:
    """Timestamps along a stream's chain, from the youngest on."""
    keys = np.array([[[key]]])
    entry = entry_of(of.chains.entries, keys, 0)
    if entry == NONE:
        return []
    at = of.chains.entries[entry, of.chains.tails[0] + s]
    row = of.rings.table[s]
    found = []
    while at >= row[FIRST]:
        record = of.rings.records[row[OFFSET] + (at & row[MASK])]
        found.append(int(record[TS]))
        at = record[LINKS]
    return found


def test_a_chain_leads_from_the_youngest_tuple_of_a_key_to_the_oldest() -> None:
    held = windows(chained=True)
    take_in(held, [(0, 5, 1), (1, 6, 1), (0, 7, 2), (0, 8, 1), (0, 8, 1)])
    assert [chain(held, 0, key) for key in (1, 2, 3)] == [[8, 8, 5], [7], []]
    assert chain(held, 1, 1) == [6]


def test_a_late_tuple_stands_in_its_chain_where_its_time_belongs() -> None:
    held = windows(chained=True, retention=10)
    take_in(held, [(0, 20, 1), (0, 25, 1), (0, 22, 1), (0, 12, 1)], now=[20, 25, 25, 25])
    assert chain(held, 0, 1) == [25, 22, 20, 12]
    # 20 goes; 12 came later and is still kept, but nothing that comes can reach it any more.
    held.forget(41)
    assert (kept(held, 0), chain(held, 0, 1)) == ([25, 22, 12], [25, 22])


def test_a_chain_is_not_followed_into_what_is_forgotten() -> None:
    held = windows(chained=True)
    for now in range(0, 10_000, 10):
        take_in(held, [(0, now + i, i % 2) for i in range(10)])
        held.forget(now + 10)
        assert chain(held, 0, 0) == [now + 8, now + 6, now + 4, now + 2, now]


def test_entries_of_forgotten_chains_make_room_for_others() -> None:
    held = windows(chained=True)
    sizes = set()
    for now in range(0, 20_000, 10):
        take_in(held, [(s, now + i, 1000 * now + i) for i in range(10) for s in (0, 1)])
        held.forget(now + 10)
        sizes.add(len(held.chains.entries))
        assert int(held.chains.state[0]) <= len(held.chains.entries) // 2
    assert max(sizes) <= 256
    assert chain(held, 1, 1000 * now + 3) == [now + 3]


def test_all_chains_are_found_when_the_table_has_grown() -> None:
    held = windows(chained=True, sizes=(10**6, 10**6))
    for begin in range(0, 3000, 100):
        take_in(held, [(0, begin + i, begin + i) for i in range(100)])
    assert all(chain(held, 0, key) == [key] for key in range(3000))
    assert int(held.chains.state[0]) == 3000


def test_a_tuple_that_can_be_in_no_result_is_in_no_chain() -> None:
    held = windows(chained=True)
    take_in(held, [(0, 1, 5)], joinable=False)
    assert (chain(held, 0, 5), kept(held, 0)) == ([], [1])


def test_a_longer_retention_does_not_bring_back_what_was_forgotten() -> None:
    short = Remembered(10)
    long = short.changed(50, now=100)
    # Until now it reached back to 90.
    assert long == Remembered(50, since=90)
    assert long.changed(20, now=120) == Remembered(20, since=90)
    assert long.changed(20, now=120).changed(30, now=125) == Remembered(30, since=105)


def test_a_retention_that_changes_before_the_join_begins_has_forgotten_nothing() -> None:
    assert Remembered(10).changed(50, now=NEVER) == Remembered(50, since=NEVER)

"""Algorithm 1, the Synchronizer, worked by hand."""

from __future__ import annotations

from tests.reference.model import MINUS_INFINITY, Annotated, Instant
from tests.reference.notation import timeline
from tests.reference.per_tuple import Synchronizer


def trace(text: str, *, m: int) -> list[tuple[str, Instant]]:
    """After each tuple: what left, as ``stream:ts``, and the sync time."""
    synchronizer = Synchronizer(m)
    rows = []
    for e in timeline(text):
        left = synchronizer.push(Annotated(e, delay=0, base_time=MINUS_INFINITY))
        words = " ".join(f"s{x.stream + 1}:{x.ts}" for x in left)
        rows.append((words, synchronizer.sync_time))
    return rows


def test_tuples_wait_until_every_stream_has_one_and_leave_smallest_first() -> None:
    assert trace("s1:1 s1:3 s2:2 s2:4 s1:5", m=2) == [
        ("", MINUS_INFINITY),
        ("", MINUS_INFINITY),
        ("s1:1 s2:2", 2),  # 1 leaves, both streams are still held: 2 leaves, then S2 has none
        ("s1:3", 3),
        ("s2:4", 4),
    ]


def test_a_tuple_not_above_the_sync_time_leaves_at_once() -> None:
    assert trace("s1:5 s2:5 s1:4 s2:5 s1:6", m=2) == [
        ("", MINUS_INFINITY),
        ("s1:5 s2:5", 5),
        ("s1:4", 5),  # out of order
        ("s2:5", 5),  # not out of order, but not above T_sync either: lines 9 and 10
        ("", 5),
    ]


def test_equal_timestamps_leave_together_in_the_order_of_their_arrival() -> None:
    assert trace("s2:7 s1:7 s2:7 s3:7", m=3)[-1] == ("s2:7 s1:7 s2:7 s3:7", 7)


def test_an_out_of_order_tuple_above_the_sync_time_is_sorted() -> None:
    # S1 leads; its own disorder is mended here, while its tuples wait for S2.
    assert trace("s1:1 s1:6 s1:4 s2:2 s2:9", m=2) == [
        ("", MINUS_INFINITY),
        ("", MINUS_INFINITY),
        ("", MINUS_INFINITY),
        ("s1:1 s2:2", 2),
        ("s1:4 s1:6", 6),
    ]


def test_negative_timestamps_are_as_good_as_any() -> None:
    # The listing starts T_sync at 0, which would let these pass unsorted; it starts at minus
    # infinity here.
    assert trace("s1:-3 s1:-5 s2:-4", m=2)[-1] == ("s1:-5 s2:-4", -4)


def test_one_silent_stream_of_three_holds_everything() -> None:
    assert trace("s1:1 s2:1 s1:2 s2:2 s3:1", m=3)[-2:] == [
        ("", MINUS_INFINITY),
        ("s1:1 s2:1 s3:1", 1),
    ]

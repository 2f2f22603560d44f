"""K-slack, Synchronizer and the release by watermark, on timelines one can follow by hand."""

from __future__ import annotations

import numpy as np

from recalljoin.engine.disorder import TickDisorder, TupleDisorder
from recalljoin.engine.times import FOREVER, NEVER


class Timeline:
    """Pushes ``stream:ts`` one by one and keeps the timestamps by arrival number."""

    def __init__(self, m: int) -> None:
        self.disorder = TupleDisorder(m)
        self.ts: list[int] = []

    def push(self, text: str, *, k: int) -> list[list[int]]:
        """For each arrival the timestamps that reach the join; late ones are negated."""
        return [self._push_one(word, k) for word in text.split()]

    def _push_one(self, word: str, k: int) -> list[int]:
        stream, ts = (int(part) for part in word.split(":"))
        released, self.annotations = self.disorder.push(
            np.array([stream - 1], dtype=np.int8),
            np.array([ts]),
            len(self.ts),
            k=np.array([k]),
        )
        self.ts.append(ts)
        signs = np.where(released.late, -1, 1)
        return [int(self.ts[i] * sign) for i, sign in zip(released.id, signs, strict=True)]


def test_tuples_leave_once_the_slack_has_passed() -> None:
    # arrivals:       1   4   3   5   9
    # leaving (K=2):  .   1   .   3   4 5
    # The second stream is far ahead, so that nothing waits in the Synchronizer.
    line = Timeline(2)
    line.push("2:100 2:200", k=2)
    assert line.push("1:1 1:4 1:3 1:5 1:9", k=2) == [[], [1], [], [3], [4, 5]]


def test_only_growth_of_the_local_time_releases() -> None:
    line = Timeline(2)
    line.push("2:100 2:200", k=0)
    # 3 waits for the next growth although K is 0; then it is late, for 5 has passed.
    assert line.push("1:5 1:3 1:5 1:6", k=0) == [[5], [], [], [-3, 5, 6]]


def test_the_join_time_is_the_largest_timestamp_received_and_earlier_ones_are_late() -> None:
    line = Timeline(2)
    line.push("2:100 2:200", k=0)
    assert line.push("1:5 1:5", k=0) == [[5], []]
    # The second 5 ties with the join time: in order.
    assert line.push("1:7", k=0) == [[5, 7]]
    assert line.disorder.join_time == 7
    assert line.push("1:6 1:8", k=0) == [[], [-6, 8]]


def test_a_change_of_k_takes_effect_at_the_next_release() -> None:
    line = Timeline(2)
    line.push("2:100 2:200", k=10)
    assert line.push("1:1 1:2 1:3", k=10) == [[], [], []]
    assert line.push("1:3", k=0) == [[]]
    assert line.push("1:4", k=0) == [[1, 2, 3, 3, 4]]


def test_the_synchronizer_waits_for_every_stream() -> None:
    line = Timeline(3)
    assert line.push("1:5 2:7 1:6", k=0) == [[], [], []]
    assert line.push("3:9", k=0) == [[5, 6]]
    # 7 is the earliest; streams 1 and 3 have something to say now.
    assert line.push("1:8", k=0) == [[7]]


def test_equal_timestamps_leave_together_in_order_of_arrival() -> None:
    line = Timeline(2)
    line.push("2:5 2:5 2:6", k=0)
    assert line.disorder.n_buffered == 3
    released, _ = line.disorder.push(
        np.array([0], dtype=np.int8), np.array([5]), 3, k=np.array([0])
    )
    assert released.id.tolist() == [0, 1, 3]
    assert not released.late.any()


def test_the_end_of_input_empties_all_buffers_in_order() -> None:
    line = Timeline(2)
    line.push("1:9 2:3 1:4 2:8 1:20 2:1", k=100)
    released = line.disorder.flush()
    assert [line.ts[i] for i in released.id] == sorted(line.ts)
    assert released.now.tolist() == sorted(line.ts)
    assert line.disorder.n_buffered == 0
    assert len(line.disorder.flush().id) == 0


def test_delay_and_base_time_are_annotated_at_arrival() -> None:
    disorder = TupleDisorder(2)
    stream = np.array([0, 0, 1, 0, 1, 0], dtype=np.int8)
    ts = np.array([5, 3, 2, 9, 7, 4])
    _, annotations = disorder.push(stream, ts, 0, k=np.full(6, 100))
    assert annotations.delay.tolist() == [0, 2, 0, 0, 0, 5]
    # Minus infinity until both streams have come; then the slower one's time before the arrival.
    assert annotations.base.tolist() == [NEVER, NEVER, NEVER, 2, 2, 7]
    assert disorder.base_time == 7


def test_a_tick_joins_what_the_watermark_passes_and_calls_the_rest_of_the_past_late() -> None:
    disorder = TickDisorder(1)
    released = disorder.push(
        np.array([0, 0, 1, 1, 1, 3]),
        np.zeros(6, dtype=np.int8),
        np.array([7, 4, 4, 5, 9, 8]),
        10,
        before=NEVER,
        watermarks=np.array([4, 6, 8, 8]),
    )
    # tick 0: 4 leaves. tick 1: the new 4 ties with the watermark and is late, 5 leaves.
    # tick 2: 7 leaves. tick 3: 8 is late.
    assert released.id.tolist() == [11, 12, 13, 10, 15]
    assert released.late.tolist() == [False, True, False, False, True]
    assert released.now.tolist() == [4, 4, 5, 7, 8]
    assert disorder.n_buffered == 1


def test_late_tuples_of_a_tick_leave_by_their_time_whatever_order_they_came_in() -> None:
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        disorder = TickDisorder(2)
        released = disorder.push(
            np.array([0, 1, 1, 1, 2, 2]),
            np.array([0, 0, 0, 1, 0, 1], dtype=np.int8),
            np.array([50, *np.array([30, 10, 20])[order], 9, 5]),
            0,
            before=40,
            watermarks=np.array([40, 40, 60]),
        )
        times = np.array([50, *np.array([30, 10, 20])[order], 9, 5])[released.id]
        assert times.tolist() == [10, 20, 30, 5, 9, 50]
        assert released.late.tolist() == [True] * 5 + [False]


def test_a_watermark_of_plus_infinity_releases_everything_and_no_more() -> None:
    disorder = TickDisorder(2)
    none, nowhere = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int8)
    stream = np.array([0, 0, 1, 1], dtype=np.int8)
    disorder.push(
        np.zeros(4, dtype=np.int64),
        stream,
        np.array([3, 1, 2, 1]),
        0,
        before=NEVER,
        watermarks=np.array([NEVER]),
    )
    released = disorder.push(none, nowhere, none, 4, before=NEVER, watermarks=np.array([FOREVER]))
    # By time; of the same time, the one that came first.
    assert released.id.tolist() == [1, 3, 2, 0]
    assert disorder.n_buffered == 0


def test_the_watermark_before_the_first_tick_is_the_callers() -> None:
    disorder = TickDisorder(1)
    released = disorder.push(
        np.array([0, 0]),
        np.zeros(2, dtype=np.int8),
        np.array([3, 4]),
        0,
        before=3,
        watermarks=np.array([3]),
    )
    assert (released.id.tolist(), released.late.tolist()) == ([0], [True])

"""Proposition 1: under a common K, the K-slack outputs are as skewed as the inputs.

The proof takes the time of an output to be iT - K. It is the largest timestamp let out, and that
is iT - K only if the stream has a tuple there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.reference.model import MINUS_INFINITY, Instant
from tests.reference.notation import timeline
from tests.reference.per_tuple import KSlack
from tests.strategies import cases, slacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.reference.model import StreamTuple
    from tests.strategies import Case


def skews(arrivals: Sequence[StreamTuple], *, k: int) -> list[tuple[Instant, Instant]]:
    """Skew of two streams' inputs and of their outputs, once both have grown by K.

    Before that, an output has nothing to show, or only stragglers from before the start.
    """
    slack = (KSlack(k), KSlack(k))
    start: dict[int, int] = {}
    out: list[Instant] = [MINUS_INFINITY, MINUS_INFINITY]
    measured = []
    for e in arrivals:
        start.setdefault(e.stream, e.ts)
        for released in slack[e.stream].push(e):
            out[e.stream] = max(out[e.stream], released.ts)
        if len(start) == 2 and all(slack[i].local_time >= start[i] + k for i in (0, 1)):
            measured.append((abs(slack[0].local_time - slack[1].local_time), abs(out[0] - out[1])))
    return measured


def largest_gap(arrivals: Sequence[StreamTuple], stream: int) -> int:
    """Largest step by which the stream's local time grows."""
    local_time: int | None = None
    largest = 0
    for e in arrivals:
        if e.stream == stream and (local_time is None or e.ts > local_time):
            largest = max(largest, 0 if local_time is None else e.ts - local_time)
            local_time = e.ts
    return largest


@given(cases(max_m=2))
def test_with_k_0_it_holds_for_all_streams(case: Case) -> None:
    assert all(before == after for before, after in skews(case.arrivals, k=0))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 4)), max_size=30), slacks())
def test_without_gaps_it_holds_for_all_k(steps: list[tuple[int, int]], k: int) -> None:
    # Steps: a stream, and -1 to grow by 1 or a delay.
    local_times = [3, -8]
    words = ["s1:3", "s2:-8"]
    for stream, delay in steps:
        ts = local_times[stream] - delay
        words.append(f"s{stream + 1}:{ts}")
        local_times[stream] = max(local_times[stream], ts)
    grown = [f"s{i + 1}:{local_times[i] + n}" for n in range(1, k + 1) for i in (0, 1)]
    measured = skews(timeline(" ".join(words + grown)), k=k)
    assert measured
    assert all(before == after for before, after in measured)


def test_with_gaps_it_fails() -> None:
    # The inputs stand at 10 and 8, the outputs both at 0: neither has anything to show between.
    assert skews(timeline("s1:0 s2:0 s1:10 s2:8"), k=3)[-1] == (2, 0)
    # And the other way round: inputs level, outputs not.
    assert skews(timeline("s1:0 s2:0 s2:7 s1:10 s2:10"), k=3)[-1] == (0, 7)


@given(cases(max_m=2), slacks())
def test_the_skew_is_off_by_less_than_the_largest_gap(case: Case, k: int) -> None:
    gap = max(largest_gap(case.arrivals, stream) for stream in (0, 1))
    for before, after in skews(case.arrivals, k=k):
        assert before == after or abs(before - after) < gap

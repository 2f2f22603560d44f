"""Theorem 1 (the Same-K policy): where it holds literally, and where it does not.

"For any configuration K_i = k_i, the produced join output is the same as under the common
K = k, where k = min iT - min (iT - k_i)."

The proof takes the sync time to be min (iT - k_i). In truth it is the smallest of the
timestamps that the K-slack components have let out last, and that is min (iT - k_i) only if each
stream has a tuple at exactly iT - k_i. So:

- where a watermark stands at min (iT - k_i) by definition, the theorem holds: tick arrival;
- with K-slack and Algorithm 1 it holds for streams without gaps, while one stream is the slowest
  both before and after K-slack ("Case 1" of the illustration);
- with gaps it fails, even where k never changes;
- without gaps it still fails where k changes ("Case 2"): a buffer feels a new K only when its own
  local time grows.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.model import MINUS_INFINITY, Instant, Query, Run, StreamTuple
from tests.reference.notation import timeline
from tests.reference.per_tuple import DisorderHandling, run_per_tuple
from tests.reference.same_k import same_k, same_k_schedule
from tests.reference.tick import TickJoin, run_ticks
from tests.strategies import Case, cases, slacks

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

CROSS_JOIN = Query((100, 100))


def results(run: Run) -> set[tuple[int, ...]]:
    return {r.arrivals for r in run.produced}


def with_same_k(
    query: Query, arrivals: list[StreamTuple], ks: tuple[int, ...], *, counting_the_new: bool
) -> set[tuple[int, ...]]:
    schedule = same_k_schedule(arrivals, ks, counting_the_new=counting_the_new)
    return results(run_per_tuple(query, arrivals, k=schedule.__getitem__))


def with_any_constant_k(arrivals: list[StreamTuple]) -> list[set[tuple[int, ...]]]:
    """Output under every common constant K that can make a difference."""
    largest = max(e.ts for e in arrivals) - min(e.ts for e in arrivals)
    return [results(run_per_tuple(CROSS_JOIN, arrivals, k=k)) for k in range(largest + 2)]


# ------------------------------------------------------------------------------- where it holds


@st.composite
def with_k_per_stream(draw: DrawFn) -> tuple[Case, tuple[int, ...]]:
    case = draw(cases(max_m=4))
    return case, draw(st.tuples(*[slacks()] * case.m))


@given(with_k_per_stream())
def test_under_tick_arrival_one_k_does_the_work_of_many(
    drawn: tuple[Case, tuple[int, ...]],
) -> None:
    case, ks = drawn
    many = TickJoin(case.query)
    one = TickJoin(case.query)
    for n in range(max((e.tick for e in case.arrivals), default=0) + 1):
        tuples = [e for e in case.arrivals if e.tick == n]
        received = many.step(tuples, k=ks)
        # The k of the theorem, from the local times this tick leaves behind.
        k = same_k(many.disorder.local_times, ks)
        assert one.step(tuples, k=k) == received
        assert one.disorder.watermark == many.disorder.watermark
    assert one.flush() == many.flush()


def one_stream_slowest_throughout(seed: int) -> tuple[list[StreamTuple], tuple[int, ...], int]:
    """Streams that start at 0 and grow by 1; one is slowest, before and after K-slack.

    Returns the arrivals, a K for each stream, and the index of the slowest.
    """
    source = random.Random(seed)
    m = source.choice((2, 3))
    ks = tuple(source.randrange(4) for _ in range(m))
    slowest = source.randrange(m)
    local_times = [-1] * m
    arrivals: list[StreamTuple] = []

    def arrive(stream: int, ts: int) -> None:
        arrivals.append(StreamTuple(stream, ts, len(arrivals)))
        local_times[stream] = max(local_times[stream], ts)

    while len(arrivals) < 40 or -1 in local_times:
        stream = source.randrange(m)
        if local_times[stream] >= 0 and source.random() < 0.3:  # out of order, or a tie
            arrive(stream, max(0, local_times[stream] - source.randrange(7)))
        elif stream == slowest:  # the others must keep ahead of it
            ahead = local_times[slowest] + 1
            for i in range(m):
                while i != slowest and local_times[i] < ahead + max(0, ks[i] - ks[slowest]):
                    arrive(i, local_times[i] + 1)
            arrive(slowest, ahead)
        elif source.random() < 0.3:
            arrive(stream, local_times[stream] + 1)
    return arrivals, ks, slowest


@given(st.integers(0, 2**32 - 1))
def test_without_gaps_and_with_one_slowest_stream_the_theorem_holds(seed: int) -> None:
    arrivals, ks, slowest = one_stream_slowest_throughout(seed)
    every_stream_is_there = max(
        next(n for n, e in enumerate(arrivals) if e.stream == i) for i in range(len(ks))
    )
    schedule = same_k_schedule(arrivals, ks, counting_the_new=True)
    assert set(schedule[every_stream_is_there:]) == {ks[slowest]}
    query = Query((4,) * len(ks))
    many = run_per_tuple(query, arrivals, k=ks)
    one = run_per_tuple(query, arrivals, k=ks[slowest])
    assert results(one) == results(many)
    assert set(one.late) == set(many.late)


@given(with_k_per_stream())
def test_the_sync_time_is_that_of_the_slowest_k_slack_output(
    drawn: tuple[Case, tuple[int, ...]],
) -> None:
    # First sentence of the proof. True always; what follows in it, T_sync = min (iT - k_i), is
    # an upper bound only.
    case, ks = drawn
    disorder = DisorderHandling(case.m, k=ks)
    let_out: list[Instant] = [MINUS_INFINITY] * case.m
    for e in case.arrivals:
        held = [e, *(x.origin for x in disorder.slacks[e.stream].buffer)]
        disorder.push(e)
        still_held = {x.arrival for x in disorder.slacks[e.stream].buffer}
        for x in held:
            if x.arrival not in still_held:
                let_out[e.stream] = max(let_out[e.stream], x.ts)
        assert disorder.synchronizer.sync_time == min(let_out)
        assert min(let_out) <= min(t - k for t, k in zip(disorder.local_times, ks, strict=True))


# ----------------------------------------------------------------------------- where it does not


@pytest.mark.parametrize("counting_the_new", [False, True])
def test_with_gaps_it_fails_in_four_tuples_though_k_never_changes(counting_the_new: bool) -> None:
    arrivals = timeline("s1:1 s1:2 s2:2 s2:0")
    ks = (1, 0)
    schedule = same_k_schedule(arrivals, ks, counting_the_new=True)
    assert schedule == [1, 1, 1, 1]
    # K = (1, 0): s2:2 passes K-slack at once, the Synchronizer has both streams and lets s1:1
    #             out: s2:0 is late and (s1:1, s2:0) is lost.
    # K = (1, 1): s2:2 is held, and S2 has no tuple at 2 - 1 to show instead: nothing leaves.
    many = run_per_tuple(CROSS_JOIN, arrivals, k=ks)
    assert [(e.stream, e.ts) for e in many.late] == [(1, 0)]
    one = with_same_k(CROSS_JOIN, arrivals, ks, counting_the_new=counting_the_new)
    assert one - results(many) == {(0, 3)}
    # Nor would any other common constant K have done.
    assert results(many) not in with_any_constant_k(arrivals)


def test_with_gaps_it_fails_in_mid_stream_too() -> None:
    # Not an effect of start or end: S1 has been and stays ahead, S2 is the slowest throughout
    # (Case 1), k is 2 at all times. S1 has no tuple near 10 - 2, so with K = 2 the Synchronizer
    # does not hear how far S1 is, and waits; with K1 = 0 it does, and lets s2:5 out.
    arrivals = timeline("s1:0 s2:0 s1:10 s2:5 s2:7 s2:3 s2:9 s1:20 s2:20 s1:30 s2:30")
    ks = (0, 2)
    assert set(same_k_schedule(arrivals, ks, counting_the_new=True)[2:]) == {2}
    many = run_per_tuple(CROSS_JOIN, arrivals, k=ks)
    one = run_per_tuple(CROSS_JOIN, arrivals, k=2)
    assert [(e.stream, e.ts) for e in many.late] == [(1, 3)]
    assert one.late == []
    assert results(one) - results(many) == {(0, 5)}


@pytest.mark.parametrize("counting_the_new", [False, True])
def test_without_gaps_it_fails_in_six_tuples_where_k_changes(counting_the_new: bool) -> None:
    arrivals = timeline("s1:0 s2:0 s2:1 s1:1 s1:2 s1:0")
    ks = (1, 0)
    assert same_k_schedule(arrivals, ks, counting_the_new=True) == [1, 1, 1, 1, 0, 0]
    # At s1:2 the theorem's k falls from 1 to 0. With K = (1, 0), s2:1 has long left its K-slack,
    # s1:1 follows, the sync time is 1, and the second s1:0 is late. With the common k, s2:1 is
    # still in its buffer: S2 does not grow, so it never feels the new K.
    many = run_per_tuple(CROSS_JOIN, arrivals, k=ks)
    assert many.late == [arrivals[5]]
    one = with_same_k(CROSS_JOIN, arrivals, ks, counting_the_new=counting_the_new)
    assert one - results(many) == {(5, 1), (5, 2)}


def test_even_under_tick_arrival_no_constant_k_need_do() -> None:
    # The k of the theorem depends on the skew. K = (2, 0), a tuple a tick, no gaps:
    #   first S1 leads by 4 and k is 0: s2:0, one late, is too late;
    #   then S2 leads by 4 and k is 2:  s1:8, one late, is in time.
    # A constant K < 2 fails the second, a larger one saves the first.
    first = "s1:0 | s1:1 | s1:2 | s1:3 | s1:4 | s2:0 | s2:1 | s2:0"
    growth = [*(f"s2:{ts}" for ts in range(2, 14)), *(f"s1:{ts}" for ts in range(5, 10))]
    arrivals = timeline(" | ".join([first, *growth, "s1:8"]))
    ks = (2, 0)
    many = run_ticks(CROSS_JOIN, arrivals, k=ks)
    assert [(e.stream, e.ts) for e in many.late] == [(1, 0)]
    for k in range(16):
        assert results(run_ticks(CROSS_JOIN, arrivals, k=k)) != results(many)
    schedule = same_k_schedule(arrivals, ks, counting_the_new=True)
    one = run_ticks(CROSS_JOIN, arrivals, k=schedule.__getitem__)
    assert results(one) == results(many)


@given(with_k_per_stream())
def test_a_common_k_that_changes_with_every_arrival_can_always_imitate_many(
    drawn: tuple[Case, tuple[int, ...]],
) -> None:
    # Not the theorem's k, and no use to anyone; but it shows that what fails above is the
    # formula. Only the stream whose tuple has just arrived releases anything.
    case, ks = drawn
    own = [ks[e.stream] for e in case.arrivals]
    one = run_per_tuple(case.query, case.arrivals, k=own.__getitem__)
    assert one == run_per_tuple(case.query, case.arrivals, k=ks)

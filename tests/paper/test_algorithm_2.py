"""Algorithm 2, the MSWJ operator, worked by hand."""

from __future__ import annotations

from tests.reference.model import Annotated, Query, Received
from tests.reference.notation import timeline
from tests.reference.per_tuple import MSWJ, run_join_alone


def pairs(received: Received) -> list[tuple[int, ...]]:
    return [tuple(e.ts for e in o.result.members) for o in received.produced]


def lost(received: Received) -> list[tuple[int, ...]]:
    return [tuple(e.ts for e in o.result.members) for o in received.lost]


def test_an_in_order_tuple_invalidates_the_other_windows_joins_and_is_inserted() -> None:
    query = Query((2, 3))
    run = run_join_alone(query, timeline("s1:1 s2:2 s2:4 s1:5"))
    first, second, third, fourth = run.received
    assert (pairs(first), first.n_cross) == ([], 0)
    assert (pairs(second), second.n_cross) == ([(1, 2)], 1)
    assert (pairs(third), third.n_cross) == ([], 0)  # 1 < 4 - W1
    assert (pairs(fourth), fourth.n_cross) == ([(5, 2), (5, 4)], 2)  # 2 >= 5 - W2


def test_windows_of_a_streams_own_are_left_alone() -> None:
    # Line 5 says j != i: s1:9 does not clean the window on S1, so s2:9 finds only what its own
    # arrival leaves there; nothing is lost by the delay in cleaning, and nothing gained.
    query = Query((2, 2))
    join = MSWJ(query)
    for e in timeline("s1:1 s1:9"):
        join.push(Annotated(e, delay=0, base_time=0))
    assert [e.ts for e in join.memory.windows[0]] == [1, 9]
    (last,) = timeline("s2:9")
    received = join.push(Annotated(last, delay=0, base_time=0))
    assert pairs(received) == [(9, 9)]
    assert [e.ts for e in join.memory.windows[0]] == [9]


def test_a_tuple_at_the_join_time_is_in_order() -> None:
    run = run_join_alone(Query((0, 0)), timeline("s1:4 s2:4 s1:4"))
    assert [pairs(r) for r in run.received] == [[], [(4, 4)], [(4, 4)]]
    assert run.late == []


def test_a_late_tuple_is_inserted_without_probing_and_its_past_results_are_lost() -> None:
    # s1:3 comes late: (3, 2) and (3, 5) are lost with it, (3, 6) is still produced.
    run = run_join_alone(Query((4, 4)), timeline("s2:2 s2:5 s1:3 s2:6"))
    late = run.received[2]
    assert late.late
    assert late.in_window
    assert (late.n_join, late.n_cross) == (0, 0)
    assert pairs(late) == []
    assert lost(late) == [(3, 2), (3, 5)]
    assert pairs(run.received[3]) == [(3, 6)]


def test_a_late_tuple_at_the_very_edge_of_its_window_is_inserted() -> None:
    # Line 9 of the listing prints >, the text has >=. With > the true result (3, 5) of the last
    # tuple would be missing, though that tuple is in order.
    run = run_join_alone(Query((2, 2)), timeline("s2:5 s1:3 s2:5"))
    assert run.received[1].in_window
    assert pairs(run.received[2]) == [(3, 5)]


def test_a_late_tuple_past_the_edge_of_its_window_is_not_inserted() -> None:
    # Its results with tuples of its own time are still counted as lost: H is the largest window.
    run = run_join_alone(Query((2, 6)), timeline("s2:1 s2:5 s1:2 s2:5"))
    assert not run.received[2].in_window
    assert lost(run.received[2]) == [(2, 1)]
    assert pairs(run.received[3]) == []


def test_a_late_tuple_beyond_the_horizon_is_reported_and_not_counted() -> None:
    tuples = timeline("s2:1 s2:9 s1:2")
    near = run_join_alone(Query((2, 6)), tuples, horizon=7)
    far = run_join_alone(Query((2, 6)), tuples, horizon=6)
    assert (near.beyond_horizon, lost(near.received[2])) == ([], [(2, 1)])
    assert (far.beyond_horizon, lost(far.received[2])) == ([tuples[2]], [])


def test_a_result_lost_with_two_late_members_is_lost_once_at_the_last() -> None:
    run = run_join_alone(Query((5, 5, 5)), timeline("s1:4 s2:2 s3:3"))
    assert [lost(r) for r in run.received] == [[], [], [(4, 2, 3)]]


def test_the_older_member_is_held_to_its_own_window() -> None:
    # Sec. II-A lets e_i join up to e_i.ts + W_j. Algorithm 2 asks, when the younger e_j comes,
    # whether e_i is still in its own window: up to e_i.ts + W_i. The two differ when windows do.
    query = Query((1, 5))
    assert run_join_alone(query, timeline("s1:0 s2:5")).produced == []
    assert len(run_join_alone(query, timeline("s2:0 s1:5")).produced) == 1

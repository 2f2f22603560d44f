"""What ``docs/semantics.md`` promises, held against the reference under per-tuple arrival."""

from __future__ import annotations

from hypothesis import given

from tests.reference.conditions import cross_join
from tests.reference.model import MINUS_INFINITY, Instant, Query, Result, Run
from tests.reference.notation import timeline
from tests.reference.per_tuple import DisorderHandling, PerTupleJoin, max_k_slack, run_per_tuple
from tests.reference.truth import true_results
from tests.strategies import HUGE, Case, cases, scheduled, slacks

# Far enough for every late tuple to be counted.
FOR_EVER = 8 * HUGE


def run_scheduled(case: Case, schedule: list[int], *, horizon: int | None = None) -> Run:
    return run_per_tuple(case.query, case.arrivals, k=schedule.__getitem__, horizon=horizon)


# ------------------------------------------------------------------------------ complete handling


@given(cases())
def test_k_of_the_largest_delay_gives_exactly_the_true_results_in_order(case: Case) -> None:
    run = run_per_tuple(case.query, case.arrivals, k=case.largest_delay)
    assert sorted(run.produced, key=lambda r: (r.ts, r.arrivals)) == true_results(
        case.query, case.arrivals
    )
    assert [r.ts for r in run.produced] == sorted(r.ts for r in run.produced)
    assert run.late == []


def test_k_above_the_largest_required_slack_need_not_be_enough() -> None:
    # In ticks it is enough; under per-tuple arrival it is not so. s1:0 arrives before anything
    # of S2, in plenty of time: required slack minus infinity. But K-slack holds it until S1
    # grows, and meanwhile s2:1 lets s1:1 out.
    arrivals = timeline("s1:1 s1:0 s2:1")
    query = Query((5, 5))
    run = run_per_tuple(query, arrivals, k=0)
    (lost,) = run.lost
    assert lost.arrivals == (1, 2)
    assert run.required_slack(lost) == MINUS_INFINITY
    # Under tick arrival there is no such wait, and the promise holds: see test_reference_tick.


def test_k_above_the_largest_required_slack_need_not_be_enough_in_mid_stream() -> None:
    # The same with K > 0, and away from start and end. s1:6 comes when S2 stands at 5: required
    # slack 5 - 6. It waits in its K-slack while S2 goes on to 10 and the sync time to 9.
    arrivals = timeline(
        "s1:4 s2:4 s2:5 s1:9 s1:10 s1:6 s2:6 s2:8 s2:9 s2:10 s1:11 s2:11 s1:20 s2:20"
    )
    query = Query((2, 2))
    run = run_per_tuple(query, arrivals, k=1, horizon=10)
    assert [(e.stream, e.ts) for e in run.late] == [(0, 6)]
    assert [tuple(e.ts for e in r.members) for r in run.lost] == [(6, 4), (6, 5), (6, 6), (6, 8)]
    assert [run.required_slack(r) for r in run.lost] == [-1, -1, -1, -2]
    assert max(run.required_slack(r) for r in true_results(query, arrivals)) < 1


def slack_until_release(case: Case, results: list[Result]) -> Instant:
    """Largest required slack if each tuple is taken to arrive when its stream next grows."""
    base_times: dict[int, Instant] = {}
    waiting: dict[int, list[int]] = {i: [] for i in range(case.m)}
    disorder = DisorderHandling(case.m)
    for e in case.arrivals:
        before = disorder.base_time
        waiting[e.stream].append(e.arrival)
        if e.ts > disorder.local_times[e.stream]:
            base_times |= dict.fromkeys(waiting[e.stream], before)
            waiting[e.stream] = []
        disorder.push(e)
    for arrivals in waiting.values():
        base_times |= dict.fromkeys(arrivals, disorder.base_time)
    return max(
        (max(base_times[arrival] for arrival in r.arrivals) - r.ts for r in results),
        default=MINUS_INFINITY,
    )


@given(cases())
def test_k_above_the_largest_slack_until_release_is_enough(case: Case) -> None:
    true = true_results(case.query, case.arrivals)
    largest = slack_until_release(case, true)
    k = 0 if largest < 0 else int(largest) + 1
    run = run_per_tuple(case.query, case.arrivals, k=k)
    assert sorted(run.produced, key=lambda r: (r.ts, r.arrivals)) == true


# ------------------------------------------------------------------------------- any K, any policy


@given(scheduled())
def test_any_schedule_of_k_produces_true_results_only_each_once_in_order(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    assert set(run.produced) <= set(true_results(case.query, case.arrivals))
    assert len(run.produced) == len(set(run.produced))
    assert [r.ts for r in run.produced] == sorted(r.ts for r in run.produced)


@given(scheduled())
def test_every_tuple_reaches_the_join_exactly_once(drawn: tuple[Case, list[int]]) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    assert sorted(r.e.arrival for r in run.received) == list(range(len(case.arrivals)))


@given(scheduled())
def test_produced_and_lost_are_together_the_true_results(drawn: tuple[Case, list[int]]) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule, horizon=FOR_EVER)
    counted = run.produced + run.lost
    assert len(counted) == len(set(counted))
    assert set(counted) == set(true_results(case.query, case.arrivals))


@given(scheduled())
def test_what_the_default_horizon_leaves_uncounted_was_lost_beyond_it(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    received = [r.e.arrival for r in run.received]
    beyond = {e.arrival for e in run.beyond_horizon}
    uncounted = set(true_results(case.query, case.arrivals)) - set(run.produced) - set(run.lost)
    assert all(max(r.arrivals, key=received.index) in beyond for r in uncounted)
    # And counting is all the horizon is about.
    assert run.produced == run_scheduled(case, schedule, horizon=FOR_EVER).produced


@given(scheduled())
def test_a_true_result_is_produced_iff_its_last_member_at_the_join_is_in_order(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    received = [r.e.arrival for r in run.received]
    late = {e.arrival for e in run.late}
    for result in true_results(case.query, case.arrivals):
        last = max(result.arrivals, key=received.index)
        assert (result in run.produced) == (last not in late)


@given(scheduled(cases(kinds=[cross_join])))
def test_a_cross_join_produces_as_many_results_as_it_counts(drawn: tuple[Case, list[int]]) -> None:
    case, schedule = drawn
    for received in run_scheduled(case, schedule).received:
        assert received.n_join == received.n_cross == len(received.produced)


@given(scheduled())
def test_annotations_do_not_depend_on_k(drawn: tuple[Case, list[int]]) -> None:
    case, schedule = drawn
    annotated = {r.e for r in run_scheduled(case, schedule).received}
    assert annotated == {r.e for r in run_per_tuple(case.query, case.arrivals).received}
    assert max((e.delay for e in annotated), default=0) == case.largest_delay


@given(cases(), slacks())
def test_produced_results_are_counted_with_their_required_slack(case: Case, k: int) -> None:
    run = run_per_tuple(case.query, case.arrivals, k=k)
    for received in run.received:
        for outcome in received.produced:
            assert outcome.slack == run.required_slack(outcome.result)


@given(cases(), slacks())
def test_a_result_lost_under_a_constant_k_is_counted_as_needing_more(case: Case, k: int) -> None:
    join = PerTupleJoin(case.query, k=k)
    for e in case.arrivals:
        for received in join.push(e):
            assert all(outcome.slack >= k for outcome in received.lost)
    for received in join.flush():
        assert all(outcome.slack >= 0 for outcome in received.lost)


def test_the_slack_of_a_produced_result_is_that_of_its_last_member_to_arrive() -> None:
    # s1:5 triggers and arrived at base time 0; its partner s2:4 arrived later, at base time 5.
    arrivals = timeline("s1:0 s2:0 s1:5 s2:8 s2:4 s1:9 s2:9 s1:20 s2:20")
    run = run_per_tuple(Query((3, 3)), arrivals, k=4)
    slack = {o.result.arrivals: o.slack for r in run.received for o in r.produced}
    assert slack[(2, 4)] == 5 - 5
    assert [r.e.base_time for r in run.received if r.e.arrival == 2] == [0]


def test_a_lost_result_needed_more_slack_than_was_in_effect() -> None:
    # s1:0 arrives at base time 1, s2:3 at base time 2: the result of 3 requires a slack of -1. But
    # s1:0 waits in its K-slack until s1:9 comes, and the join is at 4 by then.
    arrivals = timeline("s1:4 s2:1 s1:0 s2:2 s2:3 s2:4 s1:9")
    run = run_per_tuple(Query((5, 5)), arrivals, k=0)
    (late,) = [r for r in run.received if r.late]
    slack = {o.result.arrivals: o.slack for o in late.lost}
    assert late.e.base_time == 1
    assert run.required_slack(Result((arrivals[2], arrivals[4]))) == 2 - 3
    assert slack[(2, 4)] == 4 - 3


def test_after_k_has_risen_less_than_k_is_in_effect() -> None:
    # The join is at 4 when K rises from 0 to 10, and stays there: s1:2 is late although it comes
    # 3 behind. When s1:16 lets it go, the base time is 6, so a slack of 2 is in effect.
    arrivals = timeline("s1:2 s2:2 s1:4 s2:4 s1:5 s2:6 s1:2 s1:16")
    run = run_per_tuple(Query((5, 5)), arrivals, k=lambda n: 0 if n < 5 else 10)
    (late,) = [r for r in run.received if r.late]
    slack = {o.result.arrivals: o.slack for o in late.lost}
    assert slack == {(6, 1): 4 + 2 - 2, (6, 3): 4 + 2 - 4}


@given(cases())
def test_max_k_slack_is_never_more_than_the_largest_delay(case: Case) -> None:
    schedule = max_k_slack(case.arrivals, case.m)
    assert schedule == sorted(schedule)
    assert (schedule[-1] if schedule else 0) == case.largest_delay


def test_max_k_slack_misses_the_tuple_that_makes_it_grow() -> None:
    # s1:2 raises K to 3 and is late all the same; s1:6, as late as that, is in time.
    arrivals = timeline("s1:5 s2:5 s1:2 s1:9 s2:9 s1:6 s1:10 s2:10")
    schedule = max_k_slack(arrivals, 2)
    assert schedule == [0, 0, 3, 3, 3, 3, 3, 3]
    run = run_per_tuple(Query((0, 0)), arrivals, k=schedule.__getitem__)
    assert run.late == [arrivals[2]]

"""What ``docs/semantics.md`` promises, held against the reference under tick arrival."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.reference.model import MINUS_INFINITY, Query
from tests.reference.tick import TickRun, run_ticks
from tests.reference.truth import true_results
from tests.strategies import HUGE, Case, cases, scheduled, slacks

if TYPE_CHECKING:
    from random import Random

    from hypothesis.strategies import DrawFn

    from tests.reference.model import StreamTuple

FOR_EVER = 8 * HUGE


def run_scheduled(case: Case, schedule: list[int], *, horizon: int | None = None) -> TickRun:
    return run_ticks(case.query, case.arrivals, k=schedule.__getitem__, horizon=horizon)


# ---------------------------------------------------------------------------------- required slack


@given(cases(), slacks())
def test_with_constant_k_a_result_is_produced_iff_k_exceeds_its_required_slack(
    case: Case, k: int
) -> None:
    run = run_ticks(case.query, case.arrivals, k=k)
    produced = set(run.produced)
    for result in true_results(case.query, case.arrivals):
        assert (result in produced) == (k > run.required_slack(result))


@given(cases())
def test_k_above_the_largest_required_slack_gives_exactly_the_true_results_in_order(
    case: Case,
) -> None:
    true = true_results(case.query, case.arrivals)
    any_run = run_ticks(case.query, case.arrivals)
    largest = max((any_run.required_slack(r) for r in true), default=MINUS_INFINITY)
    run = run_ticks(case.query, case.arrivals, k=0 if largest < 0 else int(largest) + 1)
    assert sorted(run.produced, key=lambda r: (r.ts, r.arrivals)) == true
    assert [r.ts for r in run.produced] == sorted(r.ts for r in run.produced)


@given(scheduled())
def test_with_varying_k_a_result_is_produced_iff_the_watermark_was_below_it_when_complete(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    produced = set(run.produced)
    for result in true_results(case.query, case.arrivals):
        complete = max(e.tick for e in result.members)
        before = run.watermarks[complete - 1] if complete else MINUS_INFINITY
        assert (result in produced) == (before < result.ts)


@given(scheduled())
def test_results_carry_their_required_slack_whether_produced_or_lost(
    drawn: tuple[Case, list[int]],
) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    for received in run.received:
        for outcome in received.produced + received.lost:
            assert outcome.slack == run.required_slack(outcome.result)


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
    assert run.produced == run_scheduled(case, schedule, horizon=FOR_EVER).produced


@given(scheduled())
def test_every_tuple_reaches_the_join_exactly_once(drawn: tuple[Case, list[int]]) -> None:
    case, schedule = drawn
    run = run_scheduled(case, schedule)
    assert sorted(r.e.arrival for r in run.received) == list(range(len(case.arrivals)))


@given(scheduled(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_within_a_tick_does_not_matter(
    drawn: tuple[Case, list[int]], random: Random
) -> None:
    case, schedule = drawn
    shuffled: list[StreamTuple] = list(case.arrivals)
    random.shuffle(shuffled)
    shuffled.sort(key=lambda e: e.tick)
    again = run_ticks(case.query, shuffled, k=schedule.__getitem__)
    run = run_scheduled(case, schedule)
    assert again == run
    # Nor do the numbers given to the arrivals, but for the order of results with equal ts.
    renamed = [dataclasses.replace(e, arrival=-e.arrival) for e in case.arrivals]
    other = run_ticks(case.query, renamed, k=schedule.__getitem__)
    for attribute in ("produced", "lost"):
        named = {tuple(-n for n in r.arrivals) for r in getattr(other, attribute)}
        assert named == {r.arrivals for r in getattr(run, attribute)}
    assert {-e.arrival for e in other.late} == {e.arrival for e in run.late}


# -------------------------------------------------------------------------------------- the clocks


@st.composite
def with_idle_streams(draw: DrawFn) -> tuple[Case, list[int], list[set[int]]]:
    case, schedule = draw(scheduled(cases(max_m=3)))
    idle = draw(
        st.lists(
            st.sets(st.integers(0, case.m - 1)), min_size=len(schedule), max_size=len(schedule)
        )
    )
    return case, schedule, idle


@given(with_idle_streams())
def test_base_time_and_watermark_never_fall_whoever_is_idle(
    drawn: tuple[Case, list[int], list[set[int]]],
) -> None:
    case, schedule, idle = drawn
    run = run_ticks(
        case.query, case.arrivals, k=schedule.__getitem__, idle=idle.__getitem__, horizon=FOR_EVER
    )
    assert list(run.base_times) == sorted(run.base_times)
    assert list(run.watermarks) == sorted(run.watermarks)
    assert all(w <= b for w, b in zip(run.watermarks, run.base_times, strict=True))
    counted = run.produced + run.lost
    assert len(counted) == len(set(counted))
    assert set(counted) == set(true_results(case.query, case.arrivals))
    assert [r.ts for r in run.produced] == sorted(r.ts for r in run.produced)


@given(cases(), slacks())
def test_nothing_is_late_while_a_stream_has_not_arrived(case: Case, k: int) -> None:
    without_the_last = [e for e in case.arrivals if e.stream != case.m - 1]
    run = run_ticks(Query(case.windows), without_the_last, k=k)
    assert run.late == []
    assert {e.base_time for e in (r.e for r in run.received)} <= {MINUS_INFINITY}

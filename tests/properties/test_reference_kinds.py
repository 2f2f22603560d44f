"""What ``docs/join-kinds.md`` promises, held against the reference."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.conditions import cross_join
from tests.reference.kinds import PRESERVED, How, KindRun, run_kinds
from tests.reference.model import MINUS_INFINITY
from tests.reference.notation import timeline
from tests.reference.tick import run_ticks
from tests.reference.truth import true_results
from tests.strategies import HUGE, Case, cases, scheduled, slacks

if TYPE_CHECKING:
    from tests.reference.kinds import Emit
    from tests.reference.model import Instant, Result

FOR_EVER = 8 * HUGE
PAIRS = cases(max_m=2)
Drawn = tuple[Case, list[int]]

kinds = st.sampled_from(sorted(PRESERVED))
judging = st.sampled_from(("left", "right", "full", "anti"))
emissions = st.sampled_from(("ordered", "eager"))


def run_scheduled(
    drawn: Drawn, *, how: How = "inner", emit: Emit = "ordered", horizon: int | None = None
) -> KindRun:
    case, schedule = drawn
    return run_kinds(
        case.query, case.arrivals, how=how, emit=emit, k=schedule.__getitem__, horizon=horizon
    )


def true_partners(case: Case) -> dict[int, list[Result]]:
    """The true results of each tuple, by its arrival."""
    found = defaultdict(list)
    for result in true_results(case.query, case.arrivals):
        for arrival in result.arrivals:
            found[arrival].append(result)
    return found


def base_times(run: KindRun) -> dict[int, Instant]:
    return {e.arrival: e.base_time for pool in run.join.received for e in pool}


# --------------------------------------------------------------------------------- results at once


@given(scheduled())
def test_in_order_the_join_is_the_one_there_was(drawn: Drawn) -> None:
    case, schedule = drawn
    run = run_scheduled(drawn)
    known = run_ticks(case.query, case.arrivals, k=schedule.__getitem__)
    assert run.produced == set(known.produced)
    assert run.lost == set(known.lost)
    assert [row.ts for row in run.rows] == [result.ts for result in known.produced]
    assert {row.arrivals for row in run.rows} == {result.arrivals for result in known.produced}


@given(scheduled())
def test_results_at_once_are_the_results_in_order(drawn: Drawn) -> None:
    ordered, eager = run_scheduled(drawn), run_scheduled(drawn, emit="eager")
    assert {row.arrivals for row in eager.rows} == {row.arrivals for row in ordered.rows}
    assert len(eager.rows) == len(ordered.rows)
    assert (eager.produced, eager.lost) == (ordered.produced, ordered.lost)


@given(scheduled())
def test_a_result_at_once_leaves_in_the_tick_of_its_last_member(drawn: Drawn) -> None:
    case, _ = drawn
    for row in run_scheduled(drawn, emit="eager").rows:
        assert row.tick == max(case.arrivals[n].tick for n in row.arrivals if n is not None)


@given(scheduled(PAIRS), kinds, emissions)
def test_no_row_leaves_twice_or_below_the_watermark(drawn: Drawn, how: How, emit: Emit) -> None:
    run = run_scheduled(drawn, how=how, emit=emit)
    assert len({row.arrivals for row in run.rows}) == len(run.rows)
    reach = drawn[0].windows[0] if how == "semi" else 0  # a semi row has the time of its tuple
    assert all(row.ts + reach > run.watermarks[row.tick] for row in run.rows)


# ------------------------------------------------------------------------------------ the accounts


@given(scheduled(PAIRS), judging, emissions)
def test_what_is_true_is_emitted_or_counted_as_lost(drawn: Drawn, how: How, emit: Emit) -> None:
    case, _ = drawn
    run = run_scheduled(drawn, how=how, emit=emit, horizon=FOR_EVER)
    partners = true_partners(case)
    true = set(true_results(case.query, case.arrivals))
    assert run.produced | run.lost == true
    assert not run.produced & run.lost
    unmatched = {
        e.arrival for e in case.arrivals if e.stream in PRESERVED[how] and not partners[e.arrival]
    }
    assert (run.nulls - run.false_nulls) | run.lost_nulls == unmatched
    assert not run.nulls & run.lost_nulls
    assert run.false_nulls == {n for n in run.nulls if partners[n]}


@given(scheduled(PAIRS), judging)
def test_no_tuple_leaves_alone_of_which_a_partner_is_known(drawn: Drawn, how: How) -> None:
    run = run_scheduled(drawn, how=how, horizon=FOR_EVER)
    known = defaultdict(list)
    for found in run.join.found:
        for arrival in found.result.arrivals:
            known[arrival].append(found.last.origin.tick)
    for judged in run.judged:
        if judged.has_left:
            row = next(
                r for r in run.rows if judged.e.arrival in r.arrivals and r.ts == judged.verdict
            )
            left = row.tick
            assert all(left is not None and tick > left for tick in known[judged.e.arrival])


@given(scheduled(PAIRS), judging, emissions)
def test_a_short_horizon_changes_no_pair_and_hides_losses_only(
    drawn: Drawn, how: How, emit: Emit
) -> None:
    whole = run_scheduled(drawn, how=how, emit=emit, horizon=FOR_EVER)
    short = run_scheduled(drawn, how=how, emit=emit, horizon=0)
    assert short.produced == whole.produced
    assert short.lost <= whole.lost
    # A loss that is not known cannot keep a tuple from leaving alone.
    assert short.nulls >= whole.nulls
    assert short.false_nulls <= short.nulls


# -------------------------------------------------------------------------------- what K would give


@given(PAIRS, slacks(), judging)
def test_with_constant_k_a_null_is_false_iff_k_lies_between_its_tuple_and_its_partners(
    case: Case, k: int, how: How
) -> None:
    run = run_kinds(case.query, case.arrivals, how=how, k=k, horizon=FOR_EVER)
    base, partners = base_times(run), true_partners(case)
    for judged in run.judged:
        own, v = judged.e.arrival, judged.verdict
        first: Instant = min(
            (base[n] - v for r in partners[own] for n in r.arrivals if n != own),
            default=MINUS_INFINITY,
        )
        assert judged.is_false == (bool(partners[own]) and base[own] - v < k <= first)
        if not partners[own]:
            assert judged.has_left == (k > judged.slack)
            assert judged.is_lost == (k <= judged.slack)


@given(PAIRS, slacks())
def test_with_constant_k_a_semi_row_leaves_iff_k_exceeds_the_least_of_its_slacks(
    case: Case, k: int
) -> None:
    run = run_kinds(case.query, case.arrivals, how="semi", k=k, horizon=FOR_EVER)
    left = {row.arrivals[0] for row in run.rows}
    base, partners = base_times(run), true_partners(case)
    for judged in run.judged:
        own = judged.e.arrival
        slacks_of = [max(base[n] for n in r.arrivals) - r.ts for r in partners[own]]
        assert (own in left) == bool(slacks_of and k > min(slacks_of))
        assert (own in run.lost_semi) == bool(slacks_of and k <= min(slacks_of))


# ------------------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("text", "k", "left"),
    [
        # Windows of 2: the verdict on s1:1 falls at 3, when the slower stream has come to 3.
        ("s1:1 s2:1 | s1:9 s2:9", 0, {(0, 1)}),
        ("s1:1 s2:9 | s1:9", 0, {(0, None)}),
        # The partner comes in the tick of the verdict, and after it.
        ("s1:1 s2:0 | s1:9 s2:9 s2:2", 0, {(0, 1), (0, 4)}),
        ("s1:1 | s1:9 s2:9 | s2:2", 0, {(0, None)}),
        ("s1:1 | s1:9 s2:9 | s2:2", 9, {(0, 3)}),
        # The partner comes before the verdict, but too late for the pair: neither leaves.
        ("s1:1 | s1:4 s2:2 | s2:1", 0, {(0, 2)}),
        ("s1:1 | s1:3 s2:4 | s2:1", 1, set()),
    ],
)
def test_verdicts_by_hand(text: str, k: int, left: set[tuple[int, int | None]]) -> None:
    arrivals = timeline(text)
    case = Case(cross_join(2), (2, 2), tuple(arrivals))
    run = run_kinds(case.query, arrivals, how="left", k=k)
    rows = {row.arrivals for row in run.rows if row.arrivals[0] == 0}
    assert rows == left


def test_a_partner_after_the_verdict_makes_the_null_false_and_its_pair_lost() -> None:
    arrivals = timeline("s1:1 | s1:9 s2:9 | s2:2 | s1:2")
    query = cross_join(2).query((2, 2))
    run = run_kinds(query, arrivals, how="left", horizon=20)
    assert run.nulls >= {0}
    assert run.false_nulls == {0}
    # The last tuple comes after its own verdict, but it has a partner: no null of it is lost.
    assert {r.arrivals for r in run.lost} == {(0, 3), (4, 3)}
    assert run.lost_nulls == set()
    alone = run_kinds(query, timeline("s1:9 s2:9 | s1:2"), how="left", horizon=20)
    assert alone.lost_nulls == {2}

"""The true results, found in two ways."""

from __future__ import annotations

from hypothesis import given

from tests.reference.model import Query
from tests.reference.notation import timeline
from tests.reference.per_tuple import run_join_alone
from tests.reference.truth import results_of_sorted_input, true_results
from tests.strategies import Case, cases


@given(cases())
def test_trying_every_combination_finds_what_the_join_finds_on_sorted_input(case: Case) -> None:
    found = results_of_sorted_input(case.query, case.arrivals)
    assert len(found) == len(set(found))
    assert set(found) == set(true_results(case.query, case.arrivals))
    assert [r.ts for r in found] == sorted(r.ts for r in found)


@given(cases())
def test_which_of_several_equal_timestamps_triggers_never_changes_the_results(case: Case) -> None:
    backwards = sorted(case.arrivals, key=lambda e: (e.ts, -e.arrival))
    assert set(run_join_alone(case.query, backwards).produced) == set(
        true_results(case.query, case.arrivals)
    )


@given(cases())
def test_true_results_do_not_depend_on_the_order_of_arrival(case: Case) -> None:
    assert true_results(case.query, reversed(case.arrivals)) == true_results(
        case.query, case.arrivals
    )


def test_a_window_is_closed_at_both_ends_and_may_be_empty_of_time() -> None:
    two = timeline("s1:5 s2:5 s2:6")
    assert [r.arrivals for r in true_results(Query((0, 0)), two)] == [(0, 1)]
    assert [r.arrivals for r in true_results(Query((1, 0)), two)] == [(0, 1), (0, 2)]
    assert [r.arrivals for r in true_results(Query((0, 1)), two)] == [(0, 1)]

"""Figure 5: an out-of-order tuple at the join changes the selectivity, and the recall.

The figure itself is not in our copy. The text gives: the selectivity is 1/3 when the input is
ideal (a), no longer 1/3 when one tuple of S1 reaches the join out of order (b, c), and what that
costs depends on the tuple's productivity. The tuples are ours:

    S1:  A1    B3    D5        A1 joins a2 and a4, B3 joins b6, D5 joins nothing.
    S2:     a2    a4    b6     All are within each other's windows: 9 pairs, 3 results.
"""

from __future__ import annotations

from fractions import Fraction

from tests.reference.model import Query, Run
from tests.reference.notation import letters
from tests.reference.per_tuple import run_join_alone
from tests.reference.truth import true_results

QUERY = Query((10, 10), lambda rows: rows[0]["x"] == rows[1]["x"])


def selectivity(run: Run) -> Fraction:
    """Join results over cross-join results, of all tuples that were in order."""
    n_join = sum(r.n_join for r in run.received)
    n_cross = sum(r.n_cross for r in run.received)
    return Fraction(n_join, n_cross)


def recall(run: Run) -> Fraction:
    tuples = [r.e.origin for r in run.received]
    return Fraction(len(run.produced), len(true_results(QUERY, tuples)))


def test_a_selectivity_is_one_third_when_the_input_is_ideal() -> None:
    run = run_join_alone(QUERY, letters("A1 a2 B3 a4 D5 b6"))
    assert selectivity(run) == Fraction(1, 3)
    assert recall(run) == 1


def test_b_a_late_tuple_of_high_productivity_lowers_selectivity_and_recall() -> None:
    # A1 comes after its partners: 2 of the 9 pairs are never looked at, both were results.
    run = run_join_alone(QUERY, letters("a2 B3 a4 A1 D5 b6"))
    assert selectivity(run) == Fraction(3 - 2, 9 - 2)
    assert recall(run) == Fraction(1, 3)


def test_c_a_late_tuple_of_no_productivity_raises_selectivity_and_costs_nothing() -> None:
    # D5 comes last of all: 3 of the 9 pairs are never looked at, none was a result.
    run = run_join_alone(QUERY, letters("A1 a2 B3 a4 b6 D5"))
    assert selectivity(run) == Fraction(3, 9 - 3)
    assert recall(run) == 1


def test_productivity_is_counted_at_the_arrival_of_each_tuple() -> None:
    run = run_join_alone(QUERY, letters("A1 a2 B3 a4 D5 b6"))
    #                                                 A1      a2      B3      a4      D5      b6
    counted = [(r.n_join, r.n_cross) for r in run.received]
    assert counted == [(0, 0), (1, 1), (0, 1), (1, 2), (0, 2), (1, 3)]

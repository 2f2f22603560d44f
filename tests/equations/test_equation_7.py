"""Equation (7): what the next interval must reach so that the period does, worked out by hand."""

from __future__ import annotations

import pytest

from recalljoin.quality.paper.result_size_monitor import ResultSizeMonitor


def monitor(*sizes: tuple[int, float], period: int = 5, interval: int = 1) -> ResultSizeMonitor:
    observed = ResultSizeMonitor(period=period, interval=interval)
    for produced, true in sizes:
        observed.observe(produced, true)
    return observed


FOUR = ((8, 10), (9, 10), (10, 10), (7, 10))  # 34 of 40 in the last P - L, 10 in the last L


def test_what_was_lost_must_be_made_up_for() -> None:
    # (0.8 * (40 + 10) - 34) / 10 = 0.6: better than asked for so far, so less will do.
    assert monitor(*FOUR).instant_requirement(0.8) == pytest.approx(0.6)
    # (0.86 * 50 - 34) / 10 = 0.9
    assert monitor(*FOUR).instant_requirement(0.86) == pytest.approx(0.9)


def test_no_more_than_everything_and_no_less_than_nothing_is_asked_for() -> None:
    # (0.9 * 50 - 34) / 10 = 1.1  ->  1;  (0.6 * 50 - 34) / 10 = -0.4  ->  0
    assert monitor(*FOUR).instant_requirement(0.9) == 1.0
    assert monitor(*FOUR).instant_requirement(0.6) == 0.0


def test_a_requirement_below_one_is_not_raised_to_one() -> None:
    # The paper prints max{requirement, 1}.
    assert monitor(*FOUR).instant_requirement(0.8) < 1


def test_sizes_are_those_of_the_last_p_minus_l() -> None:
    # P = 5 L: four intervals count, the first of five is forgotten.
    observed = monitor((1000, 1000), *FOUR)
    assert (observed.n_produced, observed.n_true) == (34, 40)


def test_the_next_interval_is_taken_to_be_as_large_as_the_last() -> None:
    # 18 of 22 so far, the last interval had 2: (0.9 * (22 + 2) - 18) / 2 = 1.8  ->  1
    # with 20 in the last: (0.9 * (22 + 20) - 18) / 20 = 0.99
    assert monitor((16, 20), (2, 2)).instant_requirement(0.9) == 1.0
    assert monitor((2, 2), (16, 20)).instant_requirement(0.9) == pytest.approx(0.99)


def test_an_interval_without_results_asks_for_the_recall_of_the_period() -> None:
    # N_true(L) = 0 divides the requirement by nothing: Eq. (7) holds whatever it is.
    assert monitor((5, 10), (0, 0)).instant_requirement(0.9) == 0.9


def test_with_p_equal_to_l_every_interval_is_on_its_own() -> None:
    assert monitor((5, 10), period=1).instant_requirement(0.9) == pytest.approx(0.9)

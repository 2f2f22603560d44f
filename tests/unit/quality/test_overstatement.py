"""By how much recall was overstated: estimates, and what became of them."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.quality.overstatement import (
    AT_FIRST,
    AT_MOST,
    FEWEST,
    IN_A_PERIOD,
    OVER,
    PERIODS,
    Overstatement,
)
from recalljoin.quality.tally import Tally

LENGTH = 16


def lost(at: int, n: int) -> Tally:
    return Tally.of(np.array([at]), np.array([n]), bucket=1)


def one(begin: int, *, true: float = 100.0, known: int = 100) -> Overstatement:
    made = Overstatement(LENGTH)
    made.estimate(begin, begin + LENGTH, true=true, known=known)
    return made


def after(excesses: list[float]) -> Overstatement:
    """Estimates of which so many more results came to light, a sixteenth of a period apart."""
    made = Overstatement(LENGTH)
    for end, excess in enumerate(excesses):
        made.estimate(end - LENGTH, end, true=1000.0, known=1000)
        made.lose(lost(end, round(1000 * excess)))
        made.settle(end, end + 1)
    return made


def test_a_loss_counts_with_the_periods_it_lies_in() -> None:
    # A period is open at the left and closed at the right.
    for at, excess in ((0, 0.0), (1, 0.25), (LENGTH, 0.25), (LENGTH + 1, 0.0)):
        made = one(0)
        made.lose(lost(at, 25))
        made.settle(LENGTH, LENGTH + 1)
        assert list(made._excesses) == [excess]


def test_buckets_of_times_in_nanoseconds_are_told_apart() -> None:
    begin = 2**60
    for at, excess in ((begin, 0.0), (begin + 1, 0.25), (begin + LENGTH + 1, 0.0)):
        made = one(begin)
        made.lose(lost(at, 25))
        made.settle(begin + LENGTH, begin + LENGTH + 1)
        assert list(made._excesses) == [excess]


def test_a_period_is_over_when_losses_are_no_longer_counted_or_three_periods_later() -> None:
    for join, counted_since, is_over in (
        (LENGTH, LENGTH, False),
        (LENGTH, LENGTH + 1, True),
        (LENGTH + OVER * LENGTH, 0, False),
        (LENGTH + OVER * LENGTH + 1, 0, True),
    ):
        made = one(0)
        made.settle(join, counted_since)
        assert bool(made._excesses) == is_over


def test_without_estimates_over_a_period_no_margin_is_known() -> None:
    assert after([0.5] * (IN_A_PERIOD - 1)).margin is None
    assert after([0.5] * IN_A_PERIOD).margin is not None
    rare = Overstatement(LENGTH)
    for n in range(1, FEWEST + 1):
        # A batch may be longer than a period.
        assert rare.margin is None
        rare.estimate(100 * n - LENGTH, 100 * n, true=10.0, known=11)
        rare.settle(100 * n, 100 * n + 1)
    assert rare.margin == pytest.approx(0.1 * AT_MOST)


@pytest.mark.parametrize(("n", "times"), [(1, 3), (5, 3), (8, 2.5), (10, 2), (20, 1)])
def test_the_margin_is_the_worst_of_twenty_periods_and_more_while_there_are_fewer(
    n: int, times: float
) -> None:
    excesses = [0.01] * (n * IN_A_PERIOD)
    excesses[5] = 0.04
    assert after(excesses).margin == pytest.approx(0.04 * times)


def test_estimates_that_were_too_careful_make_no_margin() -> None:
    made = Overstatement(LENGTH)
    for end in range(40):
        made.estimate(end - LENGTH, end, true=120.0, known=100)
        made.settle(end, end + 1)
    assert made.margin == 0.0


def test_old_excesses_are_forgotten() -> None:
    made = after([0.9] * 40 + [0.1] * PERIODS * IN_A_PERIOD)
    assert made.margin == pytest.approx(0.1)


def test_a_period_has_sixteen_estimates_at_most() -> None:
    made = Overstatement(100 * IN_A_PERIOD)
    begin, taken = 7777, []
    for end in range(begin, begin + (AT_FIRST + 1) * 100 * IN_A_PERIOD, 10):
        if made.is_due(end):
            made.estimate(end - 100, end, true=1.0, known=1)
            taken.append(end)
    # None of the first periods, when hardly any late tuple can have come.
    assert taken[0] >= begin + AT_FIRST * 100 * IN_A_PERIOD
    assert len(taken) == IN_A_PERIOD

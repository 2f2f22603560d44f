"""The K that is kept through a calm."""

from __future__ import annotations

import numpy as np

from recalljoin.quality.returns import SHORTEST, kept_for_returns
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD


def kept(*runs: tuple[int, int], share: float = 0.95) -> int:
    """What is kept after runs of needs, each so long and of one size; periods need the same."""
    needs = np.concatenate([np.full(length, need) for length, need in runs])
    return kept_for_returns(needs, needs, share=share)


def test_what_has_not_come_back_is_not_expected_back() -> None:
    assert kept((20, 9)) == 0
    assert kept((20, 9), (1, 1)) == 0
    assert kept((200, 1), (20, 9), (40, 1)) == 0


def test_what_has_come_back_once_is_expected_back() -> None:
    assert kept((20, 9), (100, 1), (20, 9)) == 9
    assert kept((20, 9), (100, 1), (20, 9), (200, 1)) == 9


def test_after_twice_the_calm_that_it_came_back_from_it_is_given_up() -> None:
    assert kept((20, 9), (100, 1), (20, 9), (201, 1)) == 0


def test_the_longest_calm_decides_and_not_the_newest() -> None:
    bursts = [(20, 9), (100, 1), (20, 9), (40, 1), (20, 9), (200, 1)]
    assert kept(*bursts) == 9
    assert kept(*bursts, (1, 1)) == 0


def test_short_calms_do_not_count() -> None:
    short = [(5, 9), (SHORTEST - 1, 1)] * 20
    assert kept(*short, (5, 9)) == 0
    assert kept(*short, (5, 9), (SHORTEST, 1), (5, 9)) == 9


def test_a_burst_of_a_quarter_of_the_size_is_the_same_disorder_and_a_smaller_one_is_calm() -> None:
    assert kept((30, 9), (100, 1), (5, 3)) == 9
    assert kept((30, 9), (100, 1), (5, 2)) == 0


def test_where_needs_merely_vary_there_is_no_calm() -> None:
    assert kept(*[(40, 9), (40, 3)] * 9) == 0


def test_disorder_that_few_periods_suffer_from_is_not_waited_for() -> None:
    assert kept((20, 9), (800, 1), (20, 9), (10, 1)) == 0
    assert kept((20, 9), (800, 1), (20, 9), (10, 1), share=0.96) == 9


def test_smaller_disorder_that_came_back_since_larger_disorder_was_given_up_is_kept() -> None:
    large = [(30, 100), (100, 1), (30, 100)]
    small = [(90, 1), (20, 9), (100, 1), (20, 9), (50, 1)]
    assert kept(*large, *small[:1]) == 100
    assert kept(*large, *small) == 9
    # And that is given up as well.
    assert kept(*large, *small, (151, 1)) == 0


def test_what_is_kept_is_what_periods_need_and_not_what_stretches_need() -> None:
    stretches = np.repeat([50, 1, 50, 1], [20, 100, 20, 10])
    periods = np.repeat([30, 1, 30], [70, 50, 20])
    assert kept_for_returns(stretches, periods, share=0.95) == 30


def test_with_everything_in_order_or_nothing_known_nothing_is_kept() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert kept_for_returns(nothing, nothing, share=0.95) == 0
    assert kept_for_returns(np.zeros(9, dtype=np.int64), nothing, share=0.95) == 0
    assert kept((500, 0)) == 0


def test_periods_alone_tell_nothing() -> None:
    # Stretches with few results may be left out, periods with more of them may not.
    periods = np.full(2 * SLOTS_PER_PERIOD, 9)
    assert kept_for_returns(np.ones(5, dtype=np.int64), periods, share=0.95) == 0

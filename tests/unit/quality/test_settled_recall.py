"""Recall of periods that are over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality import settled_recall as module
from recalljoin.quality.settled_recall import SettledRecall
from tests.unit.quality.test_recall import Counts, seen

WINDOWS = (20, 10)


def test_the_lowest_of_all_periods_that_ended_is_told() -> None:
    # Ten results a unit of time; in 300 to 350 half of them are lost. The join time jumps from 100
    # to 600 and leaps over the dip.
    lost = dict.fromkeys(range(300, 350), 5)
    produced = {t: 10 - lost.get(t, 0) for t in range(1000)}
    known = SettledRecall([seen(1000, produced, lost)], period=100, windows=WINDOWS)
    assert known.lowest(100, 600).recall == pytest.approx(0.75)
    assert known.lowest(100, 298).recall == 1.0
    assert known.lowest(500, 600).recall == 1.0
    assert known.lowest(NEVER, FOREVER).recall == pytest.approx(0.75)


def test_batches_in_which_no_period_ended_have_no_recall() -> None:
    known = SettledRecall([seen(1000, {500: 10})], period=100, windows=WINDOWS)
    for after, upto in ((550, 550), (NEVER, NEVER), (NEVER, 499), (601, 900), (FOREVER, FOREVER)):
        assert known.lowest(after, upto) == (None, None, None)


def test_a_period_ends_when_its_last_bucket_is_over() -> None:
    known = SettledRecall([seen(1000, {50: 9}, {50: 1}, bucket=10)], period=100, windows=WINDOWS)
    assert known.lowest(NEVER, 58).recall is None
    assert known.lowest(NEVER, 59).recall == 0.9
    assert known.lowest(59, 69).recall == 0.9


def test_of_the_first_period_the_longest_part_counts() -> None:
    # The very first result is lost, and nine others are not.
    produced = dict.fromkeys(range(1, 10), 1)
    known = SettledRecall([seen(1000, produced, {0: 1})], period=100, windows=WINDOWS)
    assert known.lowest(NEVER, 9).recall == 0.9
    assert known.lowest(NEVER, 99).recall == 0.9


def test_at_the_end_of_input_no_period_ends_after_the_last_result() -> None:
    produced = dict.fromkeys(range(0, 990), 10)
    known = SettledRecall([seen(1000, produced, {990: 10})], period=100, windows=WINDOWS)
    assert known.lowest(900, FOREVER).recall == pytest.approx(0.99)


def test_tuples_beyond_the_horizon_lower_the_recall_of_their_time() -> None:
    usual = dict.fromkeys(range(1000), 1)
    produced = dict.fromkeys(range(1000), 10)
    # Those of 400 to 600 come once more, long after.
    again = dict.fromkeys(range(400, 600), 1)
    profiles = [
        seen(1000, produced, received=(usual, usual)),
        seen(2000, {}, {}, again, (again, {})),
    ]
    known = SettledRecall(profiles, period=100, windows=WINDOWS)
    assert known.lowest(500, 599).recall == pytest.approx(0.5)
    # In a period there are 1000 results, and 120 such tuples reach into it, with 31 partners each.
    assert known.lowest(500, 599).at_least == pytest.approx(1000 / (1000 + 120 * 31), rel=0.1)
    assert known.lowest(500, 599).at_most == 1.0
    assert known.lowest(NEVER, 350).recall == 1.0
    assert known.lowest(800, 900).recall == 1.0


def test_a_period_of_which_nothing_is_known_but_tuples_beyond_the_horizon_has_lost_all() -> None:
    usual = dict.fromkeys(range(1000), 1)
    late = {t: n for t, n in usual.items() if 400 <= t < 600}
    in_time = {t: n for t, n in usual.items() if t not in late}
    produced = dict.fromkeys(in_time, 10)
    profiles = [
        seen(1000, produced, received=(in_time, usual)),
        seen(2000, {}, {}, late, (late, {})),
    ]
    known = SettledRecall(profiles, period=100, windows=WINDOWS)
    assert known.lowest(550, 560) == (0.0, 0.0, None)
    assert known.lowest(300, 380).recall == 1.0


counts = st.dictionaries(st.integers(0, 3000), st.integers(1, 9), max_size=12)


@given(counts, counts, counts, st.integers(0, 3000), st.integers(0, 3000))
def test_periods_that_are_skipped_because_nothing_changes_hide_nothing(
    produced: Counts, lost: Counts, received: Counts, one: int, other: int
) -> None:
    known = SettledRecall(
        [seen(3000, produced, lost, received=(received, received))], period=100, windows=WINDOWS
    )
    after, upto = sorted((one, other))
    whole = known.lowest(after, upto)
    few = module._FEW
    try:
        module._FEW = 0
        assert known.lowest(after, upto) == whole
    finally:
        module._FEW = few


def test_recall_of_single_periods() -> None:
    known = SettledRecall([seen(99, {10: 3, 50: 1}, {50: 1})], period=40, windows=WINDOWS)
    recall = known.at(np.array([9, 10, 49, 50, 90]))[0]
    np.testing.assert_allclose(recall, [np.nan, 1.0, 1.0, 0.5, np.nan])

"""Required slack of results, put to the time of the results."""

from __future__ import annotations

import numpy as np
import pytest

from recalljoin.engine.slack_bins import ENOUGH, slack_bin
from recalljoin.engine.times import FOREVER
from recalljoin.quality.profile import Profile
from recalljoin.quality.slack_by_time import BLOCK, SlackByTime
from tests.unit.quality.intervals import interval


def by_time(n_slots: int = 10, n_open: int = 10) -> SlackByTime:
    """Slots of 100."""
    return SlackByTime(width=100, n_slots=n_slots, n_open=n_open)


def test_what_is_produced_lies_in_the_slot_of_its_time() -> None:
    made = by_time()
    made.observe(interval([6, 2, 0, 2], join_time=199))
    made.observe(interval([10], join_time=299))
    assert (made.first, made.last) == (1, 2)
    assert made.within(1, 1)[:4].tolist() == [6, 8, 8, 10]
    assert made.within(2, 2)[:4].tolist() == [10, 10, 10, 10]
    assert made.within(1, 2)[:4].tolist() == [16, 18, 18, 20]


def test_an_interval_longer_than_a_slot_is_spread_by_the_times_of_its_results() -> None:
    made = by_time()
    made.observe(interval([30, 10], join_time=399, times=[150, 250, 350, 360]))
    assert made.within(1, 1)[:2].tolist() == pytest.approx([7.5, 10])
    assert made.within(3, 3)[:2].tolist() == pytest.approx([15, 20])


def test_what_is_lost_lies_where_its_slack_says() -> None:
    made = by_time()
    for end in range(1, 7):
        made.observe(interval([100], join_time=100 * end - 1, base_time=100 * end - 1))
    # Base time went from 599 to 619. Slacks of 10, 200 and 400 below it.
    lost = [0] * 400
    places = [slack_bin(slack, 0) for slack in (10, 200, 400)]
    for place, n in zip(places, (3, 5, 7), strict=True):
        lost[place] = n
    made.observe(interval([0], lost, join_time=599, base_time=619))
    for slot, place, n in zip((5, 4, 2), places, (3, 5, 7), strict=True):
        assert made.within(slot, slot)[[place - 1, place, -1]].tolist() == [100, 100 + n, 100 + n]


@pytest.mark.parametrize(("n_slots", "n_open"), [(3, 10), (10, 3)])
def test_a_loss_nobody_looks_back_to_any_more_counts_in_the_newest_slot(
    n_slots: int, n_open: int
) -> None:
    made = by_time(n_slots, n_open)
    for end in range(1, 7):
        made.observe(interval([100], join_time=100 * end - 1))
    made.observe(interval([0], [0] * 400 + [4], join_time=599, base_time=599))
    assert made.within(3, 4)[-1] == 200
    assert made.within(5, 5)[-1] == 104


def test_losses_of_one_long_tick_go_by_the_base_time_before_it() -> None:
    made = by_time()
    for end in range(1, 4):
        made.observe(interval([100], join_time=100 * end - 1))
    # The base time leaps from 299 to 899; 10 results at 250 were lost, seen from 299.
    lost = [0] * 400
    lost[slack_bin(49, 0)] = 10
    made.observe(interval([0], lost, join_time=899, tick_span=600))
    assert made.within(2, 2)[-1] == 110


def test_results_of_a_backlog_are_left_out_and_its_losses_are_not() -> None:
    made = by_time()
    made.observe(interval([100], join_time=99))
    made.observe(interval([50], [0, 3], join_time=199, tick_span=100), tells_delays=False)
    assert made.last == 1
    assert made.within(0, 1)[-1] == 103


def test_losses_found_later_among_the_results_of_a_backlog_are_left_out_with_them() -> None:
    made, other = by_time(), by_time()
    made.observe(interval([100], join_time=99))
    made.observe(interval([50], join_time=199, tick_span=100), tells_delays=False)
    other.restore(made.snapshot())
    for each in (made, other):
        each.observe(interval([0], [0, 3], join_time=199, base_time=199))
        assert each.within(0, 1)[-1] == 100
        assert each.needs(1, range(2), recall=0.9).tolist() == [0, -1]


def test_losses_that_nobody_could_count_are_added_as_estimated() -> None:
    made = by_time()
    made.observe(interval([100], join_time=99))
    made.observe(interval([100], join_time=199), unseen=np.array([0.0] * 60 + [7.5]))
    assert made.within(0, 1)[-1] == pytest.approx(207.5)


def test_after_a_long_gap_nothing_old_is_left() -> None:
    made = by_time()
    made.observe(interval([5], join_time=99))
    made.observe(interval([7], join_time=1_000_099))
    assert made.within(made.oldest, made.last)[-1] == 7


def test_before_any_result_nothing_is_known() -> None:
    made = by_time()
    made.observe(Profile.empty(2, granularity=10))
    assert made.first is None


def test_the_end_of_the_input_is_not_a_time() -> None:
    made = by_time()
    made.observe(interval([5], join_time=199))
    made.observe(interval([5], join_time=FOREVER, base_time=FOREVER, times=[250]))
    assert made.last == 1
    assert made.within(2, 2)[-1] == 5


def test_a_need_is_the_smallest_k_that_reaches_the_recall() -> None:
    made = by_time()
    made.observe(interval([80, 15, 5], join_time=99))
    made.observe(interval([95, 0, 0, 5], join_time=199))
    made.observe(interval([0], join_time=299))
    assert made.needs(1, range(3), recall=0.9).tolist() == [1, 0, -1]
    # 175, 190, 195, 200 of 200 results: 180 are asked for, or 196.
    assert made.needs(2, range(1, 2), recall=0.9).tolist() == [1]
    assert made.needs(2, range(1, 2), recall=0.98).tolist() == [3]
    assert made.needs(2, range(1, 1), recall=0.9).tolist() == []


def test_needs_of_many_stretches_are_those_of_each_alone() -> None:
    made = by_time(n_slots=40)
    rng = np.random.default_rng(3)
    for end in range(1, 31):
        results = (rng.integers(0, 50, 30) * 10 ** rng.integers(0, 6)).tolist()
        made.observe(interval(results, rng.integers(0, 9, 60).tolist(), join_time=100 * end - 1))
    for n in (1, 4, 10):
        together = made.needs(n, range(n - 1, 30), recall=0.9)
        for end, need in enumerate(together.tolist(), start=n - 1):
            within = made.within(end - n + 1, end)
            assert need == ENOUGH[np.argmax(within >= 0.9 * within[-1])]


@pytest.mark.parametrize("at", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 5 * BLOCK, 7000])
def test_a_need_lies_in_whatever_block_of_bins(at: int) -> None:
    made = by_time()
    bins = [0] * 7200
    bins[0] += 10
    bins[at] += 80
    bins[-1] += 10
    made.observe(interval(bins, join_time=99))
    assert made.needs(1, range(1), recall=0.9).tolist() == [ENOUGH[at]]
    assert made.needs(1, range(1), recall=1.0).tolist() == [ENOUGH[7199]]


def test_a_snapshot_goes_on_as_the_original() -> None:
    made, other = by_time(), by_time()
    for end in range(1, 15):
        made.observe(interval([9, 3, end], [0, 1, 2], join_time=100 * end - 1))
    other.restore(made.snapshot())
    for each in (made, other):
        each.observe(interval([4, 4], [0, 0, 0, 9], join_time=1599))
    assert other.snapshot() == made.snapshot()
    assert other.needs(3, range(12, 16), recall=0.9).tolist() == (
        made.needs(3, range(12, 16), recall=0.9).tolist()
    )

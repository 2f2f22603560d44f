"""Recall as measured."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.times import NEVER
from recalljoin.quality.profile import Profile
from recalljoin.quality.recall import RecallMeter, Timeline, fulfilment, recall_against
from recalljoin.quality.tally import Tally

Counts = dict[int, int]


def tally(counts: Counts, bucket: int = 1) -> Tally:
    times = np.array(list(counts), dtype=np.int64)
    return Tally.of(times, np.array(list(counts.values()), dtype=np.int64), bucket=bucket)


def seen(
    join_time: int,
    produced: Counts | None = None,
    lost: Counts | None = None,
    beyond: Counts | None = None,
    received: tuple[Counts, Counts] = ({}, {}),
    *,
    slack: Counts | None = None,
    base_time: int | None = None,
    bucket: int = 1,
) -> Profile:
    """What a stretch has shown; tuples beyond the horizon are of the first stream."""
    late = tally(beyond or {}, bucket)
    bins = np.zeros((2, 1 + max(slack or {0: 0})), dtype=np.int64)
    for at, n in (slack or {}).items():
        bins[0, at] = n
    return dataclasses.replace(
        Profile.empty(2, granularity=10, bucket=bucket),
        produced=tally(produced or {}, bucket),
        lost=tally(lost or {}, bucket),
        received=tuple(tally(each, bucket) for each in received),
        beyond=(late, tally({})),
        unknown=np.array([late.total, 0.0]),
        ends=np.array([join_time, join_time]),
        slack=bins,
        join_time=join_time,
        base_time=join_time if base_time is None else base_time,
    )


def meter(*profiles: Profile, bucket: int = 1, known_since: int = NEVER) -> RecallMeter:
    made = RecallMeter(period=100, windows=(20, 10), bucket=bucket, known_since=known_since)
    for profile in profiles:
        made.observe(profile)
    return made


def test_without_any_result_there_is_no_recall() -> None:
    for made in (meter(), meter(seen(NEVER)), meter(seen(500))):
        measured = made.measure()
        assert (measured.recall, measured.at_least, measured.at_most) == (None, None, None)


@pytest.mark.parametrize(("slack", "recall"), [(150, 0.0), (3, None)])
def test_where_most_results_come_to_light_later_none_known_does_not_mean_none(
    slack: int, recall: float | None
) -> None:
    # What is found is always older than the last period.
    lost = [seen(100 * n, None, {100 * n - 150: 5}, slack={slack: 5}) for n in range(1, 10)]
    assert meter(*lost).measure().recall == recall


def test_losses_found_while_the_base_time_stands_still_tell_of_results_to_come() -> None:
    # The base time leaps ahead of everything that is still to come, and stands.
    usual = [seen(100 * n, {100 * n - 1: 10}, slack={0: 10}) for n in range(1, 10)]
    leap = seen(9000, {9000: 1}, slack={0: 1})
    late = [seen(9000, None, {1000 + n: 10}, slack={250: 10}, base_time=9000) for n in range(20)]
    assert meter(*usual, leap).measure().recall == 1.0
    assert (meter(*usual, leap, *late).measure().recall or 0.0) < 0.5


def test_the_period_is_open_at_the_left_and_closed_at_the_right() -> None:
    counted = meter(seen(200, {100: 1000, 101: 7, 200: 1}, {100: 1000, 101: 2})).measure()
    assert (counted.until, counted.produced, counted.lost) == (200, 8, 2)
    assert (counted.recall, counted.at_most) == (0.8, 0.8)


def test_until_estimates_can_be_judged_the_lower_bound_is_0() -> None:
    counted = meter(seen(200, {150: 8}, {150: 2}, slack={0: 10})).measure()
    assert (counted.recall, counted.margin, counted.at_least) == (0.8, None, 0.0)
    # Each period is complete when it ends. After three more, a period's estimates are over.
    whole = [seen(25 * n, {25 * n: 8}, {25 * n - 1: 2}, slack={0: 10}) for n in range(1, 30)]
    judged = meter(*whole).measure()
    assert (judged.recall, judged.margin, judged.at_least) == (0.8, 0.0, 0.8)


def test_the_lower_bound_allows_for_as_much_as_estimates_have_missed() -> None:
    # Nobody sees before the end what half of the results need: their slack is not told of.
    made = meter()
    for n in range(1, 60):
        found_late = {25 * n - 130: 8} if n > 6 else {}
        made.observe(seen(25 * n, {25 * n: 8}, found_late, slack={0: 8}))
    measured = made.measure()
    assert measured.recall == 1.0
    # Of twice as many, while few periods are over.
    assert measured.margin is not None
    assert 1.0 < measured.margin <= 3.0
    assert measured.at_least == pytest.approx(1 / (1 + measured.margin))


def test_losses_found_later_lower_the_recall_of_the_time_they_belong_to() -> None:
    made = meter(seen(200, {150: 10, 200: 10}))
    assert made.measure().recall == 1.0  # provisional
    made.observe(seen(210, {}, {150: 10}))
    assert made.measure().recall == pytest.approx(20 / 30)


def test_a_tuple_beyond_the_horizon_completes_at_most_what_there_is_around_it() -> None:
    # The tuple at 95 lies before the period (100, 200], but its results may be in it, up to 20
    # later; its partners lie from 10 before it to 20 after it. That at 70 cannot reach so far.
    others = {84: 100, 85: 3, 115: 4, 116: 100}
    own = {95: 2, 70: 5, 150: 9993}
    made = meter(seen(200, {150: 90}, {150: 10}, {95: 2, 70: 5}, (own, others)))
    measured = made.measure()
    assert measured.unknown == 2 * 7
    assert measured.at_most == 0.9
    assert dataclasses.replace(measured, margin=0.0).at_least == pytest.approx(90 / 114)


def test_the_lower_bound_is_never_above_the_estimate() -> None:
    # Half of a stream came beyond the horizon, though far from the period: it is no less likely of
    # tuples to come.
    own = {150: 10, 20: 10}
    measured = meter(seen(200, {150: 90}, {150: 10}, {20: 10}, (own, {150: 10}))).measure()
    assert measured.unknown == 0
    assert (
        dataclasses.replace(measured, margin=0.0).at_least == measured.recall == pytest.approx(0.45)
    )
    assert dataclasses.replace(measured, margin=0.5).at_least == pytest.approx(0.3)


def test_what_came_before_the_meter_was_there_is_not_known() -> None:
    made = meter(seen(200, {150: 90}, {150: 10}), known_since=100)
    assert (made.measure().at_least, made.measure().at_most) == (0.0, 1.0)
    made.observe(seen(300, {250: 90}, {250: 10}))
    assert dataclasses.replace(made.measure(), margin=0.0).at_least == 0.9


def test_tuples_beyond_the_horizon_lower_the_estimate_by_their_share() -> None:
    # A quarter of one stream comes too late; then a quarter of all results is not known of.
    times = {10 * n: 3 for n in range(20)}
    late = {10 * n: 1 for n in range(5)}
    received = ({t: n + late.get(t, 0) for t, n in times.items()}, times)
    made = meter(seen(200, {150: 90}, {150: 10}, late, received))
    assert made.measure().recall == pytest.approx(0.9 * 60 / 65)


def test_a_burst_of_old_tuples_counts_by_the_time_they_belong_to() -> None:
    # Two periods of one stream come once more, all at once. Nearly all that has arrived lately is
    # beyond the horizon, but of any time it is one half.
    usual = dict.fromkeys(range(2000), 1)
    made = meter(seen(1999, {1999: 10}, received=(usual, usual)))
    made.observe(seen(2300, {2290: 10}, received=({2300: 1}, {2300: 1})))
    again = dict.fromkeys(range(500, 700), 1)
    made.observe(seen(2301, {}, {}, again, (again, {})))
    assert made.measure().recall == pytest.approx(0.5)


def test_results_of_an_age_at_which_half_have_come_to_light_count_double() -> None:
    # Of all results, half need a slack below 0 and half one of 30. The base time is 200: of results
    # younger than 30 only the first half is known.
    half = {0: 50, 1 + 30: 50}
    young = meter(seen(-9000), seen(200, {180: 10}, slack=half))
    assert young.measure().recall == pytest.approx(0.5, abs=0.01)
    old = meter(seen(-9000), seen(200, {165: 10}, slack=half))
    assert old.measure().recall == 1.0
    waited = meter(seen(-9000), seen(150, {150: 10}, slack=half, base_time=200))
    assert waited.measure().recall == 1.0


def test_results_that_could_be_found_for_a_short_time_only_count_by_their_rate() -> None:
    # Half of the results need a slack of 30, but in the first 40 there were only 10 in which such
    # results could be found.
    early = meter(seen(0), seen(40, {30: 40}, slack={0: 40, 1 + 30: 10}))
    assert early.measure().recall == pytest.approx(0.5, abs=0.03)


def test_losses_found_while_the_base_time_stands_still_are_those_that_were_expected() -> None:
    half = {0: 50, 1 + 30: 50}
    made = meter(seen(-9000), seen(200, {180: 10}, slack=half))
    made.observe(seen(200, {}, {180: 10}))
    assert made.measure().recall == pytest.approx(0.5, abs=0.01)


def test_a_jump_of_the_join_time_empties_the_period() -> None:
    made = meter(seen(200, {200: 10}, {190: 10}), seen(10_000, {10_000: 3}))
    assert (made.measure().produced, made.measure().lost) == (3, 0)


def test_losses_too_old_for_the_period_are_left_out() -> None:
    made = meter(seen(1000, {1000: 1}), seen(1000, {}, {10: 4, 999: 1}))
    assert made.measure().lost == 1


steps = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.dictionaries(st.integers(0, 40), st.integers(1, 9), max_size=4),
        st.dictionaries(st.integers(0, 250), st.integers(1, 9), max_size=4),
    ),
    max_size=12,
)


@given(steps, st.integers(-200, 200), st.sampled_from((1, 7)), st.sampled_from((1, 3)))
def test_the_ring_counts_like_a_list_of_all_results(
    moves: list[tuple[int, Counts, Counts]], start: int, finer: int, coarser: int
) -> None:
    bucket = finer * coarser
    made = RecallMeter(period=105, windows=(14, 10), bucket=bucket)
    produced: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    now = start
    for leap, new, missed in moves:
        now += leap
        # Results lie a little, losses far behind the join time, both up to it.
        fresh = {now - back: n for back, n in new.items()}
        gone = {now - back: n for back, n in missed.items()}
        made.observe(seen(now, fresh, gone, bucket=finer))
        produced += fresh.items()
        lost += gone.items()
        measured = made.measure()
        after, upto = (now - 105) // bucket, now // bucket
        for counted, all_of_them in ((measured.produced, produced), (measured.lost, lost)):
            assert counted == sum(n for t, n in all_of_them if after < t // bucket <= upto)


def test_a_timeline_counts_any_stretch() -> None:
    timeline = Timeline.of(np.array([5, 1, 5, 9]), np.array([10, 1, 20, 100]))
    assert timeline.total == 131
    after, upto = np.array([0, 1, 4, 5, 9]), np.array([1, 5, 5, 8, 99])
    assert timeline.count(after, upto).tolist() == [1, 30, 30, 0, 0]


def test_recall_against_known_results_counts_what_was_there_at_the_time() -> None:
    truth = Timeline.of(np.array([10, 20, 30, 30]), np.array([4, 4, 4, 4]))
    produced = Timeline.of(np.array([10, 20, 30, 30]), np.array([4, 1, 2, 2]))
    # At the second moment the join time is 30 already, but the last tuple at 30 is still to come.
    recall = recall_against(
        truth,
        produced=produced,
        n_seen=np.array([2, 3, 4, 0]),
        join_time=np.array([20, 30, 30, 5]),
        period=15,
    )
    assert recall.tolist() == [5 / 8, 3 / 12, 5 / 12, 1.0]


def test_fulfilment_counts_measurements_not_below_the_target() -> None:
    assert fulfilment([0.9, 0.95, 1.0, 0.97], 0.95) == 0.75
    assert fulfilment([], 0.95) == 1.0
    # Just below is below: recall is not rounded.
    assert fulfilment([0.95 - 1e-12], 0.95) == 0.0

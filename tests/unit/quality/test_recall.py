"""Recall as measured."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.disorder import NEVER
from recalljoin.quality import Profile, RecallMeter, Tally, Timeline, fulfilment
from recalljoin.quality.recall import recall_against, share

Counts = dict[int, int]


def tally(counts: Counts, bucket: int = 1) -> Tally:
    times = np.array(list(counts), dtype=np.int64)
    return Tally.of(times, np.array(list(counts.values()), dtype=np.int64), bucket=bucket)


def seen(
    join_time: int,
    produced: Counts | None = None,
    lost: Counts | None = None,
    beyond: Counts | None = None,
    *,
    bucket: int = 1,
    largest_join: int = 0,
) -> Profile:
    return dataclasses.replace(
        Profile.empty(2, granularity=10, bucket=bucket),
        produced=tally(produced or {}, bucket),
        lost=tally(lost or {}, bucket),
        beyond=tally(beyond or {}, bucket),
        join_time=join_time,
        largest_join=largest_join,
    )


def meter(*profiles: Profile, bucket: int = 1, settling: int = 50) -> RecallMeter:
    made = RecallMeter(period=100, settling=settling, reach=20, bucket=bucket)
    for profile in profiles:
        made.observe(profile)
    return made


def test_recall_is_one_when_nothing_is_true() -> None:
    assert share(0, 0) == 1.0
    assert meter().measure().recall == 1.0
    assert meter(seen(500)).measure().recall == 1.0


def test_the_period_is_open_at_the_left_and_closed_at_the_right() -> None:
    counted = meter(seen(200, {100: 1000, 101: 7, 200: 1}, {100: 1000, 101: 2})).measure()
    assert (counted.until, counted.produced, counted.lost) == (200, 8, 2)
    assert counted.recall == 0.8


def test_losses_found_later_lower_the_recall_of_the_time_they_belong_to() -> None:
    made = meter(seen(200, {150: 10, 200: 10}))
    assert made.measure().recall == 1.0  # provisional
    made.observe(seen(210, {}, {150: 10}))
    assert made.measure().recall == pytest.approx(20 / 30)


def test_settled_recall_is_that_of_results_whose_losses_are_all_known() -> None:
    made = meter(seen(200, {120: 10, 180: 10}, {130: 10, 190: 30}))
    settled = made.measure_settled()  # of (50, 150]
    assert (settled.until, settled.produced, settled.lost) == (150, 10, 10)


def test_tuples_beyond_the_horizon_make_recall_uncertain() -> None:
    made = meter(seen(200, {150: 90}, {150: 10}, {95: 2, 70: 5}, largest_join=5))
    measured = made.measure()
    # The tuple at 95 lies before the period (100, 200], but its results may be in it: up to 20
    # later. The ones at 70 cannot reach that far.
    assert (measured.n_beyond, measured.at_most_each) == (2, 5)
    assert measured.recall == 0.9
    assert measured.lowest_recall == pytest.approx(90 / 110)


def test_a_jump_of_the_join_time_empties_the_period() -> None:
    made = meter(seen(200, {200: 10}, {190: 10}), seen(10_000, {10_000: 3}))
    assert (made.measure().produced, made.measure().lost) == (3, 0)


def test_losses_too_old_for_any_period_are_told() -> None:
    made = meter(seen(1000, {1000: 1}), seen(1000, {}, {10: 4, 999: 1}))
    assert (made.measure().lost, made.n_settled_lost) == (1, 4)


def test_before_the_join_has_begun_nothing_is_measured() -> None:
    made = meter(seen(NEVER))
    assert (made.measure().until, made.measure().recall) == (NEVER, 1.0)


steps = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.dictionaries(st.integers(0, 40), st.integers(1, 9), max_size=4),
        st.dictionaries(st.integers(0, 250), st.integers(1, 9), max_size=4),
    ),
    max_size=12,
)


@given(steps, st.integers(-200, 200), st.sampled_from((1, 7)))
def test_the_ring_counts_like_a_list_of_all_results(
    moves: list[tuple[int, Counts, Counts]], start: int, bucket: int
) -> None:
    made = RecallMeter(period=105, settling=42, reach=14, bucket=bucket)
    produced: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    now = start
    for leap, new, missed in moves:
        now += leap
        # Results lie a little, losses far behind the join time, both up to it.
        fresh = {now - back: n for back, n in new.items()}
        gone = {now - back: n for back, n in missed.items() if back < 147}
        made.observe(seen(now, fresh, gone, bucket=bucket))
        produced += fresh.items()
        lost += gone.items()
        for until in (now, now - 42):
            measured = made.measure_until(until)
            after, upto = (until - 105) // bucket, until // bucket
            for counted, all_of_them in ((measured.produced, produced), (measured.lost, lost)):
                assert counted == sum(n for t, n in all_of_them if after < t // bucket <= upto)


@given(steps)
def test_goes_on_from_a_snapshot_as_if_never_interrupted(
    moves: list[tuple[int, Counts, Counts]],
) -> None:
    whole, resumed = (RecallMeter(period=105, settling=42, reach=14) for _ in range(2))
    now = 0
    for leap, new, missed in moves:
        now += leap
        profile = seen(now, {now - b: n for b, n in new.items()}, {now - b: 1 for b in missed})
        again = RecallMeter(period=105, settling=42, reach=14)
        again.restore(json.loads(json.dumps(resumed.snapshot())))
        resumed = again
        for one in (whole, resumed):
            one.observe(profile)
        assert resumed.measure() == whole.measure()
        assert resumed.measure_settled() == whole.measure_settled()


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

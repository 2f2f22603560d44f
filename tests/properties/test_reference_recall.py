"""Adaptation points and recall measurements of the reference (``docs/semantics.md``, rule 5)."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.reference.model import MINUS_INFINITY, Query
from tests.reference.notation import timeline
from tests.reference.recall import AdaptationClock, Measurement, measure_recall
from tests.strategies import Case, cases, slacks

FIVE = Query((5, 5))


@pytest.mark.parametrize(
    ("clocks", "adapting"),
    [
        ([100, 105, 109, 110, 111, 120], [110, 120]),  # at the boundary, not after it
        ([100, 109, 111, 119, 121], [111, 121]),  # no tuple at the boundary itself
        ([100, 145, 149, 150], [145, 150]),  # several boundaries at once: adapts once
        ([-25, -16, -15, -14, -6, -5, 4, 5], [-15, -5, 5]),  # boundaries count from the start
        ([100], []),
    ],
)
def test_adapts_once_whenever_the_clock_reaches_a_boundary(
    clocks: list[int], adapting: list[int]
) -> None:
    clock = AdaptationClock(interval=10)
    assert [now for now in clocks if clock.observe(now)] == adapting


def test_the_start_is_the_ts_of_the_first_tuple_and_the_clock_that_of_the_fastest_stream() -> None:
    arrivals = timeline("s2:7 s1:3 s1:12 s2:16 s1:17 s2:18 s2:30")
    measured = measure_recall(FIVE, arrivals, period=10, interval=10)
    assert [m.clock for m in measured] == [17, 30]


def test_the_tuple_that_reaches_the_boundary_is_processed_with_the_old_k_first() -> None:
    seen: list[Measurement] = []

    def adapt(measurement: Measurement) -> int:
        seen.append(measurement)
        return 50

    arrivals = timeline("s1:0 s2:0 s2:10 s1:10 s1:20 s2:20")
    measure_recall(FIVE, arrivals, period=10, interval=10, adapt=adapt)
    # s2:10 reaches the boundary and passes K-slack with K = 0, but S1 is missing. From then on
    # K is 50 and nothing more leaves.
    assert [(m.clock, m.k, m.join_time) for m in seen] == [(10, 0, 0), (20, 50, 0)]


def test_recall_counts_the_results_of_the_last_period_left_open_right_closed() -> None:
    # Results at 0, 10 and 20 with K = 0; s1:10 a second time comes too late and loses (10, 10).
    arrivals = timeline("s1:0 s2:0 s1:10 s2:10 s1:11 s2:11 s1:10 s1:20 s2:20 s1:21")
    (first, second) = measure_recall(Query((0, 0)), arrivals, period=10, interval=10)
    assert (first.clock, first.join_time, first.produced, first.true) == (10, 0, 1, 1)
    # (10, 20] after s1:20: the results at 11, and at 20 none yet; s1:20 waits for S2.
    assert (second.clock, second.join_time) == (20, 11)
    assert (second.produced, second.true) == (2, 3)  # (1, 11]: 10, 11, and the lost one at 10
    assert second.recall == 2 / 3


def test_a_result_just_one_period_old_no_longer_counts() -> None:
    arrivals = timeline("s1:0 s2:0 s1:10 s2:10 s1:11 s2:20")
    # At s2:20 the join time is 11, then 10 is in (1, 11]; with P = 1 it is not in (10, 11].
    for period, counted in ((10, 1), (1, 0)):
        measured = measure_recall(Query((0, 0)), arrivals, period=period, interval=10)
        assert [(m.join_time, m.produced, m.true) for m in measured][-1] == (11, counted, counted)


def test_measurements_of_the_first_period_do_not_count() -> None:
    arrivals = timeline("s1:0 s2:0 s1:10 s2:10 s1:20 s2:20 s1:30 s2:30")
    measured = measure_recall(FIVE, arrivals, period=20, interval=10)
    # It is the join time that must have passed start + P, not the clock.
    assert [(m.clock, m.join_time, m.counts) for m in measured] == [
        (10, 0, False),
        (20, 10, False),
        (30, 20, True),
    ]


def test_recall_is_1_when_nothing_is_true() -> None:
    (first,) = measure_recall(FIVE, timeline("s1:0 s1:10"), period=10, interval=10)
    assert (first.join_time, first.true, first.recall) == (MINUS_INFINITY, 0, 1.0)
    assert not first.counts


@given(cases(max_m=3), slacks())
def test_recall_lies_between_0_and_1(case: Case, k: int) -> None:
    for measured in measure_recall(case.query, case.arrivals, period=20, interval=5, k=k):
        assert 0 <= measured.produced <= measured.true
        assert 0.0 <= measured.recall <= 1.0


@given(cases(max_m=3))
def test_recall_is_1_throughout_when_k_exceeds_the_largest_delay(case: Case) -> None:
    measured = measure_recall(
        case.query, case.arrivals, period=20, interval=5, k=case.largest_delay + 1
    )
    assert all(m.recall == 1.0 for m in measured)


def test_results_still_to_be_produced_at_the_join_time_itself_do_not_count_as_produced() -> None:
    # The second s2:1 does not make S2 grow, so it stays in its K-slack; it will be in order, a
    # tie with the join time, when it comes out. Until then its result is true and not produced.
    arrivals = timeline("s2:1 s2:1 s1:1 s1:6 s2:2 s1:11")
    first, second = measure_recall(FIVE, arrivals, period=20, interval=5)
    assert (first.join_time, first.produced, first.true) == (1, 1, 2)
    assert (second.join_time, second.produced, second.true) == (2, 3, 3)

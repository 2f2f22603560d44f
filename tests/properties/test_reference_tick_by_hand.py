"""Tick arrival, worked by hand: ``docs/semantics.md``, "Tick by tick", rule by rule."""

from __future__ import annotations

from tests.reference.model import MINUS_INFINITY, Query
from tests.reference.notation import timeline
from tests.reference.tick import TickRun, run_ticks

FIVE = Query((5, 5))


def received(run: TickRun) -> list[str]:
    """Tuples in the order the join received them, late ones in brackets."""
    words = [f"s{r.e.stream + 1}:{r.e.ts}" for r in run.received]
    return [f"({word})" if r.late else word for word, r in zip(words, run.received, strict=True)]


def test_the_watermark_trails_the_slowest_stream_by_k() -> None:
    run = run_ticks(FIVE, timeline("s1:3 | s2:7 | s1:9 s2:8 | s1:5"), k=2)
    assert run.base_times == (MINUS_INFINITY, 3, 8, 8)
    assert run.watermarks == (MINUS_INFINITY, 1, 6, 6)


def test_a_tie_with_the_watermark_is_late_and_one_above_is_not() -> None:
    # Per tuple, a tie with the join time is in order.
    run = run_ticks(FIVE, timeline("s1:6 s2:6 | s1:6 s1:7 | s2:7"), k=0)
    assert received(run) == ["s1:6", "s2:6", "(s1:6)", "s1:7", "s2:7"]


def test_tuples_of_one_tick_are_never_late_for_each_other() -> None:
    run = run_ticks(FIVE, timeline("s1:9 s2:9 s1:2 s2:4"), k=0)
    assert received(run) == ["s1:2", "s2:4", "s1:9", "s2:9"]


def test_release_is_by_ts_then_tick_then_stream_then_arrival() -> None:
    run = run_ticks(FIVE, timeline("s2:4 s2:4 s1:4 | s1:4 s1:3 | s1:9 s2:9"), k=0)
    # In tick 0 both streams stand at 4: all of it is released at once, by stream.
    assert [r.e.arrival for r in run.received] == [2, 0, 1, 4, 3, 5, 6]
    run = run_ticks(FIVE, timeline("s2:4 s2:4 s1:4 | s1:4 s1:3 | s1:9 s2:9"), k=1)
    # With K = 1 they are still there when tick 1 comes: by tick before stream.
    assert [r.e.arrival for r in run.received] == [4, 2, 0, 1, 3, 5, 6]


def test_delay_and_base_time_are_those_of_the_tick_before() -> None:
    run = run_ticks(FIVE, timeline("s1:5 s2:3 s1:1 | s1:9 s1:2 s2:3"), k=0)
    annotated = {r.e.arrival: (r.e.delay, r.e.base_time) for r in run.received}
    assert annotated == {
        0: (0, MINUS_INFINITY),
        1: (0, MINUS_INFINITY),
        2: (0, MINUS_INFINITY),  # 5 comes in the same tick, so nothing is ahead of 1 yet
        3: (0, 3),
        4: (3, 3),
        5: (0, 3),
    }


def test_results_a_late_tuple_completes_in_the_past_are_lost_and_later_ones_are_not() -> None:
    run = run_ticks(FIVE, timeline("s1:4 s2:4 s2:8 | s1:3 | s1:9"), k=0)
    (late,) = [r for r in run.received if r.late]
    assert late.in_window
    assert [o.result.arrivals for o in late.lost] == [(3, 1)]
    assert late.lost[0].slack == 4 - 4
    assert (3, 2) in {r.arrivals for r in run.produced}


def test_a_late_tuple_enters_its_window_down_to_its_very_edge() -> None:
    run = run_ticks(FIVE, timeline("s1:9 s2:9 | s1:4 s1:3"), k=0)
    assert {r.e.ts: r.in_window for r in run.received if r.late} == {3: False, 4: True}


def test_a_late_tuple_beyond_the_horizon_is_reported_and_not_counted() -> None:
    arrivals = timeline("s1:9 s2:9 s2:3 | s1:4 s1:3")
    assert [e.ts for e in run_ticks(FIVE, arrivals, k=0).beyond_horizon] == [3]
    assert {r.arrivals for r in run_ticks(FIVE, arrivals, k=0).lost} == {(3, 1), (3, 2)}
    further = run_ticks(FIVE, arrivals, k=0, horizon=6)
    assert further.beyond_horizon == []
    assert {r.arrivals for r in further.lost} == {(4, 2), (3, 1), (3, 2)}


def test_the_watermark_stands_still_while_k_grows_and_moves_on_when_it_falls() -> None:
    ks = [0, 6, 6, 1, 1]
    arrivals = timeline("s1:9 s2:9 | s1:12 s2:12 | s1:16 s2:16")
    run = run_ticks(FIVE, arrivals, k=ks.__getitem__, n_ticks=5)
    assert run.base_times == (9, 12, 16, 16, 16)
    assert run.watermarks == (9, 9, 10, 15, 15)


def test_an_empty_tick_releases_what_a_smaller_k_allows() -> None:
    ks = [5, 0, 0]
    run = run_ticks(FIVE, timeline("s1:9 s2:9 | | s1:9"), k=ks.__getitem__)
    assert received(run) == ["s1:9", "s2:9", "(s1:9)"]


def test_an_idle_stream_is_left_out_until_it_returns_and_the_base_time_does_not_fall() -> None:
    idle: list[tuple[int, ...]] = [(), (), (1,), (1,), (1,)]
    run = run_ticks(
        FIVE, timeline("s1:1 s2:1 | s1:20 | | s2:5 | s1:30"), k=0, idle=idle.__getitem__
    )
    # tick 2: S2 idle, S1 alone counts. tick 3: S2 returns at 5; B stays. tick 4: idle again.
    assert run.base_times == (1, 1, 20, 20, 30)
    assert received(run) == ["s1:1", "s2:1", "s1:20", "(s2:5)", "s1:30"]


def test_a_stream_counts_again_in_the_very_tick_in_which_it_returns() -> None:
    idle: list[tuple[int, ...]] = [(), (1,), (1,)]
    run = run_ticks(FIVE, timeline("s1:1 s2:1 | s1:20 | s1:30 s2:22"), k=0, idle=idle.__getitem__)
    assert run.base_times == (1, 20, 22)


def test_a_stream_that_never_arrived_can_be_idle_too() -> None:
    idle: list[tuple[int, ...]] = [(), (1,)]
    run = run_ticks(FIVE, timeline("s1:4 | s1:5"), k=0, idle=idle.__getitem__)
    assert run.base_times == (MINUS_INFINITY, 5)


def test_with_every_stream_idle_time_stands() -> None:
    idle: list[tuple[int, ...]] = [(), (0, 1), (0,)]
    run = run_ticks(FIVE, timeline("s1:4 s2:7"), k=0, idle=idle.__getitem__, n_ticks=3)
    assert run.base_times == (4, 4, 7)


def test_the_end_of_the_input_releases_everything_in_order() -> None:
    run = run_ticks(FIVE, timeline("s1:9 | s1:3 | s1:5"), k=100)
    assert received(run) == ["s1:3", "s1:5", "s1:9"]

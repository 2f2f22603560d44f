"""Clocks of tick arrival: local times, base time, watermark."""

from __future__ import annotations

import numpy as np

from recalljoin.engine.progress import Progress, marks_of
from recalljoin.engine.times import FOREVER, NEVER

SILENT = NEVER


def advance(
    progress: Progress,
    marks: list[list[int]],
    k: list[int],
    idle: list[list[bool]] | None = None,
) -> list[int]:
    """Watermarks after each tick."""
    flags = None if idle is None else np.array(idle)
    after: list[int] = progress.advance(
        np.array(marks), np.array(k), idle=flags
    ).watermarks.tolist()
    return after


def test_the_base_time_is_minus_infinity_until_every_stream_has_come() -> None:
    progress = Progress(2)
    assert advance(progress, [[5, SILENT], [6, SILENT]], [0, 0]) == [NEVER, NEVER]
    assert progress.base_time == NEVER
    assert advance(progress, [[SILENT, 4]], [1]) == [3]
    assert (progress.base_time, progress.local_times.tolist()) == (4, [6, 4])


def test_the_watermark_trails_the_slowest_stream_by_k_and_never_moves_back() -> None:
    progress = Progress(2)
    marks = [[10, 10], [12, 30], [20, 31], [40, 40]]
    assert advance(progress, marks, [2, 2, 100, 5]) == [8, 10, 10, 35]


def test_a_mark_in_the_past_changes_nothing() -> None:
    progress = Progress(2)
    assert advance(progress, [[10, 10], [3, 4]], [0, 0]) == [10, 10]
    assert progress.local_times.tolist() == [10, 10]


def test_what_a_ticks_tuples_carry_is_as_the_tick_before_left_it() -> None:
    progress = Progress(2)
    first = progress.advance(np.array([[5, 7], [9, 8]]), np.array([1, 1]))
    assert first.local_before.tolist() == [[NEVER, NEVER], [5, 7]]
    assert first.base_before.tolist() == [NEVER, 5]
    assert first.watermark_before == NEVER
    second = progress.advance(np.array([[SILENT, SILENT]]), np.array([1]))
    assert (second.local_before.tolist(), second.base_before.tolist()) == ([[9, 8]], [8])
    assert (second.watermark_before, second.watermarks.tolist()) == (7, [7])


def test_an_idle_stream_does_not_hold_the_others_back() -> None:
    progress = Progress(2)
    idle = [[False, False], [False, True], [False, True]]
    assert advance(progress, [[10, 10], [20, SILENT], [30, SILENT]], [0] * 3, idle) == [10, 20, 30]


def test_the_base_time_does_not_fall_when_a_stream_returns() -> None:
    progress = Progress(2)
    advance(progress, [[10, 10], [30, SILENT]], [0, 0], [[False, False], [False, True]])
    # The second stream is back, at 12: the base time stands at 30 until it has caught up.
    assert advance(progress, [[31, 12], [32, 33]], [0, 0]) == [30, 32]


def test_with_every_stream_idle_the_base_time_stands_still() -> None:
    progress = Progress(2)
    advance(progress, [[10, 12]], [0])
    assert advance(progress, [[SILENT, SILENT]], [0], [[True, True]]) == [10]
    assert progress.base_time == 10


def test_a_stream_that_never_came_can_be_idle() -> None:
    progress = Progress(2)
    assert advance(progress, [[10, SILENT]], [3], [[False, True]]) == [7]


def test_the_end_of_input_sets_the_watermark_to_plus_infinity() -> None:
    progress = Progress(2)
    advance(progress, [[10, 12]], [4])
    last = progress.finish()
    assert (last.watermark_before, last.watermarks.tolist()) == (6, [FOREVER])
    assert progress.watermark == FOREVER


def test_no_ticks_change_nothing() -> None:
    progress = Progress(3)
    nothing = progress.advance(np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int64))
    assert nothing.watermarks.tolist() == []
    assert progress.watermark == NEVER


def test_the_largest_and_smallest_times_do_not_overflow() -> None:
    progress = Progress(2)
    assert advance(progress, [[-(2**61), -(2**61)]], [2**61]) == [-(2**62)]
    assert advance(progress, [[2**61, 2**61]], [0]) == [2**61]


def test_marks_are_the_largest_timestamps_of_each_tick_and_stream() -> None:
    tick, stream = np.array([0, 0, 0, 2]), np.array([0, 1, 0, 1], dtype=np.int8)
    marks = marks_of(tick, stream, np.array([3, 9, 5, -4]), n_ticks=3, m=2)
    assert marks.tolist() == [[5, 9], [NEVER, NEVER], [NEVER, -4]]

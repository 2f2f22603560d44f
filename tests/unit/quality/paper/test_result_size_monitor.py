"""Sizes of the last P - L; the requirement itself is in tests/equations."""

from __future__ import annotations

import json

from recalljoin.quality.paper import ResultSizeMonitor


def test_before_anything_was_seen_the_recall_itself_is_asked_for() -> None:
    assert ResultSizeMonitor(period=60, interval=1).instant_requirement(0.9) == 0.9


def test_a_period_that_is_no_multiple_counts_the_whole_intervals_in_it() -> None:
    monitor = ResultSizeMonitor(period=10, interval=3)  # 7 / 3: two intervals
    for n in (1, 10, 100):
        monitor.observe(n, 2.0 * n)
    assert (monitor.n_produced, monitor.n_true) == (110, 220)


def test_goes_on_from_a_snapshot_as_if_never_interrupted() -> None:
    first, second = (ResultSizeMonitor(period=5, interval=1) for _ in range(2))
    for n in range(7):
        first.observe(n, n + 1.5)
    second.restore(json.loads(json.dumps(first.snapshot())))
    for monitor in (first, second):
        monitor.observe(3, 7.0)
    assert second.snapshot() == first.snapshot()
    assert second.instant_requirement(0.8) == first.instant_requirement(0.8)

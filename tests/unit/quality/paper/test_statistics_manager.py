"""What the Statistics Manager knows of the streams."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from recalljoin.quality.paper import StatisticsManager, StreamStatistics
from recalljoin.quality.profile import Profile
from recalljoin.quality.profiling import UNKNOWN, Arrived
from tests.unit.quality.profiles import a_run_of_profiles


def arrived(
    delay: list[int], *, stream: int = 0, k_sync: int = 0, first: int = 0, gap: int = 10
) -> Arrived:
    n = len(delay)
    return Arrived(
        np.full(n, stream, dtype=np.int8),
        np.array(delay, dtype=np.int64),
        np.full(n, k_sync),
        first + gap * np.arange(n),
    )


def profile(*parts: Arrived, m: int = 2) -> Profile:
    columns = Arrived(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return dataclasses.replace(Profile.empty(m, granularity=10), arrived=columns)


def test_histograms_are_by_coarse_delay_and_stream() -> None:
    manager = StatisticsManager(2)
    manager.observe(profile(arrived([0, 1, 10, 11, 30]), arrived([0, 0], stream=1)))
    assert [h.tolist() for h in manager.histograms] == [[1, 2, 1, 1], [2]]
    assert manager.largest_coarse_delay == 3


def test_k_sync_is_relative_to_the_stream_with_the_smallest_mean() -> None:
    manager = StatisticsManager(2)
    manager.observe(profile(arrived([0, 0], k_sync=40), arrived([0, 0], stream=1, k_sync=30)))
    manager.observe(profile(arrived([0, 0], k_sync=60), arrived([0, 0], stream=1, k_sync=10)))
    assert manager.k_sync == [50 - 20, 0]


def test_k_sync_before_all_streams_have_begun_is_left_out() -> None:
    manager = StatisticsManager(2)
    manager.observe(profile(arrived([0] * 9, k_sync=UNKNOWN), arrived([0], stream=1, k_sync=0)))
    assert manager.k_sync == [0, 0]
    manager.observe(profile(arrived([0], k_sync=7), arrived([0], stream=1, k_sync=0)))
    assert manager.k_sync == [7, 0]


def test_rates_are_tuples_over_the_time_of_their_stream() -> None:
    manager = StatisticsManager(2)
    manager.observe(profile(arrived([0] * 101, gap=10), arrived([0] * 101, stream=1, gap=4)))
    assert manager.rates == [pytest.approx(0.101), pytest.approx(0.2525)]


def test_a_stream_that_has_not_moved_has_no_rate() -> None:
    manager = StatisticsManager(2)
    assert manager.rates == [0, 0]
    manager.observe(profile(arrived([0]), arrived([], stream=1)))
    assert manager.rates == [0, 0]


def test_every_stream_forgets_on_its_own_when_its_delays_change() -> None:
    manager = StatisticsManager(2)
    manager.observe(profile(arrived([0, 500] * 1000, k_sync=9), arrived([0, 500] * 1000, stream=1)))
    manager.observe(profile(arrived([0] * 2000, k_sync=3), arrived([0, 500] * 1000, stream=1)))
    changed, steady = manager.streams
    assert (changed.n, steady.n) == (2000, 4000)
    assert changed.histogram.tolist() == [2000]
    assert changed.mean_k_sync == 3
    assert steady.histogram[[0, 50]].tolist() == [2000, 2000]
    # The largest delay is that of the recent history, not of all time.
    assert manager.largest_coarse_delay == 50


def test_what_it_counts_is_what_is_left_in_the_window() -> None:
    rng = np.random.default_rng(1)
    statistics = StreamStatistics()
    pushed: list[tuple[int, float]] = []
    for i in range(60):
        delay = rng.zipf(1.5 + (i // 20), 100).clip(0, 50) * 10
        k_sync = rng.integers(0, 30, 100).astype(float)
        tuples = np.stack((delay // 10, k_sync, np.arange(100.0)))
        statistics.push(delay.astype(float), tuples)
        pushed += zip((delay // 10).tolist(), k_sync.tolist(), strict=True)
        left = pushed[len(pushed) - statistics.n :]
        assert statistics.histogram.tolist() == np.bincount([c for c, _ in left]).tolist()
        assert statistics.mean_k_sync == pytest.approx(np.mean([k for _, k in left]))
    assert 0 < statistics.n < len(pushed)


def test_memory_is_bounded_even_if_nothing_ever_changes() -> None:
    statistics = StreamStatistics(max_width=1000)
    for _ in range(50):
        statistics.push(np.zeros(100), np.zeros((3, 100)))
    assert 700 < statistics.n <= 1000
    assert statistics.histogram.tolist() == [statistics.n]


def test_sums_over_cells_give_the_same_histogram_and_k_sync() -> None:
    # So sure of a change before it forgets that it never does: where it cuts depends on the order.
    one_by_one, from_sums = (StatisticsManager(3, delta=1e-99) for _ in range(2))
    for p in a_run_of_profiles():
        one_by_one.observe(p)
        from_sums.observe(p + Profile.empty(p.m, granularity=p.granularity))
    assert all(a.n == b.n for a, b in zip(one_by_one.streams, from_sums.streams, strict=True))
    for a, b in zip(one_by_one.histograms, from_sums.histograms, strict=True):
        assert a.tolist() == b.tolist()
    assert from_sums.k_sync == pytest.approx(one_by_one.k_sync)
    assert from_sums.rates == pytest.approx(one_by_one.rates, rel=0.05)


def test_an_unknown_order_does_not_look_like_a_change() -> None:
    # Sorted delays, interval by interval, would: most intervals begin with the small ones.
    rng = np.random.default_rng(2)
    manager = StatisticsManager(1)
    n = 0
    for i in range(100):
        delay = rng.choice(20, size=500)
        counts = np.bincount(delay)[np.newaxis]
        p = dataclasses.replace(
            Profile.empty(1, granularity=10),
            delays=counts,
            begins=np.array([1000 * i]),
            ends=np.array([1000 * i + 1000]),
        )
        manager.observe(p)
        n += 500
    assert manager.streams[0].n == n


def test_goes_on_from_a_snapshot_as_if_never_interrupted() -> None:
    profiles = a_run_of_profiles()
    whole, first, second = (StatisticsManager(3) for _ in range(3))
    for p in profiles[:7]:
        first.observe(p)
    second.restore(json.loads(json.dumps(first.snapshot())))
    for p in profiles[7:]:
        second.observe(p)
    for p in profiles:
        whole.observe(p)
    assert second.snapshot() == whole.snapshot()
    assert second.k_sync == whole.k_sync
    assert second.rates == whole.rates
    for a, b in zip(second.histograms, whole.histograms, strict=True):
        assert a.tolist() == b.tolist()

"""Algorithm 3: the search for K, by hand and against the printed trial and error."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.quality.paper import BufferSizeManager, EqSel, NonEqSel
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings

G = 10


def interval(
    delays: list[list[int]], *, n_join: int = 0, k_sync: tuple[float, ...] = (0, 0)
) -> Profile:
    """An interval in which tuples had these coarse delays, and all reached the join in order."""
    width = 1 + max(max(stream, default=0) for stream in delays)
    counts = np.array([np.bincount(stream, minlength=width) for stream in delays])
    n = counts.sum(axis=1)
    return dataclasses.replace(
        Profile.empty(len(delays), granularity=G),
        delays=counts,
        in_order=counts,
        n_join=counts.sum(axis=0) * n_join,
        n_cross=counts.sum(axis=0) * 10.0,
        k_sync_sum=n * np.array(k_sync),
        n_k_sync=n,
        begins=np.zeros(len(n), dtype=np.int64),
        ends=np.full(len(n), 1000),
    )


def settings(recall: float, *, basic_window: int = 100) -> PolicySettings:
    return PolicySettings(
        windows=(100, 100), recall=recall, period=1000, interval=1000, basic_window=basic_window
    )


def test_the_smallest_k_that_reaches_the_requirement() -> None:
    # Ten tuples each. S1: 5 without delay, 3 of coarse delay 1, 2 of coarse delay 3. S2: in order.
    # One basic window a window, so windows hold what is in order, and with P = L the requirement
    # is the recall itself. gamma = (f1 * 1 + 1 * f1) / 2 = f1:
    #   K = 0: 0.5    10: 0.8    20: 0.8    30: 1
    delays = [[0] * 5 + [1] * 3 + [3] * 2, [0] * 10]
    for recall, k in ((0.5, 0), (0.51, 10), (0.8, 10), (0.81, 30), (1.0, 30)):
        manager = EqSel(settings(recall))
        manager.observe(interval(delays, n_join=1))
        assert manager.adapt() == k, recall
        assert manager.instant_requirement == recall
        assert manager.estimated_recall == {0: 0.5, 10: 0.8, 30: 1.0}[k]


def test_beyond_the_largest_delay_the_search_ends() -> None:
    # Selectivity falls with K and comes back only at the largest delay in the maps, coarse 4; the
    # largest delay that arrived is 2. The search ends at the first K beyond that.
    manager = NonEqSel(settings(1.0))
    manager.observe(interval([[0, 2], [0, 0]], n_join=1))
    n_join, cross = np.array([0, 0, 0, 0, 40]), np.array([40.0, 0, 0, 0, 40])
    manager.productivity = dataclasses.replace(
        manager.productivity, join=n_join.astype(float), cross=cross
    )
    assert manager.adapt() == 30


def literal_search(manager: BufferSizeManager) -> int:
    """The listing: lines 1 to 5, K by K."""
    max_delay = manager.statistics.largest_coarse_delay * G
    requirement = manager.monitor.instant_requirement(manager.settings.recall)
    k = 0
    while k <= max_delay and manager.estimate_recall(k // G + 1)[-1] < requirement:
        k += G
    return k


coarse_delays = st.lists(st.sampled_from((0, 0, 0, 0, 1, 2, 3, 5, 9, 40)), min_size=1, max_size=30)


@given(
    strategy=st.sampled_from((EqSel, NonEqSel)),
    recall=st.sampled_from((0.3, 0.8, 0.9, 0.95, 0.99, 1.0)),
    basic_window=st.sampled_from((10, 15, 4, 100)),
    intervals=st.lists(
        st.tuples(
            coarse_delays, coarse_delays, st.integers(0, 5), st.sampled_from((0.0, 7.0, 30.0))
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_one_look_at_all_k_finds_what_trial_and_error_finds(
    strategy: type[BufferSizeManager],
    recall: float,
    basic_window: int,
    intervals: list[tuple[list[int], list[int], int, float]],
) -> None:
    manager = strategy(settings(recall, basic_window=basic_window))
    for one, other, n_join, k_sync in intervals:
        manager.observe(interval([one, other], n_join=n_join, k_sync=(k_sync, 0)))
        assert manager.adapt() == literal_search(manager)

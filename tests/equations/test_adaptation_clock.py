"""When K is adapted: boundaries start + n L of the clock max iT (``docs/semantics.md``, 5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.times import FOREVER
from recalljoin.quality.adaptation import AdaptationClock as Clock
from tests.reference.recall import AdaptationClock


@pytest.mark.parametrize(
    ("clock", "adapting"),
    [
        ([100, 105, 109, 110, 111, 120], [110, 120]),  # at the boundary, not after it
        ([100, 999, 1001], [999, 1001]),  # no tuple at a boundary itself, and many missed
        ([100, 145, 149, 150], [145, 150]),  # a jump over several boundaries adapts once
        ([-25, -16, -15, -14, -6, -5, 4, 5], [-15, -5, 5]),  # boundaries count from the start
        ([100], []),
        ([], []),
    ],
)
def test_adapts_once_whenever_the_clock_reaches_a_boundary(
    clock: list[int], adapting: list[int]
) -> None:
    latest = np.array(clock, dtype=np.int64)
    points = Clock(10).points(latest, earliest=clock[0] if clock else 0)
    assert latest[points - 1].tolist() == adapting


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 15), st.integers(-50, 50))
def test_adapts_as_the_reference_does(leaps: list[int], interval: int, start: int) -> None:
    clock = np.cumsum([start, *leaps])
    reference = AdaptationClock(interval=interval)
    adapting = [n for n, now in enumerate(clock.tolist(), start=1) if reference.observe(now)]
    assert Clock(interval).points(clock, earliest=start).tolist() == adapting


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=40), st.integers(1, 15), st.integers(0, 40)
)
def test_it_does_not_matter_how_steps_are_handed_to_the_clock(
    leaps: list[int], interval: int, cut: int
) -> None:
    latest = np.cumsum(leaps)
    at_once = Clock(interval).points(latest, earliest=-3)
    clock = Clock(interval)
    first = clock.points(latest[:cut], earliest=-3)
    second = clock.points(latest[cut:], earliest=-3 if cut == 0 else 7)
    assert [*first.tolist(), *(second + len(latest[:cut])).tolist()] == at_once.tolist()


def test_a_clock_that_is_known_before_any_tuple_begins_with_the_first_tuple() -> None:
    clock = Clock(10)
    assert clock.points(np.array([100]), earliest=FOREVER).tolist() == []
    assert clock.points(np.array([104, 105, 106]), earliest=96).tolist() == [3]

"""ADWIN against river's, and what must hold of it whatever comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.quality.paper import AdaptiveWindow

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s


def streams(seed: int) -> dict[str, Float64s]:
    rng = np.random.default_rng(seed)
    return {
        "steps": np.concatenate([rng.normal(i % 3, 1, 1500) for i in range(6)]),
        "delays": np.concatenate(
            [rng.zipf(2.0 + 0.4 * (i % 4), 1500).clip(0, 200) * 100.0 - 100 for i in range(6)]
        ),
        "drift": rng.normal(np.linspace(0, 5, 8000), 1),
        "constant": np.zeros(3000),
    }


def river_widths(values: Float64s, **options: Any) -> list[int]:
    """Width after each value; river's detector without the reset its wrapper does."""
    from river.drift import ADWIN

    detector: Any = ADWIN(**options)  # type: ignore[no-untyped-call]
    widths = []
    for value in values.tolist():
        detector._drift_detected = False
        detector.update(value)
        widths.append(int(detector.width))
    return widths


def own_widths(window: AdaptiveWindow, values: Float64s) -> list[int]:
    widths = []
    for i in range(len(values)):
        window.push(values[i : i + 1])
        widths.append(window.width)
    return widths


@pytest.mark.parametrize("name", streams(0))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cuts_where_river_cuts(name: str, seed: int) -> None:
    # River takes its smallest part, less one, off both sides of a cut.
    values = streams(seed)[name]
    window = AdaptiveWindow(discount=4)
    assert own_widths(window, values) == river_widths(values)


@pytest.mark.parametrize("name", streams(0))
def test_with_the_published_bound_it_cuts_where_river_cuts_with_parts_of_one(name: str) -> None:
    values = streams(4)[name]
    window = AdaptiveWindow(min_part=1, discount=0, delta=0.01, check_every=8, max_buckets=3)
    widths = river_widths(
        values, min_window_length=1, grace_period=2, delta=0.01, clock=8, max_buckets=3
    )
    assert own_widths(window, values) == widths
    assert name == "constant" or min(np.diff(widths)) < 0


def test_the_published_bound_forgets_more_readily_than_the_discounted_one() -> None:
    values = streams(5)["delays"]
    plain, discounted = AdaptiveWindow(), AdaptiveWindow(discount=4)
    assert plain.push(values) > discounted.push(values) > 0


def test_values_may_come_one_by_one_or_at_once() -> None:
    values = streams(6)["steps"]
    one_by_one, at_once = AdaptiveWindow(), AdaptiveWindow()
    widths = own_widths(one_by_one, values)
    dropped = at_once.push(values)
    assert at_once.width == widths[-1] == len(values) - dropped
    assert at_once.mean == one_by_one.mean


def test_nothing_is_dropped_while_nothing_changes() -> None:
    window = AdaptiveWindow()
    assert window.push(np.tile([3.0, 4.0, 5.0], 5000)) == 0
    assert window.width == 15_000
    assert window.mean == pytest.approx(4.0)


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 20))
def test_the_mean_is_that_of_the_values_left(values: list[int], check_every: int) -> None:
    window = AdaptiveWindow(check_every=check_every, delta=0.3)
    window.push(np.array(values, dtype=np.float64))
    left = values[len(values) - window.width :]
    assert window.mean == pytest.approx(np.mean(left) if left else 0.0)


def test_the_oldest_bucket_can_be_dropped_until_nothing_is_left() -> None:
    window = AdaptiveWindow()
    window.push(np.tile([1.0, 2.0], 50))
    sizes = []
    while window.width:
        sizes.append(window.drop_oldest())
    assert sum(sizes) == 100
    assert sizes == sorted(sizes, reverse=True)
    assert all(size & (size - 1) == 0 for size in sizes)
    assert window.push(np.ones(40)) == 0
    assert window.mean == 1.0


def test_goes_on_from_a_snapshot_as_if_never_interrupted() -> None:
    values = streams(7)["steps"]
    whole, first = AdaptiveWindow(), AdaptiveWindow()
    whole.push(values)
    first.push(values[:4321])
    second = AdaptiveWindow()
    second.push(values[:100])  # whatever it knew before is gone
    second.restore(json.loads(json.dumps(first.snapshot())))
    second.push(values[4321:])
    assert second.snapshot() == whole.snapshot()


def test_an_empty_window_has_a_snapshot_too() -> None:
    window = AdaptiveWindow()
    window.restore(json.loads(json.dumps(AdaptiveWindow().snapshot())))
    assert (window.width, window.mean) == (0, 0.0)

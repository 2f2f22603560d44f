"""Results lost with tuples beyond the retention horizon, as estimated."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recalljoin.quality.unseen_losses import UnseenLosses
from tests.unit.quality.intervals import interval

if TYPE_CHECKING:
    from recalljoin.quality.profile import Profile


def seen(
    results: int, tuples: tuple[int, int], beyond: list[list[int]] | None = None, at: int = 999
) -> Profile:
    made = beyond or [[0], [0]]
    late = np.array(made).sum(axis=1)[:, np.newaxis]
    return dataclasses.replace(
        interval([results], join_time=at),
        n_join=np.array([results]),
        in_order=np.array(tuples)[:, np.newaxis],
        late=late,
        beyond_slack=np.array(made),
    )


def test_a_tuple_beyond_the_horizon_counts_as_much_as_the_others_of_its_stream() -> None:
    unseen = UnseenLosses(60_000)
    assert unseen.estimate(seen(300, (100, 50))) is None
    # Tuples of the first stream are in 3 results each, those of the second in 6.
    losses = unseen.estimate(seen(0, (0, 0), [[0, 2, 0, 1], [0, 0, 1, 0]]))
    assert losses is not None
    assert losses.tolist() == pytest.approx([0, 6, 6, 3])


def test_what_is_long_past_counts_less() -> None:
    unseen = UnseenLosses(1000)
    unseen.estimate(seen(1000, (10, 10)))
    losses = unseen.estimate(seen(10, (10, 10), [[0, 1], [0, 0]], at=20_999))
    assert losses is not None
    assert losses[1] == pytest.approx(1, rel=0.01)


def test_before_there_was_any_result_nothing_is_estimated() -> None:
    losses = UnseenLosses(1000).estimate(seen(0, (0, 0), [[0, 1], [0, 0]]))
    assert losses is not None
    assert not losses.any()


def test_a_snapshot_goes_on_as_the_original() -> None:
    unseen, other = UnseenLosses(1000), UnseenLosses(1000)
    unseen.estimate(seen(70, (10, 20)))
    other.restore(json.loads(json.dumps(unseen.snapshot())))
    late = seen(30, (10, 20), [[0, 1], [4, 0]], at=1700)
    one, two = unseen.estimate(late), other.estimate(late)
    assert one is not None
    assert two is not None
    assert one.tolist() == two.tolist()

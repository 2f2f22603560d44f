"""What a live query shows, and how it waits, where something happens that nobody could foresee."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recalljoin.spark import batch_planner
from tests.spark.live import MINUTE, SECOND, Feed, Live, both

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.engine.arrays import Float64s, Int64s

AHEAD = 30 * MINUTE


def with_one_ahead(feed: Feed, at: int) -> Feed:
    """With a tuple whose time is half an hour ahead of its arrival."""
    return feed.then(Feed(*(np.array([each]) for each in (at + AHEAD, 0, at))))


def below(live: Live, begin: int) -> tuple[Float64s, Int64s]:
    """The recall shown after some time, and when; where none is shown, a recall of 1."""
    shown = live.progress()
    late = shown.at > begin
    return np.nan_to_num(shown.recall, nan=1.0)[late], shown.at[late]


def test_a_join_that_loses_every_result_says_so(tmp_path: Path) -> None:
    # One stream is three minutes behind, and too few tuples may wait for it: whenever a loss comes
    # to light, its result is older than the last period, of which nothing is known.
    one, two = both(1, 12 * MINUTE, every=500, late=0.0)
    behind = Feed(two.ts, two.key, two.at + 3 * MINUTE)
    live = Live(tmp_path, [one, behind], max_buffered=60).run(12 * MINUTE, batch=2 * SECOND)
    assert live.produced.total == 0 < len(live.truth.ts)
    recall, _ = below(live, 6 * MINUTE)
    assert recall.max() < 0.1


def test_tuples_far_ahead_that_make_all_others_late_cannot_go_unnoticed(tmp_path: Path) -> None:
    feeds = [with_one_ahead(feed, 4 * MINUTE) for feed in both(1, 8 * MINUTE)]
    live = Live(tmp_path, feeds).run(8 * MINUTE, batch=2 * SECOND)
    assert live.watermarks[-1] > AHEAD
    assert live.recall(4 * MINUTE + 10 * SECOND, 8 * MINUTE) < 0.05
    recall, _ = below(live, 5 * MINUTE)
    assert recall.max() < 0.95
    assert recall[-1] < 0.7


def test_a_stream_left_behind_again_and_again_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One stream comes in parcels, every 50 seconds, and is idle after ten seconds without a tuple.
    # Its tuples are in order, and yet come up to 50 seconds behind the other stream.
    parcel = 50 * SECOND
    one, two = both(1, 15 * MINUTE, every=500, late=0.0)
    parcels = Feed(two.ts, two.key, (two.ts // parcel + 1) * parcel)
    live = Live(tmp_path, [one, parcels], idle_after="10 seconds")
    clock = SimpleNamespace(time=lambda: live.now / SECOND, monotonic=lambda: live.now / SECOND)
    monkeypatch.setattr(batch_planner, "time", clock)
    live.run(15 * MINUTE, batch=2 * SECOND)
    assert live.recall(4 * MINUTE, 12 * MINUTE) >= 0.95
    assert max(live.k) <= 2 * parcel


@pytest.mark.parametrize("since", [30 * SECOND, 4 * MINUTE])
def test_a_tuple_far_ahead_keeps_neither_wait_nor_horizon_from_following_delays(
    tmp_path: Path, since: int
) -> None:
    calm, rough = both(1, 15 * MINUTE, mean=SECOND), both(1, 15 * MINUTE, mean=30 * SECOND)
    feeds = []
    for before, after in zip(calm, rough, strict=True):
        late = before.ts >= 6 * MINUTE
        feeds.append(
            Feed.of(before.ts[~late], before.key[~late], before.at[~late]).then(
                Feed.of(*(each[after.ts >= 6 * MINUTE] for each in (after.ts, after.key, after.at)))
            )
        )
    feeds[0] = with_one_ahead(feeds[0], since)
    live = Live(tmp_path, feeds).run(15 * MINUTE, batch=2 * SECOND)
    # Without the tuple far ahead K is much the same.
    assert max(live.k[: 6 * 30]) <= MINUTE
    assert min(live.after(10 * MINUTE, live.k)) >= 30 * SECOND
    assert max(live.k) <= 5 * MINUTE
    assert live.recalls(9 * MINUTE).mean() >= 0.94
    shown = live.progress()
    late = shown.since(8 * MINUTE)
    assert (shown.recall - shown.true)[late].max() < 0.1

"""What is told of sources after a batch, by name and of all together."""

from __future__ import annotations

import json

import numpy as np

from recalljoin.quality.followed import FollowedSources
from recalljoin.quality.source_lags import SourcePlan
from recalljoin.quality.told_sources import (
    LONGEST_NAME,
    MOST_BYTES,
    MOST_TOLD,
    SourceName,
    packed,
    reached_by,
    told_by_name,
    unpacked,
)


def followed(n: int, *, named: bool = True, until: int = 100_000) -> FollowedSources:
    """Sources of which each has come as many milliseconds less far than the one before."""
    sources = FollowedSources(SourcePlan(60_000, 0.0))
    numbers = np.arange(1, n + 1, dtype=np.int64)
    if named:
        names = {number: SourceName(f"device-{number:05d}", 0) for number in numbers.tolist()}
        sources.names.update(names)
    marks = (numbers, until - numbers + 1, np.ones(n, dtype=np.int64))
    tick = np.zeros(n, dtype=np.int64)
    sources.follow(SourcePlan(60_000, 0.0), 0, 10**9, tick, marks, fronts=np.array([until]))
    return sources


def test_two_hundred_sources_are_all_told_the_furthest_behind_first() -> None:
    told = followed(200).told
    assert [each.name for each in told["furthest"][:2]] == ["device-00200", "device-00199"]
    assert len(told["furthest"]) == told["n_sources"] == 200


def test_of_ten_thousand_the_furthest_are_told_and_how_far_all_of_them_are() -> None:
    told = followed(10_000).told
    assert len(told["furthest"]) == MOST_TOLD
    assert told["furthest"][0] == ("device-10000", 90_001, 0)
    # Half have come to 5,000 ms before the front or further, and so on.
    assert [100_000 - clock for clock in told["source_clocks"]] == [4_999, 8_999, 9_899]
    assert len(packed(told["furthest"])) < MOST_BYTES / 4


def test_a_cell_without_names_tells_nothing_of_single_sources() -> None:
    assert {"furthest", "source_clocks"}.isdisjoint(followed(3, named=False).told)


def test_long_names_are_cut_and_fewer_of_them_are_told() -> None:
    names = {n: SourceName("é" * 1_000 + str(n), 1) for n in range(1_000)}
    told = told_by_name(names, names, names)
    assert {len(each.name or "") for each in told} == {LONGEST_NAME}
    assert (told[0].name or "").endswith("é…")
    assert len(json.dumps(told)) <= MOST_BYTES < len(json.dumps(told)) + 600
    assert 0 < len(told) < MOST_TOLD


def test_a_source_without_a_name_is_told_all_the_same() -> None:
    assert told_by_name([7, 8], [5, 6], {7: SourceName(None, 1)}) == ((None, 5, 1),)


def test_shares_count_sources_and_not_parts_of_them() -> None:
    assert reached_by(np.empty(0, dtype=np.int64)) == ()
    assert reached_by(np.array([4])) == (4, 4, 4)
    assert reached_by(np.array([1, 2, 3, 4])) == (3, 1, 1)
    assert reached_by(np.arange(100)) == (50, 10, 1)


def test_names_and_streams_are_remembered_and_names_of_an_earlier_release_are_read() -> None:
    sources = followed(3)
    again = FollowedSources(SourcePlan(60_000, 0.0))
    again.restore(sources.to_text())
    assert again.told["furthest"] == sources.told["furthest"]
    content = unpacked(sources.to_text())
    del content["streams"]
    again.restore(packed(content))
    assert again.told["furthest"][0] == ("device-00003", 99_998, None)

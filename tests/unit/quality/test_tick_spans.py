"""Telling batches of the usual length from a backlog."""

from __future__ import annotations

import dataclasses
import json

from recalljoin.quality.profile import Profile
from recalljoin.quality.tick_spans import ACCEPTED, FIRST, LONG, TickSpans


def batch(span: int) -> Profile:
    return dataclasses.replace(Profile.empty(2, granularity=10), tick_span=span)


def tell(spans: TickSpans, *lengths: int) -> list[bool]:
    return [spans.tell_delays(batch(length)) for length in lengths]


def test_a_batch_far_longer_than_usual_tells_nothing() -> None:
    spans = TickSpans(10_000)
    assert all(tell(spans, *[1000] * 20))
    assert tell(spans, 600_000, 1000, 600_000, 60_000, 2000) == [False, True, False, False, True]


def test_batches_may_vary() -> None:
    spans = TickSpans(10_000)
    assert all(tell(spans, *[500, 1000, 2000, 4000] * 10))
    assert tell(spans, LONG * 2000) == [True]


def test_tuples_that_arrive_one_by_one_always_tell_their_delays() -> None:
    assert all(tell(TickSpans(10_000), *[0] * 200))


def test_long_batches_at_the_start_are_taken_for_a_backlog_until_they_are_seen_to_be_usual() -> (
    None
):
    assert tell(TickSpans(10_000), *[60_000] * (FIRST + 2)) == [False] * FIRST + [True] * 2


def test_a_backlog_read_first_does_not_make_long_batches_usual() -> None:
    spans = TickSpans(10_000)
    assert tell(spans, 600_000, 1000, 1000) == [False, True, True]
    assert tell(spans, 600_000) == [False]


def test_batches_that_stay_long_become_usual() -> None:
    spans = TickSpans(10_000)
    tell(spans, *[1000] * 50)
    assert not any(tell(spans, *[60_000] * ACCEPTED))
    assert all(tell(spans, *[60_000] * 5))


def test_a_snapshot_goes_on_as_the_original() -> None:
    spans, other = TickSpans(10_000), TickSpans(10_000)
    tell(spans, *[1000] * 20, *[60_000] * (ACCEPTED - 1))
    other.restore(json.loads(json.dumps(spans.snapshot())))
    for more in (60_000, 60_000, 1000):
        assert tell(spans, more) == tell(other, more)

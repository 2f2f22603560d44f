"""The k of Theorem 1: which common K is said to do the work of one K per stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference.model import MINUS_INFINITY, Instant, StreamTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def same_k(local_times: Sequence[Instant], ks: Sequence[int]) -> int:
    """Theorem 1: k = min iT - min (iT - k_i), over the streams that have arrived.

    Depends on the local times, so it changes as they do. Where no stream has arrived, 0.
    """
    arrived = [
        (int(local_time), k)
        for local_time, k in zip(local_times, ks, strict=True)
        if local_time != MINUS_INFINITY
    ]
    if not arrived:
        return 0
    return min(t for t, _ in arrived) - min(t - k for t, k in arrived)


def same_k_schedule(
    arrivals: Iterable[StreamTuple], ks: Sequence[int], *, counting_the_new: bool
) -> list[int]:
    """K to have in effect at each arrival, from the local times with or without the new tuple."""
    local_times: list[Instant] = [MINUS_INFINITY] * len(ks)
    schedule = []
    for e in arrivals:
        before = same_k(local_times, ks)
        local_times[e.stream] = max(local_times[e.stream], e.ts)
        schedule.append(same_k(local_times, ks) if counting_the_new else before)
    return schedule

"""Profiles made by hand, for tests of what learns from required slack."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.quality.profile import Profile
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s


def interval(
    produced: list[int],
    lost: list[int] | None = None,
    *,
    join_time: int,
    base_time: int | None = None,
    times: list[int] | None = None,
    **more: Any,
) -> Profile:
    """An interval with results by slack bin, of ``times`` or all just before the join time.

    Lost results lie where their slack says, seen from the base time.
    """
    missed = lost or [0] * len(produced)
    width = max(len(produced), len(missed))
    slack = np.zeros((2, width), dtype=np.int64)
    slack[0, : len(produced)], slack[1, : len(missed)] = produced, missed
    at = np.array([join_time] if times is None else times)
    share = np.full(len(at), sum(produced) // len(at))
    return dataclasses.replace(
        Profile.empty(2, granularity=10),
        slack=slack,
        produced=Tally.of(at, share),
        lost=_lost_at(slack[1], join_time if base_time is None else base_time),
        join_time=join_time,
        base_time=join_time if base_time is None else base_time,
        **more,
    )


def _lost_at(bins: Int64s, base_time: int) -> Tally:
    (used,) = np.nonzero(bins)
    return Tally.of(base_time - np.maximum(ENOUGH[used] - 1, 0), bins[used])


def arrived(*, n: int, largest_delay: int, clock: int) -> Profile:
    """An interval in which tuples arrived and no result was seen."""
    return dataclasses.replace(
        Profile.empty(2, granularity=10),
        delays=np.array([[n], [0]]),
        largest_delay=largest_delay,
        ends=np.array([clock, clock]),
    )

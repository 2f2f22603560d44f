"""Precision of nulls as measured: how many rows without a partner were true, over a period."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recalljoin.quality.profile import Profile


class NullPrecision:
    """Counts rows that left without a partner, and those of them that left in error.

    A row counts as true until a partner of it has come.

    Parameters
    ----------
    bucket
        Width of the buckets of time in the profiles.
    """

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self._nulls: Counter[int] = Counter()
        self._false: Counter[int] = Counter()

    def observe(self, profile: Profile) -> None:
        """Take in what a stretch of time has shown."""
        for counter, tally in ((self._nulls, profile.nulls), (self._false, profile.false_nulls)):
            for key, n in zip(tally.keys.tolist(), tally.counts.tolist(), strict=True):
                counter[key] += n

    def measure(self, until: int, period: int) -> float | None:
        """Share of true rows among those of the period up to a time; None if there were none."""
        if not self._nulls:
            return None
        keys = range((until - period) // self.bucket + 1, until // self.bucket + 1)
        nulls = sum(self._nulls[key] for key in keys)
        return 1 - sum(self._false[key] for key in keys) / nulls if nulls else None

"""Counts by time: how many results, or tuples, have which timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.engine.arrays import Int64s


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts by bucket of time; empty buckets are not listed.

    Parameters
    ----------
    keys
        ``time // bucket``, strictly growing.
    counts
        How many there are of each key, never zero.
    """

    keys: Int64s
    counts: Int64s

    @classmethod
    def empty(cls) -> Tally:
        """Nothing counted."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none)

    @classmethod
    def of(cls, times: Int64s, counts: Int64s | None = None, *, bucket: int = 1) -> Tally:
        """Count times, each once or as often as ``counts`` says.

        Examples
        --------
        >>> Tally.of(np.array([7, 3, 7]), np.array([2, 1, 5])).to_json()
        [[3, 7], [1, 7]]
        """
        if counts is None:
            counts = np.ones(len(times), dtype=np.int64)
        (some,) = np.nonzero(counts)
        if not len(some):
            return cls.empty()
        keys = times[some] // bucket
        weights = counts[some]
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
            keys, weights = keys[order], weights[order]
        firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        return cls(keys[firsts], np.add.reduceat(weights, firsts))

    @classmethod
    def sum_of(cls, tallies: Sequence[Tally]) -> Tally:
        """The sum of several tallies."""
        none = cls.empty()
        keys = np.concatenate([none.keys, *(tally.keys for tally in tallies)])
        return cls.of(keys, np.concatenate([none.counts, *(tally.counts for tally in tallies)]))

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return int(self.counts.sum())

    def at_once(self) -> Tally:
        """The same total, all of it at one time."""
        return Tally.of(np.zeros(len(self.keys), dtype=np.int64), self.counts)

    def __add__(self, other: Tally) -> Tally:
        if not len(other.keys):
            return self
        if not len(self.keys):
            return other
        return Tally.of(
            np.concatenate((self.keys, other.keys)), np.concatenate((self.counts, other.counts))
        )

    def to_json(self) -> list[list[int]]:
        """Keys and counts, as lists."""
        return [self.keys.tolist(), self.counts.tolist()]

    @classmethod
    def from_json(cls, content: list[list[int]]) -> Tally:
        """From :meth:`to_json`."""
        keys, counts = content
        return cls(np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int64))

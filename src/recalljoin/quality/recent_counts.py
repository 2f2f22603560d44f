"""Counts by time, of the newest stretch of time only, in memory that follows what was counted.

The stretch may be long: a window of a century has more buckets than any memory. So buckets stand in
*pages* of a few buckets each, and a page exists only if something was counted in it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import NEVER
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

PAGE = 64
"""Buckets in a page."""


class RecentCounts:
    """Several counts for each bucket of time, while the bucket is among the newest.

    Parameters
    ----------
    n_rows
        How many things are counted apart from each other.
    n_kept
        How many of the newest buckets are kept, whether anything was counted in them or not.
    """

    def __init__(self, n_rows: int, n_kept: int) -> None:
        self._n_rows, self._n_kept = n_rows, n_kept
        self._pages: dict[int, Int64s] = {}
        self.newest = NEVER
        """Number of the newest bucket."""

    @property
    def oldest(self) -> int:
        """Number of the oldest bucket that is kept; there must be a newest one."""
        return self.newest - self._n_kept + 1

    def advance(self, key: int) -> None:
        """Let time come to the bucket ``key``; buckets that are too old by then are dropped."""
        if key <= self.newest:
            return
        is_new_page = self.newest == NEVER or key // PAGE > self.newest // PAGE
        self.newest = key
        if is_new_page:
            first = self.oldest // PAGE
            self._pages = {n: page for n, page in self._pages.items() if n >= first}

    def add(self, row: int, tally: Tally) -> None:
        """Count into one row; time comes to the last bucket of the tally."""
        if not len(tally.keys):
            return
        self.advance(int(tally.keys[-1]))
        kept = tally.keys >= self.oldest
        if not kept.any():
            return
        keys, counts = tally.keys[kept], tally.counts[kept]
        numbers = keys // PAGE
        begins = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
        for begin, end in pairwise([*begins.tolist(), len(keys)]):
            number = int(numbers[begin])
            if number not in self._pages:
                self._pages[number] = np.zeros((self._n_rows, PAGE), dtype=np.int64)
            self._pages[number][row, keys[begin:end] - number * PAGE] += counts[begin:end]

    def between(self, first: int, last: int) -> Int64s:
        """``[row, bucket]``: the counts of the buckets from ``first`` to ``last``."""
        found = np.zeros((self._n_rows, max(0, last - first + 1)), dtype=np.int64)
        for number in range(first // PAGE, last // PAGE + 1):
            page = self._pages.get(number)
            if page is not None:
                begin = max(first, number * PAGE, self.oldest)
                end = max(begin, min(last + 1, (number + 1) * PAGE))
                shift = number * PAGE
                found[:, begin - first : end - first] = page[:, begin - shift : end - shift]
        return found

    def row(self, row: int) -> Tally:
        """One row over all buckets that are kept."""
        if not self._pages:
            return Tally.empty()
        numbers = np.array(sorted(self._pages), dtype=np.int64)
        keys = (numbers[:, np.newaxis] * PAGE + np.arange(PAGE)).ravel()
        counts = np.concatenate([self._pages[number][row] for number in numbers.tolist()])
        some = (counts > 0) & (keys >= self.oldest)
        return Tally(keys[some], counts[some])

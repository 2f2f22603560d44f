"""Numbers of a join, batch by batch, and fewer of them where a picture has no room for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recalljoin.engine.arrays import Float64s

    Reduce = Callable[[Float64s, Any], Float64s]

LAST: Final = "last"
LOWEST: Final = "lowest"
HIGHEST: Final = "highest"
SUM: Final = "sum"
MEAN: Final = "mean"


class Columns:
    """Columns of numbers that grow, a number for each batch; not a number where there is none.

    Parameters
    ----------
    kinds
        For each column what stands for several batches: their last number, the lowest, the
        highest, the sum or the mean.
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        self._values = {name: np.full(1024, np.nan) for name in self._kinds}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._kinds)

    def __getitem__(self, name: str) -> Float64s:
        """A column."""
        return self._values[name][: self._n]

    def add(self, name: str, kind: str) -> None:
        """Add a column, unless it is there."""
        if name not in self._kinds:
            self._kinds[name] = kind
            self._values[name] = np.full(len(next(iter(self._values.values()))), np.nan)

    def append(self, row: Mapping[str, float | None]) -> None:
        """Add a batch."""
        if self._n == len(next(iter(self._values.values()))):
            grown = {name: np.full(2 * self._n, np.nan) for name in self._values}
            for name, values in self._values.items():
                grown[name][: self._n] = values
            self._values = grown
        for name, value in row.items():
            self._values[name][self._n] = np.nan if value is None else value
        self._n += 1

    def between(self, begin: int, end: int, most: int) -> dict[str, Float64s]:
        """The batches from place ``begin`` to before ``end``, as ``most`` points at the most."""
        n = end - begin
        if n <= most:
            return {name: values[begin:end] for name, values in self._values.items()}
        firsts = np.linspace(0, n, most, endpoint=False).astype(np.int64)
        return {
            name: _reduced(values[begin:end], firsts, self._kinds[name])
            for name, values in self._values.items()
        }


def _reduced(values: Float64s, firsts: Any, kind: str) -> Float64s:
    """One number for each stretch of numbers; ``firsts`` has their first places."""
    if kind == LAST:
        lasts = np.append(firsts[1:], len(values)) - 1
        return np.asarray(values[lasts], dtype=np.float64)
    if kind in (LOWEST, HIGHEST):
        # These two leave out what is not a number, unless there is nothing else.
        reduce = np.fmin if kind == LOWEST else np.fmax
        return np.asarray(reduce.reduceat(values, firsts), dtype=np.float64)
    known = ~np.isnan(values)
    total = np.add.reduceat(np.where(known, values, 0.0), firsts)
    n = np.add.reduceat(known.astype(np.int64), firsts)
    total = np.where(n > 0, total, np.nan)
    return np.asarray(total if kind == SUM else total / np.maximum(n, 1), dtype=np.float64)

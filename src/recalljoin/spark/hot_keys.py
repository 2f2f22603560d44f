"""Hot keys: how they are noticed, and from which batch on each set of hot keys counts.

A *version* says where tuples go from some batch on: over which cells and groups, and which keys are
hot. The cells of a join change in the same way as its hot keys do.

Routing tasks look at a sample of their tuples and name the keys that many sampled tuples have. The
names travel with the parcels to the cells and with the cells' reports to the control source. While
the control source plans a batch, it decides which keys are hot *from the batch after that one on*:
so the cells have one batch in which to hand over the tuples that will move to other cells. The
decision is in the offset, which Spark writes before the batch runs, and in the control log, where
tasks read it. A batch that is run again finds the same decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.spark.cells import NOT_HOT, Hot, key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.spark.cells import Grid, Layout

SAMPLE = 4096
"""About how many tuples of a piece are looked at."""
MOST_HOT = 16
"""Most hot keys of one class of equal attributes."""
VERSIONS_KEPT = 4
"""Versions that are kept: the last few batches may be run again."""

_MEMORY = 0.8
"""Factor by which older counts weigh less with every batch."""
_ENOUGH = 2000
"""Tuples of a stream that must have been seen before one of its keys is called hot."""
_PATIENCE = 8
"""Fewest batches between two changes of the hot keys."""


class Heavy(NamedTuple):
    """A key that many tuples of one piece have."""

    stream: int
    equality: int
    key: int
    """Hash of the key."""
    n: int
    """About how many tuples have the key."""


class Version(NamedTuple):
    """Where tuples go from some batch on."""

    since: int
    hot: Hot
    shares: tuple[int, ...] | None = None
    """How the cells are divided over the dimensions; None for the cells of the plan."""
    n_groups: int = 1
    """Groups of these cells; of no meaning without ``shares``."""

    @classmethod
    def of(cls, since: int, hot: Hot, layout: Layout) -> Version:
        """The cells and groups of a layout."""
        return cls(since, hot, layout.grid.shares, layout.n_groups)

    def layout(self, planned: Layout) -> Layout:
        """The cells and where they live, if ``planned`` is what the plan of the join says."""
        is_planned = (self.shares, self.n_groups) == (planned.grid.shares, planned.n_groups)
        if self.shares is None or is_planned:
            # The very same, which knows the keys of its groups already.
            return planned
        return planned.divided_as(self.shares, self.n_groups)

    def to_json(self) -> dict[str, Any]:
        """As numbers and lists."""
        content: dict[str, Any] = {"since": self.since, "keys": [list(k) for k in self.hot.keys]}
        if self.shares is not None:
            content |= {"shares": list(self.shares), "groups": self.n_groups}
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Version:
        """From :meth:`to_json`."""
        hot = Hot(tuple(tuple(keys) for keys in content["keys"]))
        if "shares" not in content:
            return cls(content["since"], hot)
        return cls(content["since"], hot, tuple(content["shares"]), content["groups"])


FIRST = Version(0, NOT_HOT)


def version_at(versions: Iterable[Version], batch: int) -> Version:
    """The version that counts in a batch."""
    return max((v for v in versions if v.since <= batch), default=FIRST, key=lambda v: v.since)


def version_after(versions: Iterable[Version], batch: int) -> Version | None:
    """The version that counts from the batch after ``batch`` on, if it is a new one."""
    return next((v for v in versions if v.since == batch + 1), None)


def can_split(grid: Grid) -> bool:
    """Whether there is any dimension on which a hot key could be spread."""
    # A full join needs all tuples of a key in one cell.
    return grid.divided != frozenset() and any(
        share > 1 and dimension.equality is not None
        for share, dimension in zip(grid.shares, grid.dimensions, strict=True)
    )


def heavy_keys(query: BoundQuery, grid: Grid, s: int, table: pa.Table, ts: Int64s) -> list[Heavy]:
    """Keys whose tuples make up a quarter of a cell's share or more, in a piece of a stream."""
    found: list[Heavy] = []
    n = table.num_rows
    step = max(1, n // SAMPLE)
    places = np.arange(0, n, step)
    for share, dimension in zip(grid.shares, grid.dimensions, strict=True):
        if share == 1 or dimension.equality is None or s not in dimension.streams or not n:
            continue
        sample = table.take(pa.array(places))
        hashes = key_hashes(query, dimension.equality, s, sample, ts[places])
        keys, counts = np.unique(hashes, return_counts=True)
        chosen = np.flatnonzero(counts > max(1, len(places) / (4 * share)))
        found += [
            Heavy(s, dimension.equality, int(keys[at]), int(counts[at]) * step) for at in chosen
        ]
    return found


@dataclass
class HotTracker:
    """Decides which keys are hot, from what batches have shown.

    A key becomes hot when its tuples make up half of a cell's share of some stream, as its cell
    would have that much more than its share. The key stays hot until its tuples make up less than
    an eighth of a cell's share.

    Parameters
    ----------
    grid
        The cells.
    """

    grid: Grid
    _totals: dict[int, float] = field(default_factory=dict)
    _counts: dict[tuple[int, int, int], float] = field(default_factory=dict)

    def observe(self, n_arrived: Sequence[int], heavy: Iterable[Heavy]) -> None:
        """Take in a batch."""
        for s, n in enumerate(n_arrived):
            if n:
                self._totals[s] = self._totals.get(s, 0.0) * _MEMORY + n
        for (s, equality, key), count in list(self._counts.items()):
            if n_arrived[s]:
                self._counts[s, equality, key] = count * _MEMORY
        for each in heavy:
            place = (each.stream, each.equality, each.key)
            self._counts[place] = self._counts.get(place, 0.0) + each.n
        self._counts = {
            place: count for place, count in self._counts.items()
            if count > 0.001 * self._totals.get(place[0], 0.0)
        }  # fmt: skip

    def choose(self, now: Hot) -> Hot:
        """The keys that are to be hot from now on, given the keys that are hot ``now``."""
        shares = {
            dimension.equality: share
            for share, dimension in zip(self.grid.shares, self.grid.dimensions, strict=True)
            if dimension.equality is not None
        }
        weights: dict[tuple[int, int], float] = {}
        for (s, equality, key), count in self._counts.items():
            if self._totals[s] >= _ENOUGH:
                weight = count / self._totals[s]
                weights[equality, key] = max(weights.get((equality, key), 0.0), weight)
        keys: list[tuple[int, ...]] = []
        for equality in range(max(shares, default=-1) + 1):
            share = shares.get(equality, 1)
            before = now.keys[equality] if equality < len(now.keys) else ()
            wanted = sorted(
                (-weight, key)
                for (of, key), weight in weights.items()
                if of == equality and share > 1
                and weight * share >= (0.125 if key in before else 0.5)
            )  # fmt: skip
            keys.append(tuple(sorted(key for _, key in wanted[:MOST_HOT])))
        return Hot(tuple(keys)) if any(keys) else NOT_HOT


def next_versions(
    versions: tuple[Version, ...], tracker: HotTracker, planned: int
) -> tuple[Version, ...]:
    """The versions to be known when batch ``planned`` has been planned.

    Changes count from the batch after ``planned`` on.
    """
    latest = version_at(versions, planned + 1)
    if planned + 1 - latest.since < _PATIENCE and latest.since > 0:
        return versions
    chosen = tracker.choose(latest.hot)
    if chosen == latest.hot:
        return versions
    return (*versions, latest._replace(since=planned + 1, hot=chosen))[-VERSIONS_KEPT:]


def laid_out(versions: tuple[Version, ...], wanted: Layout, planned: int) -> tuple[Version, ...]:
    """The versions to be known when batch ``planned`` has been planned, if ``wanted`` is asked for.

    Tuples go to the cells that are wanted from the batch after ``planned`` on.
    """
    latest = version_at(versions, planned + 1)
    if latest.layout(wanted) == wanted:
        return versions
    hot = latest.hot if can_split(wanted.grid) else NOT_HOT
    return (*versions, Version.of(planned + 1, hot, wanted))[-VERSIONS_KEPT:]

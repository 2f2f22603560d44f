"""What one stretch of time has shown about streams, disorder and results: values that can be added.

A policy learns of the join through profiles only. One profile describes an adaptation interval, or
a micro-batch of one cell; the sum of two profiles describes both stretches, or both cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.arrays import added
from recalljoin.engine.compiled import compiled, inlined
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profiling import Arrived


MAX_COARSE = 1 << 20
"""Largest coarse delay; larger delays are counted as this one."""


@inlined
def coarse(delay: int, g: int) -> int:
    """One delay in steps of the granularity."""
    # Most tuples have no delay, and a division would take as long as everything else.
    return 0 if delay == 0 else min(-(-delay // g), MAX_COARSE)


@compiled
def coarse_delay(delay: Int64s, granularity: int) -> Int64s:
    """Delays in steps of the granularity: 0 for none, 1 for (0, g], 2 for (g, 2g] and so on.

    Examples
    --------
    >>> coarse_delay(np.array([0, 1, 10, 11]), 10)
    array([0, 1, 1, 2])
    """
    steps = np.empty_like(delay)
    for i in range(len(delay)):
        steps[i] = coarse(delay[i], granularity)
    return steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """What was seen in one stretch.

    A tuple is counted once, however many cells hold a copy: by the cell that owns it. Each result
    is found in one cell only.

    Two profiles can be added when they have the same number of streams, granularity and bucket.
    Counts are added; of clocks and maxima the larger one is taken. So where a tuple is copied to
    several cells, the maximum is about its copy with the most results, not about all its copies.
    """

    granularity: int
    """g: width of a step of coarse delay."""
    bucket: int
    """Width of the buckets in which results are counted by their time; 1 is exact."""
    delays: Int64s
    """``[stream, coarse delay]``: tuples that arrived."""
    arrived: Arrived | None
    """The tuples one by one, in order of arrival. The order is known within one cell and one
    stretch only, so sums of profiles and profiles read from JSON have None here."""
    largest_delay: int
    k_sync_sum: Float64s
    """For each stream, measurements of K_sync added up."""
    n_k_sync: Int64s
    """For each stream, the number of measurements of K_sync."""
    begins: Int64s
    """Local time of each stream before the stretch, or its first time; FOREVER if unknown."""
    ends: Int64s
    """Local time of each stream after the stretch; NEVER if unknown."""
    in_order: Int64s
    """``[stream, coarse delay]``: tuples the join received in order."""
    late: Int64s
    """``[stream, coarse delay]``: tuples the join received out of order."""
    n_join: Int64s
    """By coarse delay of the trigger, results produced (the part of M⋈ that is counted)."""
    n_cross: Float64s | None
    """By coarse delay of the trigger, results of the cross join (M×); None when no cell sees all
    tuples."""
    largest_join: int
    """Most results one in-order tuple has produced."""
    largest_cross: float
    produced: Tally
    """Results by their time."""
    lost: Tally
    received: tuple[Tally, ...]
    """For each stream the tuples the join received, by their time."""
    beyond: tuple[Tally, ...]
    """For each stream the tuples received beyond the retention horizon, whose losses are unknown,
    by their time."""
    unknown: Float64s
    """For each stream the tuples beyond the horizon, each counted by the share of its results that
    can be neither produced nor counted as lost. The share is 1 unless the horizon is shorter than
    the window."""
    behind: Int64s
    """``[stream, bin]``: tuples received, by the bin of base time at arrival less timestamp
    (:mod:`~recalljoin.engine.slack_bins`). Unlike coarse delays, bins reach as far as time does."""
    beyond_slack: Int64s
    """``[stream, bin]``: tuples beyond the retention horizon, by the same bins."""
    slack: Int64s
    """``[0 for produced or 1 for lost, bin]``: results by required slack
    (:mod:`recalljoin.engine.slack_bins`)."""
    join_time: int
    base_time: int
    counted_since: int
    """Losses with tuples from before this time are not counted: the retention horizon."""
    tick_span: int
    """Largest advance of the base time within one tick; 0 where tuples arrive one by one. How late
    a tuple is can be seen between ticks only."""
    n_uncomputable: int = 0
    """How often a condition could not be computed; the tuples count as not matching."""
    nulls: Tally = field(default_factory=Tally.empty)
    """Rows without a partner that have left, by their time."""
    false_nulls: Tally = field(default_factory=Tally.empty)
    """Rows of these, earlier ones among them, of which a partner came after all."""
    null_needs: Int64s = field(default_factory=lambda: np.zeros((3, 1), dtype=np.int64))
    """What each K would have given (:data:`recalljoin.engine.verdicts.UNMATCHED`)."""
    lags: Tally = field(default_factory=Tally.empty)
    """Tuples by lag of the slowest source and by their own (:mod:`recalljoin.quality.source_lags`).
    """
    gaps: Tally = field(default_factory=Tally.empty)
    """Ticks by lag of the slowest source, as often as there are cells."""

    @classmethod
    def empty(cls, m: int, *, granularity: int, bucket: int = 1) -> Profile:
        """Nothing seen: added to another profile, it changes nothing."""
        return cls(
            granularity=granularity,
            bucket=bucket,
            delays=np.zeros((m, 1), dtype=np.int64),
            arrived=None,
            largest_delay=0,
            k_sync_sum=np.zeros(m),
            n_k_sync=np.zeros(m, dtype=np.int64),
            begins=np.full(m, FOREVER, dtype=np.int64),
            ends=np.full(m, NEVER, dtype=np.int64),
            in_order=np.zeros((m, 1), dtype=np.int64),
            late=np.zeros((m, 1), dtype=np.int64),
            n_join=np.zeros(1, dtype=np.int64),
            n_cross=np.zeros(1),
            largest_join=0,
            largest_cross=0.0,
            produced=Tally.empty(),
            lost=Tally.empty(),
            received=(Tally.empty(),) * m,
            beyond=(Tally.empty(),) * m,
            unknown=np.zeros(m),
            behind=np.zeros((m, 1), dtype=np.int64),
            beyond_slack=np.zeros((m, 1), dtype=np.int64),
            slack=np.zeros((2, 1), dtype=np.int64),
            join_time=NEVER,
            base_time=NEVER,
            counted_since=NEVER,
            tick_span=0,
        )

    @property
    def m(self) -> int:
        """Number of streams."""
        return len(self.delays)

    @property
    def n_arrived(self) -> int:
        """Tuples that arrived."""
        return int(self.delays.sum())

    @property
    def n_late(self) -> int:
        """Tuples that reached the join out of order."""
        return int(self.late.sum())

    @property
    def largest_behind(self) -> int:
        """How far any tuple came behind the base time, to within the width of a bin."""
        (used,) = np.nonzero(self.behind.any(axis=0))
        return max(0, int(ENOUGH[used[-1]]) - 1) if len(used) else 0

    @property
    def n_produced(self) -> int:
        """Rows produced, without those that have left in error."""
        return self.produced.total

    @property
    def n_lost(self) -> int:
        """Results lost for good, as far as the retention horizon lets them be counted."""
        return self.lost.total

    @property
    def n_beyond(self) -> int:
        """Late tuples beyond the retention horizon."""
        return sum(tally.total for tally in self.beyond)

    def __add__(self, other: Profile) -> Profile:
        assert (self.m, self.granularity, self.bucket) == (
            other.m,
            other.granularity,
            other.bucket,
        ), "profiles of different queries or settings do not add up"
        cross = None
        if self.n_cross is not None and other.n_cross is not None:
            cross = added(self.n_cross, other.n_cross)
        return Profile(
            granularity=self.granularity,
            bucket=self.bucket,
            delays=added(self.delays, other.delays),
            arrived=None,
            largest_delay=max(self.largest_delay, other.largest_delay),
            k_sync_sum=self.k_sync_sum + other.k_sync_sum,
            n_k_sync=self.n_k_sync + other.n_k_sync,
            begins=np.minimum(self.begins, other.begins),
            ends=np.maximum(self.ends, other.ends),
            in_order=added(self.in_order, other.in_order),
            late=added(self.late, other.late),
            n_join=added(self.n_join, other.n_join),
            n_cross=cross,
            largest_join=max(self.largest_join, other.largest_join),
            largest_cross=max(self.largest_cross, other.largest_cross),
            produced=self.produced + other.produced,
            lost=self.lost + other.lost,
            received=_all_added(self.received, other.received),
            beyond=_all_added(self.beyond, other.beyond),
            unknown=self.unknown + other.unknown,
            behind=added(self.behind, other.behind),
            beyond_slack=added(self.beyond_slack, other.beyond_slack),
            slack=added(self.slack, other.slack),
            join_time=max(self.join_time, other.join_time),
            base_time=max(self.base_time, other.base_time),
            counted_since=max(self.counted_since, other.counted_since),
            tick_span=max(self.tick_span, other.tick_span),
            n_uncomputable=self.n_uncomputable + other.n_uncomputable,
            nulls=self.nulls + other.nulls,
            false_nulls=self.false_nulls + other.false_nulls,
            null_needs=added(self.null_needs, other.null_needs),
            lags=self.lags + other.lags,
            gaps=self.gaps + other.gaps,
        )

    def totals(self) -> Profile:
        """How many there were of everything, without delays and times.

        Totals of profiles with different granularities and buckets can be added.
        """
        return replace(
            Profile.empty(self.m, granularity=1),
            delays=self.delays.sum(axis=1, keepdims=True),
            in_order=self.in_order.sum(axis=1, keepdims=True),
            late=self.late.sum(axis=1, keepdims=True),
            largest_delay=self.largest_delay,
            begins=self.begins,
            ends=self.ends,
            largest_join=self.largest_join,
            produced=self.produced.at_once(),
            lost=self.lost.at_once(),
            received=tuple(tally.at_once() for tally in self.received),
            beyond=tuple(tally.at_once() for tally in self.beyond),
            unknown=self.unknown,
            join_time=self.join_time,
            base_time=self.base_time,
            counted_since=self.counted_since,
            tick_span=self.tick_span,
            n_uncomputable=self.n_uncomputable,
            nulls=self.nulls.at_once(),
            false_nulls=self.false_nulls.at_once(),
        )

    def to_json(self) -> dict[str, Any]:
        """As numbers, texts and lists; histograms without their empty bins."""
        content: dict[str, Any] = {}
        for name in (each.name for each in fields(self) if each.name != "arrived"):
            value = getattr(self, name)
            if isinstance(value, Tally):
                value = value.to_json()
            elif name in ("received", "beyond"):
                value = [tally.to_json() for tally in value]
            elif name in _HISTOGRAMS and value is not None:
                rows = np.atleast_2d(value)
                value = [[np.flatnonzero(row).tolist(), row[row != 0].tolist()] for row in rows]
            elif isinstance(value, np.ndarray):
                value = value.tolist()
            content[name] = value
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Profile:
        """From :meth:`to_json`."""
        values: dict[str, Any] = {**content, "arrived": None}
        for name, kind in _HISTOGRAMS.items():
            if values.get(name) is not None:
                values[name] = _dense(values[name], kind, flat=name in ("n_join", "n_cross"))
        for name in ("produced", "lost", "nulls", "false_nulls", "lags", "gaps"):
            if name in values:
                values[name] = Tally.from_json(values[name])
        for name in ("received", "beyond"):
            values[name] = tuple(Tally.from_json(each) for each in values[name])
        for name in ("n_k_sync", "begins", "ends"):
            values[name] = np.array(values[name], dtype=np.int64)
        for name in ("k_sync_sum", "unknown"):
            values[name] = np.array(values[name], dtype=np.float64)
        return cls(**values)


def profile_of_cells(profiles: Sequence[Profile]) -> Profile:
    """The profiles of all cells put together."""
    # All cells follow all sources: more of them must not make what a step shows weigh more.
    return replace(reduce(add, profiles), gaps=profiles[0].gaps)


_HISTOGRAMS: dict[str, type[np.generic]] = {
    "delays": np.int64,
    "in_order": np.int64,
    "late": np.int64,
    "n_join": np.int64,
    "n_cross": np.float64,
    "slack": np.int64,
    "behind": np.int64,
    "beyond_slack": np.int64,
    "null_needs": np.int64,
}


def _all_added(one: tuple[Tally, ...], other: tuple[Tally, ...]) -> tuple[Tally, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _dense(rows: list[Any], kind: type[np.generic], *, flat: bool) -> NDArray[Any]:
    width = 1 + max((places[-1] for places, _ in rows if places), default=0)
    dense = np.zeros((len(rows), width), dtype=kind)
    for row, (places, values) in zip(dense, rows, strict=True):
        row[places] = values
    return dense[0] if flat else dense

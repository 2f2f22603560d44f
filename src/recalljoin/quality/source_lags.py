"""What the clocks of sources show: how far sources are behind, and how late their tuples are then.

Every tuple is counted by two numbers: how far it came behind the slowest stream, and how far the
slowest source was behind the slowest stream at that time. From the two follows how late the tuple
would have been at any lead: the distance that the base time may be ahead of the slowest source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recalljoin.engine.source_clocks import SourceClocks
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.engine.progress import Held
    from recalljoin.quality.settings import PolicySettings
    from recalljoin.query.bound_query import BoundQuery

PER_OCTAVE = 8
"""Bins to an octave of time."""
ROW = 1 << 12
"""A tuple's key is this many times the bin of its source's lag, plus the bin of its own."""


@dataclass(frozen=True)
class SourcePlan:
    """How sources are followed.

    Parameters
    ----------
    epoch, spare
        As in :class:`~recalljoin.engine.source_clocks.SourceClocks`.
    max_wait
        How long the join waits for a source at most; FOREVER for no limit.
    """

    epoch: int
    spare: float
    max_wait: int = FOREVER

    @classmethod
    def of(cls, settings: PolicySettings) -> SourcePlan:
        """As a target asks for it.

        Without some sources, the results that have a member from one of them are lost: up to as
        many times their share of the tuples as a result has members. Half of what may be lost is
        left to them.
        """
        spare = (1 - settings.recall) / (2 * len(settings.windows))
        max_wait = FOREVER if settings.max_wait is None else settings.max_wait
        return cls(settings.period, spare, max_wait)

    def clocks(self) -> SourceClocks:
        """Clocks of sources of which nothing has come yet."""
        return SourceClocks(epoch=self.epoch, spare=self.spare)


def say_of_sources(plan: SourcePlan, lead: int, leap: int) -> dict[str, Any]:
    """How sources are followed in a batch, as values that JSON can hold."""
    return {
        "epoch": plan.epoch,
        "spare": plan.spare,
        "max_wait": None if plan.max_wait == FOREVER else plan.max_wait,
        "lead": None if lead == FOREVER else lead,
        "leap": None if leap == FOREVER else leap,
    }


def told_of_sources(said: dict[str, Any] | None) -> tuple[SourcePlan, int, int]:
    """From :func:`say_of_sources`; None: nothing was said, and no source is waited for."""
    if said is None:
        return SourcePlan(1, 0.0), FOREVER, FOREVER
    # Offsets of an old checkpoint say nothing of leaps.
    lead, leap, max_wait = (
        FOREVER if said.get(name) is None else said[name] for name in ("lead", "leap", "max_wait")
    )
    return SourcePlan(said["epoch"], said["spare"], max_wait), lead, leap


def gaps_of(fronts: Int64s, slowest: Int64s) -> Int64s:
    """How far the slowest source is behind the slowest stream; 0 where one of them is not known."""
    known = (fronts != NEVER) & (slowest != NEVER)
    gaps: Int64s = np.maximum(np.where(known, fronts, 0) - np.where(known, slowest, 0), 0)
    return gaps


def sources_of(query: BoundQuery, arrivals: Arrivals) -> Int64s | None:
    """For each tuple of a recording the number of its source, from 1 on; None without sources.

    A stream that does not say where its tuples are from is one source.
    """
    if all(stream.source is None for stream in query.streams):
        return None
    m = len(query.streams)
    numbers = np.empty(len(arrivals), dtype=np.int64)
    for s, (stream, table) in enumerate(zip(query.streams, arrivals.tables, strict=True)):
        (mine,) = np.nonzero(arrivals.stream == s)
        codes = np.zeros(len(mine), dtype=np.int64)
        if stream.source is not None and len(mine):
            column = table.column(stream.source).combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = column.chunk(0)
            if isinstance(column, pa.ExtensionArray):
                column = column.storage
            if isinstance(column, pa.DictionaryArray):
                column = column.dictionary_decode()
            encoded = column.dictionary_encode(null_encoding="encode")
            codes = encoded.indices.to_numpy()[arrivals.row[mine]].astype(np.int64)
        numbers[mine] = 1 + s + m * codes
    return numbers


def bins_of(lengths: Int64s) -> Int64s:
    """Bins of lengths of time, eight to an octave."""
    bins: Int64s = (PER_OCTAVE * np.log2(1.0 + lengths)).astype(np.int64)
    return bins


def lengths_of(bins: Int64s) -> Float64s:
    """The largest length of each bin, or nearly so."""
    lengths: Float64s = np.exp2((bins + 1) / PER_OCTAVE) - 1
    return lengths


def lags_of(ts: Int64s, tick: Int64s, fronts: Int64s, held: Held) -> tuple[Tally, Tally]:
    """Count tuples by lag of the slowest source and their own, and ticks by lag of that source.

    Parameters
    ----------
    ts, tick
        The tuples; ticks are counted from 0. Tuples ahead of the slowest stream are not counted.
    fronts
        Clock of the slowest stream before the first tick, and after each.
    held
        Clock of the slowest source.
    """
    slowest = np.append(held.before, held.slowest)
    known = (fronts != NEVER) & (slowest != NEVER)
    lag = gaps_of(fronts, slowest)
    (behind,) = np.nonzero(known[tick] & (ts <= fronts[tick]))
    own = fronts[tick[behind]] - ts[behind]
    keys = ROW * bins_of(lag[tick[behind]]) + bins_of(own)
    lengths = None if held.lengths is None else held.lengths[known[1:]]
    return Tally.of(keys), Tally.of(bins_of(lag[1:][known[1:]]), lengths)

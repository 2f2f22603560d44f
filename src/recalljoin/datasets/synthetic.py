"""The synthetic streams of the paper's Section VI: D_syn x3 and D_syn x4."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.datasets.base import BlockDataset, find_stream, stream_names
from recalljoin.datasets.counters import derive_key, draw_uniform
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Q_X3", "Q_X4", "StreamSpec", "Synthetic", "make_syn_x3", "make_syn_x4", "zipf_cdf"]

Q_X3 = "SELECT * FROM s1 [5 SEC], s2 [5 SEC], s3 [5 SEC] WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1"
Q_X4 = (
    "SELECT * FROM s1 [3 SEC], s2 [3 SEC], s3 [3 SEC], s4 [3 SEC] "
    "WHERE s1.a1 = s2.a1 AND s1.a2 = s3.a2 AND s1.a3 = s4.a3"
)

# What a key is for, after the stream number. Attribute k of a stream uses the numbers
# _ATTRIBUTES + 2k (its values) and _ATTRIBUTES + 2k + 1 (when its skew changes, and to what).
_DELAYS = 0
_ATTRIBUTES = 1


@dataclass(frozen=True)
class StreamSpec:
    """One stream of `Synthetic`.

    Parameters
    ----------
    name
        Name of the stream in the query.
    delay_skew
        Zipf skew of the delays; larger means fewer and shorter delays.
    attributes
        The attribute columns, each with values and skew changes of its own.
    """

    name: str
    delay_skew: float
    attributes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Synthetic(BlockDataset):
    """Streams in step: every ``gap`` milliseconds each stream receives one tuple.

    Row n of a stream arrives at ``start + (n + 1) * gap`` (the paper raises the clock iT before
    it makes a tuple), and its ``ts`` is that time minus a delay. Delays are Zipf over the values
    0, ``delay_step``, ..., ``max_delay``: rank 1 is no delay at all. Attribute values are Zipf
    over 1 .. ``domain``; their skew starts at ``first_skew`` and is redrawn uniformly from
    ``skew_range`` after intervals drawn uniformly from ``change_every``. With a shorter
    ``duration``, the rows are the first rows of a longer data set.

    Parameters
    ----------
    name, query
        As in `Dataset`.
    specs
        The streams.
    seed
        A non-negative integer; other seeds give other rows.
    duration
        Length in milliseconds.
    start
        Event time at which the streams begin (the paper's ts_ini), in milliseconds.
    gap
        Milliseconds between two tuples of a stream; 10 is the paper's 100 tuples a second.
    max_delay, delay_step
        Largest delay and distance between two delays, in milliseconds. The paper names no step;
        with 100 ms, Max-K-slack reaches the mean K of the paper's Table II.
    domain
        Number of attribute values.
    first_skew, skew_range, change_every
        How the skew of attributes moves, see above; ``change_every`` in milliseconds.
    block_rows
        Rows in a block. It changes the blocks, never the rows.

    Examples
    --------
    >>> dataset = make_syn_x3(seed=1, duration=60_000)
    >>> dataset.table("s1").num_rows
    6000
    >>> dataset.table("s2").schema.names
    ['arrival', 'ts', 'a1']
    """

    name: str
    query: str
    specs: tuple[StreamSpec, ...]
    seed: int = 0
    duration: int = 30 * 60_000
    start: int = 100_000
    gap: int = 10
    max_delay: int = 20_000
    delay_step: int = 100
    domain: int = 100
    first_skew: float = 1.0
    skew_range: tuple[float, float] = (0.0, 5.0)
    change_every: tuple[int, int] = (60_000, 600_000)
    block_rows: int = 10_000

    def __post_init__(self) -> None:
        """Check the settings and report all faults together."""
        positive = ("duration", "gap", "delay_step", "domain", "block_rows")
        faults = [
            f"`{name}` must be at least 1, got {getattr(self, name)!r}"
            for name in positive
            if getattr(self, name) < 1
        ]
        if self.seed < 0:
            faults.append(f"`seed` must not be negative, got {self.seed!r}")
        if self.max_delay < 0:
            faults.append(f"`max_delay` must not be negative, got {self.max_delay!r}")
        if self.delay_step >= 1 and self.max_delay % self.delay_step:
            faults.append(
                f"`max_delay` must be a multiple of `delay_step`, "
                f"got {self.max_delay!r} and {self.delay_step!r}"
            )
        low, high = self.skew_range
        if low > high:
            faults.append(f"`skew_range` must not fall, got {self.skew_range!r}")
        if not 1 <= self.change_every[0] <= self.change_every[1]:
            faults.append(
                f"`change_every` must be two rising times of at least 1 ms, "
                f"got {self.change_every!r}"
            )
        if faults:
            raise DatasetError("; ".join(faults))

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(spec.name for spec in self.specs)

    @property
    def simulated(self) -> bool:
        """Always true: these rows are generated."""
        return True

    @property
    def rows(self) -> int:
        """Number of tuples in each stream."""
        return self.duration // self.gap

    def schema(self, stream: str) -> pa.Schema:
        """Return ``arrival``, ``ts`` and the attributes, all 64-bit integers."""
        names = ("arrival", "ts", *self.specs[find_stream(self, stream)].attributes)
        return pa.schema([(name, pa.int64()) for name in names])

    def blocks(self, stream: str) -> int:
        """Return the number of blocks; it is the same for all streams."""
        find_stream(self, stream)
        return -(-self.rows // self.block_rows)

    def skew_changes(self, stream: str, attribute: str) -> tuple[tuple[int, float], ...]:
        """Return the changes of an attribute's skew.

        Each change is (milliseconds after ``start``, new skew); the new skew holds for tuples that
        arrive at that time or later. Changes after ``duration`` are left out.
        """
        position = find_stream(self, stream)
        attributes = self.specs[position].attributes
        if attribute not in attributes:
            message = (
                f"`attribute` must be one of {', '.join(attributes)} for stream {stream!r} "
                f"of {self.name}, got {attribute!r}"
            )
            raise DatasetError(message)
        return self._skew_changes(position, attributes.index(attribute))

    def _make_block(self, stream: int, index: int) -> pa.RecordBatch:
        first = index * self.block_rows
        count = min(self.block_rows, self.rows - first)
        spec = self.specs[stream]
        elapsed = (np.arange(first, first + count, dtype=np.int64) + 1) * self.gap
        arrival = elapsed + self.start
        draws = draw_uniform(self._key(stream, _DELAYS), first, count)
        ranks = _draw_ranks(self._delay_cdfs[stream], draws)
        columns = [arrival, arrival - ranks * self.delay_step]
        columns += [
            self._values(stream, number, first, elapsed) for number in range(len(spec.attributes))
        ]
        return pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], schema=self.schema(spec.name)
        )

    def _key(self, stream: int, purpose: int) -> NDArray[np.uint64]:
        # The key contains the number of streams, so that x3 and x4 of one seed share no stream.
        return derive_key(self.seed, len(self.specs), stream, purpose)

    @cached_property
    def _delay_cdfs(self) -> tuple[NDArray[np.float64], ...]:
        n_delays = self.max_delay // self.delay_step + 1
        return tuple(zipf_cdf(n_delays, spec.delay_skew) for spec in self.specs)

    def _values(
        self, stream: int, attribute: int, first: int, elapsed: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Draw the values of one attribute for rows that start at row ``first``."""
        key = self._key(stream, _ATTRIBUTES + 2 * attribute)
        draws = draw_uniform(key, first, len(elapsed))
        changes = self._skew_changes(stream, attribute)
        skews = [self.first_skew, *(skew for _, skew in changes)]
        times = np.array([time for time, _ in changes], dtype=np.int64)
        # The clock only rises, so the rows that share a skew are adjacent.
        cuts = [0, *np.searchsorted(elapsed, times, side="left").tolist(), len(elapsed)]
        values = np.empty(len(elapsed), dtype=np.int64)
        for skew, low, high in zip(skews, cuts[:-1], cuts[1:], strict=True):
            if low < high:
                values[low:high] = 1 + _draw_ranks(zipf_cdf(self.domain, skew), draws[low:high])
        return values

    def _skew_changes(self, stream: int, attribute: int) -> tuple[tuple[int, float], ...]:
        shortest, longest = self.change_every
        low, high = self.skew_range
        n_changes = self.duration // shortest + 1
        key = self._key(stream, _ATTRIBUTES + 2 * attribute + 1)
        waits, skews = draw_uniform(key, 0, 2 * n_changes).reshape(n_changes, 2).T
        times = np.cumsum(np.floor(shortest + waits * (longest - shortest)).astype(np.int64))
        kept = times <= self.duration
        drawn = low + skews[kept] * (high - low)
        return tuple(zip(times[kept].tolist(), drawn.tolist(), strict=True))


def make_syn_x3(
    seed: int = 0,
    *,
    duration: int = 30 * 60_000,
    delay_step: int = 100,
    block_rows: int = 10_000,
) -> Synthetic:
    """Return D_syn x3: three streams with attribute ``a1``, joined by `Q_X3`.

    Stream 1 has delay skew 2.0, the other two have 3.0. `Synthetic` explains the parameters.
    """
    skews = (2.0, 3.0, 3.0)
    return Synthetic(
        name="syn_x3",
        query=Q_X3,
        specs=tuple(
            StreamSpec(stream, skew, ("a1",))
            for stream, skew in zip(stream_names(3), skews, strict=True)
        ),
        seed=seed,
        duration=duration,
        delay_step=delay_step,
        block_rows=block_rows,
    )


def make_syn_x4(
    seed: int = 0,
    *,
    duration: int = 30 * 60_000,
    delay_step: int = 100,
    block_rows: int = 10_000,
) -> Synthetic:
    """Return D_syn x4: a star of four streams around ``s1``, joined by `Q_X4`.

    Delay skew is 3.0 for the first three streams and 4.0 for the last. `Synthetic` explains the
    parameters.
    """
    return Synthetic(
        name="syn_x4",
        query=Q_X4,
        specs=(
            StreamSpec("s1", 3.0, ("a1", "a2", "a3")),
            StreamSpec("s2", 3.0, ("a1",)),
            StreamSpec("s3", 3.0, ("a2",)),
            StreamSpec("s4", 4.0, ("a3",)),
        ),
        seed=seed,
        duration=duration,
        delay_step=delay_step,
        block_rows=block_rows,
    )


def zipf_cdf(count: int, skew: float) -> NDArray[np.float64]:
    """Return P(rank <= r) for ranks 1 .. ``count``, where P(rank = r) goes with ``1 / r**skew``.

    Skew 0 is the uniform distribution.

    Examples
    --------
    >>> zipf_cdf(3, 1.0).round(4).tolist()  # weights 1, 1/2, 1/3
    [0.5455, 0.8182, 1.0]
    """
    cumulative = np.cumsum(np.arange(1, count + 1, dtype=np.float64) ** -skew)
    cdf: NDArray[np.float64] = cumulative / cumulative[-1]
    return cdf


def _draw_ranks(cdf: NDArray[np.float64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn uniform draws into ranks counted from 0."""
    # draws are below 1 and the last entry is exactly 1, so the last rank is never exceeded.
    return np.searchsorted(cdf, draws, side="right").astype(np.int64)

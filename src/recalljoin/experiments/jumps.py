"""Streams whose disorder changes suddenly: delays grow tenfold, or a stream falls back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from recalljoin.datasets import BlockDataset, Synthetic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Millis = NDArray[np.int64]

FACTOR = 10
LAG = 10_000
"""Milliseconds by which a stream falls back."""


@dataclass(frozen=True)
class Jumping(BlockDataset):
    """A data set whose disorder is different in its middle third.

    Parameters
    ----------
    usual
        The data set from which it is made.
    change
        ``"delays"``: delays are ten times as long for tuples that arrive within the middle third.
        ``"lag"``: from one third of the time on, the first stream arrives 10 s later than usual. At
        two thirds it begins to catch up at twice its speed, and has caught up 10 s later.
    """

    usual: Synthetic
    change: Literal["delays", "lag"]

    @property
    def name(self) -> str:
        """Name of the data set from which it is made, and of the change."""
        return f"{self.usual.name}_{self.change}"

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return self.usual.streams

    @property
    def simulated(self) -> bool:
        """Always true: these rows are generated."""
        return True

    @property
    def query(self) -> str:
        """The query of the data set from which it is made."""
        return self.usual.query

    @property
    def changes_at(self) -> tuple[int, int]:
        """When the disorder changes and when it changes back, in milliseconds since the start."""
        return self.usual.duration // 3, 2 * self.usual.duration // 3

    def schema(self, stream: str) -> pa.Schema:
        """Return the columns of one stream."""
        return self.usual.schema(stream)

    def blocks(self, stream: str) -> int:
        """Return the number of blocks of one stream."""
        return self.usual.blocks(stream)

    def _make_block(self, stream: int, index: int) -> pa.RecordBatch:
        block = self.usual.block(self.streams[stream], index)
        arrival, ts = (block.column(name).to_numpy() for name in ("arrival", "ts"))
        begin, end = (self.usual.start + at for at in self.changes_at)
        if self.change == "delays":
            delay = arrival - ts
            ts = arrival - np.where((arrival >= begin) & (arrival < end), FACTOR * delay, delay)
        elif stream == 0:
            arrival = _fallen_back(arrival, begin, end)
        others = block.columns[2:]
        return pa.RecordBatch.from_arrays(
            [pa.array(arrival), pa.array(ts), *others], schema=self.schema(self.streams[stream])
        )


def _fallen_back(arrival: Millis, begin: int, end: int) -> Millis:
    """Arrivals of a stream that is late by :data:`LAG` for a while; tuples stay in order."""
    #  begin        end - LAG      end + LAG
    #    |  + LAG       |  half speed  |  as usual
    late = np.where(arrival >= begin, arrival + LAG, arrival)
    catching_up = end + (arrival - (end - LAG)) // 2
    late = np.where(arrival >= end - LAG, catching_up, late)
    fallen: Millis = np.where(arrival >= end + LAG, arrival, late)
    return fallen

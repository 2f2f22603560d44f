"""What every data set offers: named streams, cut into blocks that can be made independently."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BlockDataset", "Dataset", "find_stream", "stream_names"]


@runtime_checkable
class Dataset(Protocol):
    """Disordered streams in arrival order, together with the query that joins them.

    Every table begins with the columns ``arrival`` (a time in milliseconds, or a global position)
    and ``ts`` (event time in milliseconds), both 64-bit integers; the attributes follow.
    ``arrival`` never decreases within a stream.

    A stream is the concatenation of its blocks. A block depends on nothing but the data set and
    its own index, so any number of workers can make the blocks in any order and get the same rows.
    """

    @property
    def name(self) -> str:
        """A short name for files and reports."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, as the query spells them."""

    @property
    def simulated(self) -> bool:
        """Whether the rows come from a generator and not from a recording."""

    @property
    def query(self) -> str:
        """The text of the query that belongs to this data set."""

    def schema(self, stream: str) -> pa.Schema:
        """Return the columns of one stream."""

    def blocks(self, stream: str) -> int:
        """Return the number of blocks of one stream."""

    def block(self, stream: str, index: int) -> pa.RecordBatch:
        """Return block ``index`` (from 0) of one stream."""

    def table(self, stream: str) -> pa.Table:
        """Return one stream whole."""

    def write(self, directory: str | Path) -> tuple[Path, ...]:
        """Write one Parquet file per stream, in arrival order, and return their paths."""


class _Blocks(Protocol):
    """What `BlockDataset` needs of the class it is mixed into."""

    @property
    def name(self) -> str: ...
    @property
    def streams(self) -> tuple[str, ...]: ...
    @property
    def simulated(self) -> bool: ...
    def schema(self, stream: str) -> pa.Schema: ...
    def blocks(self, stream: str) -> int: ...
    def _make_block(self, stream: int, index: int) -> pa.RecordBatch: ...


class BlockDataset:
    """Everything of `Dataset` that follows from the blocks alone.

    It is mixed into a class with ``name``, ``streams``, ``simulated``, ``query``, ``schema``,
    ``blocks`` and ``_make_block``; stream and index are checked before ``_make_block`` is called.
    """

    def block(self: _Blocks, stream: str, index: int) -> pa.RecordBatch:
        """Return block ``index`` (from 0) of one stream; it has the same rows every time."""
        position = find_stream(self, stream)
        count = self.blocks(stream)
        if not 0 <= index < count:
            message = (
                f"`index` must be in [0, {count}) for stream {stream!r} of {self.name}, "
                f"got {index!r}; `blocks({stream!r})` tells the number of blocks"
            )
            raise DatasetError(message)
        return self._make_block(position, index)

    def table(self: _Blocks, stream: str) -> pa.Table:
        """Return one stream whole, its blocks one after the other."""
        return pa.Table.from_batches(_batches(self, stream), schema=self.schema(stream))

    def write(self: _Blocks, directory: str | Path) -> tuple[Path, ...]:
        """Write one Parquet file per stream (``s1.parquet``, ...) in arrival order.

        The files carry the name of the data set and whether it is simulated in their schema, so
        that a figure made from them later cannot pass generated rows for recorded ones.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        label = {
            "recalljoin.dataset": self.name,
            "recalljoin.simulated": str(self.simulated).lower(),
        }
        paths = []
        for stream in self.streams:
            path = folder / f"{stream}.parquet"
            with pq.ParquetWriter(path, self.schema(stream).with_metadata(label)) as writer:
                for batch in _batches(self, stream):
                    writer.write_batch(batch.replace_schema_metadata(label))
            paths.append(path)
        return tuple(paths)


def find_stream(dataset: _Blocks, stream: str) -> int:
    """Return the position of a stream among the streams of a data set."""
    if stream not in dataset.streams:
        message = (
            f"`stream` must be one of {', '.join(dataset.streams)} in {dataset.name}, "
            f"got {stream!r}"
        )
        raise DatasetError(message)
    return dataset.streams.index(stream)


def _batches(dataset: _Blocks, stream: str) -> Iterator[pa.RecordBatch]:
    position = find_stream(dataset, stream)
    return (dataset._make_block(position, index) for index in range(dataset.blocks(stream)))


def stream_names(count: int) -> tuple[str, ...]:
    """Return the names that the paper's queries use: ``s1``, ``s2``, ..."""
    return tuple(f"s{number}" for number in range(1, count + 1))

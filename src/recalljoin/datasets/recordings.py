"""Streams read from files: tables in arrival order, and an account of what was left out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from recalljoin.datasets.base import BlockDataset, find_stream
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    import pyarrow as pa

__all__ = ["ReadReport", "Recording", "make_report", "require_file", "sort_by_arrival"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadReport:
    """How many lines of the files became rows, and why other lines did not.

    Parameters
    ----------
    kept
        Lines that became rows.
    skipped
        Sound lines that were not asked for, counted by reason.
    rejected
        Lines that could not be read, counted by reason.
    """

    kept: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """One line: ``12 rows kept; skipped 3 (2 ball, 1 referee); rejected 1 (1 not JSON)``."""
        parts = [f"{self.kept} rows kept"]
        for word, counts in (("skipped", self.skipped), ("rejected", self.rejected)):
            if counts:
                reasons = ", ".join(f"{n} {reason}" for reason, n in counts.items())
                parts.append(f"{word} {sum(counts.values())} ({reasons})")
        return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Recording(BlockDataset):
    """Recorded streams, held in memory.

    Parameters
    ----------
    name, query
        As in `Dataset`.
    tables
        One table per stream, in arrival order.
    report
        What happened to the lines of the files.
    block_rows
        Rows per block.
    """

    name: str
    query: str
    tables: Mapping[str, pa.Table]
    report: ReadReport
    block_rows: int = 100_000

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(self.tables)

    @property
    def simulated(self) -> bool:
        """Always false: somebody recorded these rows."""
        return False

    def schema(self, stream: str) -> pa.Schema:
        """Return the columns of one stream."""
        find_stream(self, stream)
        return self.tables[stream].schema

    def blocks(self, stream: str) -> int:
        """Return the number of blocks of one stream."""
        find_stream(self, stream)
        rows: int = self.tables[stream].num_rows
        return -(-rows // self.block_rows)

    def _make_block(self, stream: int, index: int) -> pa.RecordBatch:
        table = self.tables[self.streams[stream]]
        part = table.slice(index * self.block_rows, self.block_rows).combine_chunks()
        return part.to_batches(max_chunksize=self.block_rows)[0]


def make_report(
    source: Path | str, kept: int, *, skipped: Counter[str], rejected: Counter[str]
) -> ReadReport:
    """Sum up what was read, refuse files without a single row, and log rejected lines once."""
    # Unary plus leaves out the reasons that never occurred.
    report = ReadReport(kept, skipped=dict(+skipped), rejected=dict(+rejected))
    if not kept:
        message = f"no usable line in {source}: {report}; check that it is the right kind of file"
        raise DatasetError(message)
    if report.rejected:
        _LOG.warning("%s: %s", source, report)
    return report


def require_file(path: str | Path) -> Path:
    """Return the path of an existing file."""
    found = Path(path)
    if not found.is_file():
        message = f"`path` must be an existing file, got {str(path)!r}"
        raise DatasetError(message)
    return found


def sort_by_arrival(table: pa.Table) -> pa.Table:
    """Return the rows ordered by ``arrival``; rows that arrived together keep their order."""
    return table.take(pc.sort_indices(table, sort_keys=[("arrival", "ascending")]))

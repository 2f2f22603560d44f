"""Late and refused rows in a control log: cells leave them batch by batch, in Parquet.

    <kind>/<stream>/<batch>-<cell>.parquet      rows of one batch, left by a cell
    <kind>/<stream>/<first>-<last>.parquet      rows of many batches, put together by the driver

Rows are never dropped, but a file for every batch and cell would be far too many. Files that are
put together are removed a round later, so that whoever has listed them still finds them. Until then
their rows are in two files, and are read from one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recalljoin.spark.log_folder import LogFolder

KINDS = ("late", "refused", "false_nulls")
TOGETHER = 16
"""So many files of many batches are put together into one."""
FILE_BYTES = 16_000_000
"""Files are put together only while they take less than this."""
_NAME = re.compile(r"(\d{12})-(\d{5}|\d{12})\.parquet")


class RowFile(NamedTuple):
    """One file with rows of a stream."""

    first: int
    last: int
    name: str
    n_bytes: int
    is_single: bool
    """Whether a cell has left it, with rows of one batch."""


def rows_name(kind: str, stream: str, batch: int, cell: int) -> str:
    """Where a cell leaves rows of a batch."""
    return f"{folder_of(kind, stream)}/{batch:012d}-{cell:05d}.parquet"


def folder_of(kind: str, stream: str) -> str:
    """The folder of a stream, whatever characters its name has."""
    return f"{kind}/{quote(stream, safe=' ').replace('.', '%2E')}"


def row_files(log: LogFolder, folder: str) -> tuple[list[RowFile], list[RowFile]]:
    """The files of a stream in order, each row once; and the files whose rows are in those."""
    found = _all_files(log, folder)
    many = [each for each in found if not each.is_single]
    # Of files that begin with the same batch the longest has what the others have.
    whole = [
        each
        for each in many
        if not any(
            other.first <= each.first and each.last <= other.last and other is not each
            for other in many
        )
    ]
    until = max((each.last for each in whole), default=-1)
    single = [each for each in found if each.is_single and each.first > until]
    kept = whole + single
    return kept, [each for each in found if each not in kept]


def put_rows_together(log: LogFolder, upto: int) -> None:
    """Put rows of batches up to ``upto`` into fewer files, if there are many. For the driver alone.

    Parameters
    ----------
    log
        The control log.
    upto
        The last batch that will not be run again.
    """
    for kind in KINDS:
        for stream in log.names(kind):
            folder = f"{kind}/{stream}"
            kept, done = row_files(log, folder)
            for each in done:
                log.remove(f"{folder}/{each.name}")
            single = [each for each in kept if each.is_single and each.last <= upto]
            many = [each for each in kept if not each.is_single]
            newest = many[-TOGETHER + 1 :]
            if len(single) >= TOGETHER:
                is_full = len(newest) == TOGETHER - 1
                is_small = sum(each.n_bytes for each in newest) < FILE_BYTES
                _write_together(log, folder, [*newest, *single] if is_full and is_small else single)


def _write_together(log: LogFolder, folder: str, files: Iterable[RowFile]) -> None:
    chosen = list(files)
    contents = [log.read(f"{folder}/{each.name}") for each in chosen]
    tables = [pq.read_table(pa.BufferReader(content)) for content in contents if content]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(tables, promote_options="default"), sink)
    name = f"{chosen[0].first:012d}-{max(each.last for each in chosen):012d}.parquet"
    log.write(f"{folder}/{name}", sink.getvalue().to_pybytes())


def _all_files(log: LogFolder, folder: str) -> list[RowFile]:
    system, root = log.place
    chosen = pafs.FileSelector(f"{root}/{folder}", allow_not_found=True)
    with log.named(folder, "listed"):
        infos = system.get_file_info(chosen)
    found = []
    for info in infos:
        match = _NAME.fullmatch(info.base_name)
        if match is not None:
            first, second = match.groups()
            is_single = len(second) == 5
            last = int(first if is_single else second)
            found.append(RowFile(int(first), last, info.base_name, info.size or 0, is_single))
    return sorted(found)

"""The control log: a folder in which cells leave what the driver, and people, want to know.

    <folder>/query                      the id of the query that the folder belongs to
    <folder>/reports/<batch>/<cell>     what a cell has seen in a batch
    <folder>/history/<first>-<last>     reports of many old batches, all cells together
    <folder>/hot                        keys that are spread over cells, and since which batch
    <folder>/moves/<batch>/<cell>       tuples handed over when hot keys change
    <folder>/late/<stream>/...          late tuples, Parquet
    <folder>/refused/<stream>/...       refused rows, Parquet

Every object has one writer and is written as a whole; a retry writes the same content again. So the
folder may be on an object store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from recalljoin.errors import InvalidSetting
from recalljoin.spark.log_folder import LogFolder
from recalljoin.spark.report import Report, merged

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ControlLog(LogFolder):
    """One query's control log.

    Parameters
    ----------
    folder
        A path, or an address that Arrow knows (``s3://``, ``hdfs://``, ``file://``).
    """

    def own(self, query_id: str) -> None:
        """Take the folder for a query, or check that it belongs to the query already.

        Raises
        ------
        InvalidSetting
            When the folder belongs to another query.
        """
        owner = self.read("query")
        if owner is None:
            self.write("query", query_id.encode())
        elif owner.decode() != query_id:
            message = (
                f"`control_log` {self.folder!r} belongs to the query {owner.decode()}, and this is "
                f"{query_id}; give every query a folder of its own, and a query that starts again "
                "from its checkpoint the folder it had"
            )
            raise InvalidSetting(message)

    def write_report(self, report: Report) -> None:
        """Leave a cell's report."""
        name = f"reports/{report.batch:012d}/{report.cell:05d}.json"
        self.write(name, report.to_json().encode())

    def reports_after(self, batch: int) -> Iterator[Report]:
        """Reports of the batches after ``batch``, over all cells and in order.

        They end before the first batch that some cell has not reported yet.
        """
        for first, last in self._history():
            if last > batch:
                for line in self.must_read(_history_name(first, last)).splitlines():
                    report = Report.from_json(line)
                    if report.batch > batch:
                        yield report
                        batch = report.batch
        for number in self._reported():
            if number > batch:
                complete = self._report(number)
                if complete is None:
                    return
                yield complete

    def compact(self, last: int) -> None:
        """Put the reports of old batches, up to ``last``, into one object.

        Called by the driver alone. If that is interrupted, some batches are stored twice for a
        while, but are read once.
        """
        numbers = [number for number in self._reported() if number <= last]
        kept = max((end for _, end in self._history()), default=-1)
        fresh = [number for number in numbers if number > kept]
        if fresh:
            reports = [self._report(number) for number in fresh]
            lines = [report.to_json() for report in reports if report is not None]
            if len(lines) < len(fresh):
                return
            self.write(_history_name(fresh[0], fresh[-1]), "\n".join(lines).encode())
        system, root = self.place
        for number in numbers:
            system.delete_dir(f"{root}/reports/{number:012d}")

    def write_moves(self, since: int, cell: int, content: bytes) -> None:
        """Leave tuples for other cells, which take them over in batch ``since``."""
        self.write(f"moves/{since:012d}/{cell:05d}", content)

    def read_moves(self, since: int, cell: int) -> bytes | None:
        """What a cell has left for batch ``since``."""
        return self.read(f"moves/{since:012d}/{cell:05d}")

    def forget_moves(self, before: int) -> None:
        """Remove the tuples that were handed over for batches before ``before``."""
        system, root = self.place
        for name in self.names("moves"):
            if int(name) < before:
                system.delete_dir(f"{root}/moves/{name}")

    def _reported(self) -> list[int]:
        return [int(name) for name in self.names("reports")]

    def _history(self) -> list[tuple[int, int]]:
        spans = (name.removesuffix(".jsonl").split("-") for name in self.names("history")
                 if name.endswith(".jsonl"))  # fmt: skip
        return [(int(first), int(last)) for first, last in spans]

    def _report(self, batch: int) -> Report | None:
        """The report of a batch over all cells; None while a cell has not left its part."""
        folder = f"reports/{batch:012d}"
        parts = [
            Report.from_json(self.must_read(f"{folder}/{name}"))
            for name in self.names(folder)
            if name.endswith(".json")
        ]
        return merged(parts) if parts and len(parts) == parts[0].n_cells else None

    def write_rows(self, kind: str, stream: str, batch: int, cell: int, rows: pa.Table) -> None:
        """Leave late or refused rows of a stream as Parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        name = f"{kind}/{stream}/{batch:012d}-{cell:05d}.parquet"
        self.write(name, sink.getvalue().to_pybytes())

    def rows_folder(self, kind: str, stream: str) -> str | None:
        """Where late or refused rows of a stream are; None when no row was written."""
        system, root = self.place
        chosen = pafs.FileSelector(f"{root}/{kind}/{stream}", allow_not_found=True)
        if any(info.path.endswith(".parquet") for info in system.get_file_info(chosen)):
            return f"{self.folder}/{kind}/{stream}"
        return None

    def exists(self) -> bool:
        """Whether any batch has been reported."""
        return bool(self._reported() or self._history())

    def is_of_a_join(self) -> bool:
        """Whether a join has written to the folder, even if no batch of it has ended yet."""
        return self.exists() or self.read("query") is not None

    def last_report(self) -> Report | None:
        """Report of the newest batch that all cells have reported; None before the first."""
        for number in reversed(self._reported()):
            complete = self._report(number)
            if complete is not None:
                return complete
        spans = self._history()
        if not spans:
            return None
        return Report.from_json(self.must_read(_history_name(*spans[-1])).splitlines()[-1])


def _history_name(first: int, last: int) -> str:
    return f"history/{first:012d}-{last:012d}.jsonl"

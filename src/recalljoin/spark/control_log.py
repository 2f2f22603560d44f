"""The control log: a folder in which cells leave what the driver, and people, want to know.

    <folder>/owner                      the join that the folder belongs to, as its offsets name it
    <folder>/query                      the id of the query that the join is part of
    <folder>/runs/<time>                what a run of the join was asked for, from that time on
    <folder>/reports/<batch>/<cell>     what a cell has seen in a batch
    <folder>/history/<first>-<last>     reports of many batches, all cells together
    <folder>/rolled/<last>              stretches of all batches up to the last, and what the policy
                                        had learnt
    <folder>/hot                        over which cells tuples are spread, and since which batch
    <folder>/moves/<batch>/<cell>       tuples handed over when hot keys or cells change
    <folder>/late/<stream>/...          late tuples (:mod:`recalljoin.spark.row_files`)
    <folder>/refused/<stream>/...       refused rows

Every object has one writer and is written as a whole; a retry writes the same content again. So the
folder may be on an object store.

Reports go from one place to the next: each is written to the new place first, and is removed from
the old one a round later, so that whoever has listed the folder before still finds everything. What
is in two places is read once (:mod:`recalljoin.spark.rolling` says when and how much).

Objects may get lost all the same, or be cut short where a disk is full. Reports are only for
learning: a batch with a lost or damaged report is passed over. Hot keys and handed-over tuples
decide about results, so that a query stops where one of these is damaged.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from recalljoin.errors import ControlLogError, InvalidSetting, StateVersionError
from recalljoin.spark.framing import sealed, unsealed
from recalljoin.spark.log_folder import LogFolder
from recalljoin.spark.report import Report, merged
from recalljoin.spark.row_files import folder_of, row_files, rows_name
from recalljoin.spark.stretch import NOTHING_ROLLED, Rolled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOG = logging.getLogger(__name__)
_ROLLED = ".jsonl.gz"


class Run(NamedTuple):
    """One run of a join, from its start to its stop."""

    since: int
    """The driver's clock when its first batch was planned, in milliseconds since 1970."""
    name: str
    """Name of the join."""
    text: str
    """What the join does and how, for people."""


@dataclass(frozen=True)
class ControlLog(LogFolder):
    """One query's control log.

    Parameters
    ----------
    folder
        A path, or an address that Arrow knows (``s3://``, ``hdfs://``, ``file://``).
    """

    def check_owner(self, owner: str) -> None:
        """See that the folder belongs to a join, or to none yet, before anything is written to it.

        Raises
        ------
        InvalidSetting
            When the folder belongs to another join.
        """
        found = (self.read("owner") or b"").decode(errors="replace")
        if not owner.startswith(found):
            message = (
                f"`control_log` {self.shown!r} belongs to another join; give every join a folder "
                "of its own, a new one if its checkpoint is gone, and a query that starts again "
                "from its checkpoint the folder it had"
            )
            raise InvalidSetting(message)

    def claim(self, owner: str) -> None:
        """Take the folder for a join; of two joins that do so, the later one is refused.

        Raises
        ------
        InvalidSetting
            When the folder belongs to another join.
        """
        self.check_owner(owner)
        found = self.read("owner")
        if found is None:
            self.write("owner", owner.encode(), new=True)
        elif found.decode(errors="replace") != owner:
            # The file was cut short.
            self.write("owner", owner.encode())
        self.check_owner(owner)

    def own(self, query_id: str) -> None:
        """Take the folder for a query, or check that it belongs to the query already.

        Raises
        ------
        InvalidSetting
            When the folder belongs to another query.
        """
        owner = (self.read("query") or b"").decode(errors="replace")
        # A file that was cut short holds the beginning of an id, and is written anew.
        if owner != query_id and query_id.startswith(owner):
            self.write("query", query_id.encode())
        elif owner != query_id:
            message = (
                f"`control_log` {self.shown!r} belongs to the query {owner}, and this is "
                f"{query_id}; give every query a folder of its own, and a query that starts again "
                "from its checkpoint the folder it had"
            )
            raise InvalidSetting(message)

    def write_run(self, run: Run) -> None:
        """Say what the run that begins was asked for. Called by the driver alone."""
        self.write(f"runs/{run.since:015d}.json", json.dumps(run._asdict()).encode())

    def runs(self) -> list[Run]:
        """The runs of the join, in order; a run whose file is damaged is left out."""
        found = []
        for name in self.names("runs"):
            with suppress(ValueError, TypeError):
                found.append(Run(**json.loads(self.read(f"runs/{name}") or b"")))
        return found

    def write_report(self, report: Report) -> None:
        """Leave a cell's report."""
        name = f"reports/{report.batch:012d}/{report.cell:05d}.json"
        self.write(name, sealed(report.to_json()).encode())

    def reports_after(self, batch: int) -> Iterator[Report]:
        """Reports of the batches after ``batch``, over all cells and in order.

        A batch that some cell has not reported is left out. If it is the newest one, its reports
        may still come; otherwise they are lost. Batches of long ago are only in stretches
        (:meth:`rolled`).
        """
        # Reports are listed before the history, as that is the way they go.
        numbers = [number for number in self.reported() if number >= batch]
        new = [number for number in numbers if number > batch]
        is_whole = new == list(range(batch + 1, batch + 1 + len(new)))
        if not is_whole or not (new or batch in numbers):
            for first, last in self._history():
                if last > batch:
                    name = _history_name(first, last)
                    for line in (self.read(name) or b"").splitlines():
                        report = self._decoded(line, name)
                        if report is not None and report.batch > batch:
                            yield report
                            batch = report.batch
        for number in new:
            if number > batch:
                complete = self._report(number)
                if complete is not None:
                    yield complete

    def put_together(self, reports: Sequence[Report]) -> int:
        """Put reports of batches, over all cells and in order, into one object.

        Returns its size. Called by the driver alone.
        """
        content = "\n".join(sealed(report.to_json()) for report in reports).encode()
        self.write(_history_name(reports[0].batch, reports[-1].batch), content)
        return len(content)

    def write_rolled(self, rolled: Rolled) -> None:
        """Keep stretches, which take the place of earlier ones. Called by the driver alone."""
        self.write(_rolled_name(rolled.until), rolled.to_bytes())

    def rolled(self) -> Rolled:
        """The stretches that old batches are rolled up into; none in a young log."""
        found = self._rolled()
        for number in reversed(found):
            name = _rolled_name(number)
            content = self.read(name)
            if content is None:
                continue
            try:
                return Rolled.from_bytes(content)
            except ValueError as error:
                _LOG.warning(
                    "%s/%s is damaged (%s): %s",
                    self.shown,
                    name,
                    str(error).partition("\n")[0],
                    "the one before is read" if number != found[0]
                    else "the counts of its batches are lost, which changes no result",
                )  # fmt: skip
        return NOTHING_ROLLED

    def files(self) -> list[tuple[int, int]]:
        """The last batch and the size of each file of the history, in order."""
        system, root = self.place
        spans = self._history()
        paths = [f"{root}/{_history_name(*span)}" for span in spans]
        with self.named("history", "listed"):
            infos = system.get_file_info(paths) if paths else []
        return [(last, info.size or 0) for (_, last), info in zip(spans, infos, strict=True)]

    def reported(self) -> list[int]:
        """The batches that still have reports of single cells, in order."""
        return [int(name) for name in self.names("reports") if name.isdecimal()]

    def forget_report(self, batch: int) -> None:
        """Remove the reports of single cells of a batch, which is in the history."""
        self.remove(f"reports/{batch:012d}", folder=True)

    def forget_history(self, upto: int) -> None:
        """Remove what the stretches up to batch ``upto`` have taken the place of."""
        for first, last in self._history():
            if last <= upto:
                self.remove(_history_name(first, last))
        for number in self._rolled():
            if number < upto:
                self.remove(_rolled_name(number))

    def write_moves(self, since: int, cell: int, content: bytes, to: int | None = None) -> None:
        """Leave tuples for other cells, or for one of them, which take them in batch ``since``."""
        self.write(_moves_name(since, cell, to), content)

    def read_moves(self, since: int, cell: int, to: int | None = None) -> bytes:
        """What a cell has left for batch ``since``, for other cells or for one of them.

        Raises
        ------
        ControlLogError
            When it is not there.
        """
        content = self.read(_moves_name(since, cell, to))
        if content is None:
            message = (
                f"the control log {self.shown!r} has lost the tuples that cell {cell} handed over "
                f"before batch {since}; without them results would be missing. Put the folder back "
                "as it was, or start with a new checkpoint"
            )
            raise ControlLogError(message)
        return content

    def forget_moves(self, before: int) -> None:
        """Remove the tuples that were handed over for batches before ``before``."""
        for name in self.names("moves"):
            if name.isdecimal() and int(name) < before:
                self.remove(f"moves/{name}", folder=True)

    def _history(self) -> list[tuple[int, int]]:
        names = (name.removesuffix(".jsonl").split("-") for name in self.names("history")
                 if name.endswith(".jsonl"))  # fmt: skip
        spans = (name for name in names if len(name) == 2 and all(map(str.isdecimal, name)))
        return [(int(first), int(last)) for first, last in spans]

    def _rolled(self) -> list[int]:
        names = (name.removesuffix(_ROLLED) for name in self.names("rolled")
                 if name.endswith(_ROLLED))  # fmt: skip
        return [int(name) for name in names if name.isdecimal()]

    def _report(self, batch: int) -> Report | None:
        """The report of a batch over all cells; None if the report of some cell is not there."""
        folder = f"reports/{batch:012d}"
        names = [name for name in self.names(folder) if name.endswith(".json")]
        parts = [self._decoded(self.read(f"{folder}/{name}"), f"{folder}/{name}") for name in names]
        known = [part for part in parts if part is not None]
        return merged(known) if known and len(known) == known[0].n_cells else None

    def _decoded(self, content: bytes | None, name: str) -> Report | None:
        """A report from its text; None, with a word in the log, if the text is damaged."""
        if content is None:
            return None
        try:
            return Report.from_json(unsealed(content.decode()))
        except StateVersionError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            _LOG.warning(
                "%s/%s is damaged (%s): nothing is learned from its batch, which changes no "
                "result of that batch",
                self.shown,
                name,
                str(error).partition("\n")[0],
            )
            return None

    def write_rows(self, kind: str, stream: str, batch: int, cell: int, rows: pa.Table) -> None:
        """Leave late or refused rows of a stream as Parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        self.write(rows_name(kind, stream, batch, cell), sink.getvalue().to_pybytes())

    def row_paths(self, kind: str, stream: str) -> list[str]:
        """The files that have late or refused rows of a stream, each row once."""
        folder = folder_of(kind, stream)
        return [f"{self.folder}/{folder}/{each.name}" for each in row_files(self, folder)[0]]

    def exists(self) -> bool:
        """Whether any batch has been reported."""
        return bool(self.reported() or self._history() or self._rolled())

    def is_of_a_join(self) -> bool:
        """Whether a join has written to the folder, even if no batch of it has ended yet."""
        return self.exists() or self.read("query") is not None

    def last_report(self) -> Report | None:
        """Report of the newest batch that all cells have reported; None before the first."""
        for number in reversed(self.reported()):
            complete = self._report(number)
            if complete is not None:
                return complete
        for first, last in reversed(self._history()):
            name = _history_name(first, last)
            for line in reversed((self.read(name) or b"").splitlines()):
                found = self._decoded(line, name)
                if found is not None:
                    return found
        return None


def _moves_name(since: int, cell: int, to: int | None) -> str:
    return f"moves/{since:012d}/{cell:05d}" + ("" if to is None else f"-{to:05d}")


def _rolled_name(until: int) -> str:
    return f"rolled/{until:012d}{_ROLLED}"


def _history_name(first: int, last: int) -> str:
    return f"history/{first:012d}-{last:012d}.jsonl"

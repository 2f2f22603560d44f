"""What was measured so far, kept in a file: the whole takes hours, and can be run in parts."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.measure import machine
from benchmarks.peers.peer import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Where(NamedTuple):
    """Which input."""

    workload: str
    n: int
    """Tuples of a stream."""
    n_batches: int


@dataclass(frozen=True)
class Run:
    """A run, with its input, machine and day."""

    where: Where
    cell: Cell
    machine: str
    day: str


class Record:
    """All runs, in the order in which they were made."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.runs: list[Run] = []
        if file is not None and file.exists():
            for line in file.read_text("utf-8").splitlines():
                content = json.loads(line)
                where, cell = Where(*content.pop("where")), Cell(**content.pop("cell"))
                self.runs.append(Run(where, cell, **content))

    def add(self, where: Where, cell: Cell) -> None:
        """Keep one more run."""
        self.runs.append(Run(where, cell, machine(), str(datetime.now(UTC).date())))
        self._write()

    def forget(self, where: Where, system: str) -> None:
        """Forget what was measured of a system on an input."""
        self.runs = [r for r in self.runs if (r.where, r.cell.system) != (where, system)]
        self._write()

    def _write(self) -> None:
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text("".join(json.dumps(asdict(run)) + "\n" for run in self.runs))

    def of(self, where: Where, system: str) -> list[Cell]:
        """Runs of a system on an input."""
        return [r.cell for r in self.runs if (r.where, r.cell.system) == (where, system)]

    def inputs(self) -> list[Where]:
        """All inputs, as they were first run."""
        return list(dict.fromkeys(run.where for run in self.runs))

    def median(self, where: Where, system: str) -> Cell | None:
        """The runs of a system as one, with the medians of their times; or one that failed."""
        cells = self.of(where, system)
        good = [cell for cell in cells if not cell.failure]
        if not good:
            return cells[-1] if cells else None
        return replace(
            good[-1],
            start=statistics.median(cell.start for cell in good),
            seconds=statistics.median(cell.seconds for cell in good),
            processor_seconds=statistics.median(cell.processor_seconds for cell in good),
        )

    def results(self, where: Where) -> set[tuple[int, int]]:
        """Counts and checksums that were found for an input: one, if all agree."""
        cells = (run.cell for run in self.runs if run.where == where)
        return {(cell.n_results, cell.checksum) for cell in cells if not cell.failure}


def unequal(record: Record, inputs: Iterable[Where]) -> list[str]:
    """Inputs for which systems have found other results than others, with what each has found."""
    told = []
    for where in inputs:
        if len(record.results(where)) > 1:
            found = {
                run.cell.system: (run.cell.n_results, run.cell.checksum)
                for run in record.runs
                if run.where == where and not run.cell.failure
            }
            told.append(f"{where.workload}, {where.n:,} tuples, {where.n_batches} batches: {found}")
    return told

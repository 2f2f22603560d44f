"""Bytewax with a join by hand: it has none within a distance in time.

Each batch is a set of arrays that a worker joins with what it keeps, by binary search in a sorted
array of keys and times. What can have no partner any more is forgotten; nothing is snapshotted.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import bytewax.operators as op
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.testing import TestingSink

from benchmarks.inputs import GRID, MODULUS, SIDE
from benchmarks.peers.peer import WORKERS, main

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from benchmarks.inputs import Input

    Columns = dict[str, npt.NDArray[Any]]

BITS = 32
"""Of a key with a time: those of the time."""


class Files(FixedPartitionedSource[Any, int]):
    """The files of all streams, one batch after the other, divided among workers."""

    def __init__(self, made: Input, folder: Path) -> None:
        self.made, self.folder = made, folder

    def list_parts(self) -> list[str]:
        """All in one, so that streams go on side by side."""
        return ["files"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Reader:  # noqa: ARG002
        """What reads them."""
        return Reader(self.made, self.folder)


class Reader(StatefulSourcePartition[Any, int]):
    """Reads a batch of every stream at a time."""

    def __init__(self, made: Input, folder: Path) -> None:
        self.made, self.folder, self.batch = made, folder, 0

    def next_batch(self) -> list[tuple[str, dict[str, Columns]]]:
        """Arrays of every stream for each worker."""
        if self.batch > self.made.n_batches:
            raise StopIteration
        streams = {}
        for stream in self.made.streams:
            paths = [self.folder / stream / f"{self.batch:04d}-{half}.parquet" for half in (0, 1)]
            streams[stream] = self._columns(pa.concat_tables(map(pq.read_table, paths)), stream)
        self.batch += 1
        return [
            (
                str(worker),
                {
                    stream: {
                        name: column[columns["cell"] % WORKERS == worker]
                        for name, column in columns.items()
                    }
                    for stream, columns in streams.items()
                },
            )
            for worker in range(WORKERS)
        ]

    def _columns(self, table: pa.Table, stream: str) -> Columns:
        columns = {name: table[name].to_numpy() for name in self.made.columns}
        columns["ts"] = table["ts"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
        columns["cell"] = columns["key"]
        if self.made.kind != "equal":
            x, *y = (columns[axis] // self.made.reach for axis in self.made.columns[2:])
            columns["cell"] = (x * (SIDE * GRID) + y[0] if y else x).astype(np.int64)
        if stream == self.made.streams[0] and len(self.made.around) > 1:
            steps = np.repeat(self.made.around, len(table))
            columns = {n: np.tile(c, len(self.made.around)) for n, c in columns.items()}
            columns["cell"] = columns["cell"] + steps
        return columns

    def snapshot(self) -> int:
        """How far it has come."""
        return self.batch


class Join(op.StatefulBatchLogic[Any, Any, Any]):
    """The join of one worker."""

    def __init__(self, made: Input) -> None:
        self.made = made
        self.kept: dict[str, Columns] = {}
        self.latest = dict.fromkeys(made.streams, 0)

    def on_batch(self, values: list[dict[str, Columns]]) -> tuple[list[tuple[int, int]], bool]:
        """How many results have at least one new tuple, and their checksum."""
        found = []
        for new in values:
            if not self.kept:
                self.kept = {s: _rows(columns, slice(0)) for s, columns in new.items()}
                self.kept = {s: _sorted(columns) for s, columns in self.kept.items()}
            for stream, columns in new.items():
                # Streams before this one have their new tuples already, those after it have not.
                numbers = self._results(stream, columns)
                found.append((len(numbers), int(numbers.sum())))
                latest = int(columns["ts"].max(initial=0))
                self.latest[stream] = max(latest, self.latest[stream])
                self.kept[stream] = _sorted(
                    {n: np.append(self.kept[stream][n], column) for n, column in columns.items()}
                )
            self._forget()
        return found, False

    def _results(self, stream: str, new: Columns) -> npt.NDArray[np.int64]:
        """The number of each result that the new tuples of a stream have."""
        rows = {stream: new}
        for other in self.made.streams:
            if other == stream:
                continue
            kept, around = self.kept[other], rows[stream]
            earliest, latest = (
                _order(around["cell"], around["ts"] + edge)
                for edge in (-self.made.window, self.made.window)
            )
            begins = np.searchsorted(kept["order"], earliest)
            ends = np.searchsorted(kept["order"], latest, "right")
            n = ends - begins
            left = np.repeat(np.arange(len(n)), n)
            right = np.arange(len(left)) + np.repeat(begins - (np.cumsum(n) - n), n)
            rows = {s: _rows(columns, left) for s, columns in rows.items()}
            rows[other] = _rows(kept, right)
            self._check(rows, other)
        column = "value" if self.made.kind == "equal" else "key"
        number, *others = (rows[s][column].astype(np.int64) + 1 for s in self.made.streams)
        for other_number in others:
            number = number * other_number % MODULUS
        return number

    def _check(self, rows: dict[str, Columns], last: str) -> None:
        """Leave the rows for which everything else holds."""
        holds = np.ones(len(rows[last]["ts"]), dtype=bool)
        for columns in rows.values():
            holds &= np.abs(columns["ts"] - rows[last]["ts"]) <= self.made.window
        if self.made.kind != "equal":
            squares = [(rows["a"][x] - rows["b"][x]) ** 2 for x in self.made.columns[2:]]
            holds &= np.sum(squares, axis=0) <= self.made.reach**2
        for stream, columns in rows.items():
            rows[stream] = _rows(columns, holds)

    def _forget(self) -> None:
        over = min(self.latest.values()) - self.made.delay - self.made.window
        for stream, columns in self.kept.items():
            self.kept[stream] = _rows(columns, columns["ts"] >= over)

    def snapshot(self) -> None:
        """Nothing: it is not to be recovered."""


def _rows(columns: Columns, rows: Any) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _order(cell: npt.NDArray[Any], ts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    ordered: npt.NDArray[np.int64] = (cell << BITS) + ts
    return ordered


def _sorted(columns: Columns) -> Columns:
    """By cell, then time."""
    order = _order(columns["cell"], columns["ts"])
    rows = np.argsort(order, kind="stable")
    return _rows({**columns, "order": order}, rows)


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    found: list[tuple[str, tuple[int, int]]] = []
    flow = Dataflow("join")
    batches = op.input("files", flow, Files(made, folder))
    counts = op.stateful_batch("join", batches, lambda _: Join(made))
    op.output("counts", counts, TestingSink(found))
    cluster_main(flow, [], 0, worker_count_per_proc=WORKERS)
    return sum(n for _, (n, _) in found), sum(checksum for _, (_, checksum) in found)


if __name__ == "__main__":
    main("bytewax", f"Bytewax {version('bytewax')}", join)

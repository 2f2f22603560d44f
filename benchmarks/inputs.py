"""Recorded streams as Parquet files, and what is joined, in a form that every system can be told.

A join is an equality of keys, a distance in time, and perhaps a condition besides. For systems that
need an equality where there is none, space is cut into cells, and each tuple of the first stream is
sent into the cells around its own as well: the way that their users go.

This module needs numpy and Arrow only, as it runs beside every system that is measured.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

WINDOW = 500
"""Milliseconds, each way."""
PER_MS = 100
"""Tuples of a stream that have the same time."""
STREAMS = ("a", "b", "c")
WARM_UP = 20_000
"""Tuples of a stream in the batches that warm up: the same whatever the size, and not timed."""
BEGIN = 1_000_000
"""The first time. Not in 1970: Spark's first watermark lies there, before it all is late."""
SIDE, GRID = 1024, 64
"""Positions are from 0 to SIDE, in parts of GRID: squares of distances are exact in any system."""
MODULUS = 2_147_483_647
NAMED = "{stream}.{column}"
"""How most systems write a column of a stream."""


@dataclass(frozen=True)
class Input:
    """Recorded streams: ``n`` tuples each, in as many batches, after small ones that warm up."""

    n: int
    n_batches: int
    matches: float = 1
    """Of a tuple, where a pair counts once."""
    n_streams: int = 2
    window: int = WINDOW
    kind: str = "equal"
    """What is joined: equal keys, a ``band`` of values, or a ``distance`` in the plane."""
    per_ms: int = PER_MS
    hot: float = 0
    """The share of tuples that have one and the same key."""
    delay: int = 0
    """Milliseconds: no tuple arrives later than so long after one with a later time."""
    n_warm_up: int = 1
    """Batches that are not timed."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams."""
        return STREAMS[: self.n_streams]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of every stream; the first is the time."""
        return ("ts", "key", "value", *(("value2",) if self.kind == "distance" else ()))

    @property
    def schema(self) -> str:
        """The columns as Spark's DDL."""
        types = {"ts": "timestamp", "key": "bigint"}
        return ", ".join(f"{column} {types.get(column, 'double')}" for column in self.columns)

    # ---- The files ------------------------------------------------------------------------------

    def write(self, folder: Path) -> Path:
        """Write the files, once: a folder for each stream, two files for each batch."""
        made = self._folder(folder)
        if not made.exists():
            part = made.with_name(f"{made.name}.part")
            for stream in self.streams:
                (part / stream).mkdir(parents=True)
                for batch, table in enumerate(self._tables(stream)):
                    _write(part / stream, batch, table)
            part.rename(made)
        return made

    def write_whole(self, folder: Path) -> Path:
        """Write each stream as one file, as its tuples arrive, once."""
        return self._write_each(
            folder, "whole", lambda table, path: pq.write_table(table, f"{path}.parquet")
        )

    def write_sorted(self, folder: Path) -> Path:
        """Write each stream as one file in the order of time, once."""
        return self._write_each(
            folder,
            "sorted",
            lambda table, path: pq.write_table(table.sort_by("ts"), f"{path}.parquet"),
        )

    def write_csv(self, folder: Path) -> Path:
        """Write each stream as text, as its tuples arrive, with times in milliseconds, once."""

        def written(table: pa.Table, path: Path) -> None:
            millis = table["ts"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            csv.write_csv(table.set_column(0, "ts", millis), f"{path}.csv")

        return self._write_each(folder, "csv", written)

    def _write_each(
        self, folder: Path, layout: str, written: Callable[[pa.Table, Path], None]
    ) -> Path:
        made = self._folder(folder).with_name(f"{self._folder(folder).name}-{layout}")
        if not made.exists():
            part = made.with_name(f"{made.name}.part")
            part.mkdir(parents=True)
            for stream in self.streams:
                written(pa.concat_tables(self._tables(stream)), part / stream)
            part.rename(made)
        return made

    def _folder(self, folder: Path) -> Path:
        return folder / "-".join(
            value if isinstance(value, str) else f"{value:.10g}" for value in asdict(self).values()
        )

    def _tables(self, stream: str) -> Iterator[pa.Table]:
        """The batches of a stream, as its tuples arrive."""
        number = STREAMS.index(stream)
        random = np.random.default_rng(7 + number)
        n = WARM_UP + self.n
        columns: dict[str, npt.NDArray[Any]] = {"ts": BEGIN + np.arange(n) // self.per_ms}
        if self.kind == "equal":
            n_keys = max(1, round(self.per_ms * self.window / self.matches))
            columns["key"] = random.integers(0, n_keys, n)
            columns["value"] = random.permutation(n).astype(float)
            if self.hot:
                columns["key"][random.random(n) < self.hot] = n_keys
        else:
            columns["key"] = random.permutation(n)
            for axis in self.columns[2:]:
                columns[axis] = random.integers(0, SIDE * GRID, n) / GRID
        warm_up = np.linspace(0, WARM_UP, self.n_warm_up + 1)[1:-1]
        ends = np.append(warm_up, np.linspace(WARM_UP, n, self.n_batches + 1)).astype(int)
        if self.delay:
            columns = self._delayed(columns, number, random)
            ends[-1] = len(columns["ts"])
        else:
            # Tuples of one time come together.
            ends = ends // self.per_ms * self.per_ms
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            batch = {name: pa.array(column[begin:end]) for name, column in columns.items()}
            micros = pa.array(columns["ts"][begin:end] * 1000).cast(pa.timestamp("us", "UTC"))
            yield pa.table(batch | {"ts": micros})

    def _delayed(
        self, columns: dict[str, npt.NDArray[Any]], number: int, random: np.random.Generator
    ) -> dict[str, npt.NDArray[Any]]:
        """Half of the tuples come late, most of them a little.

        At the end come two more tuples, whose time is so far ahead that nobody waits any longer for
        others; they have no partner, as their times differ from stream to stream.
        """
        ts = columns["ts"]
        late = np.minimum(random.exponential(self.delay / 4, len(ts)), self.delay)
        late[random.random(len(ts)) < 0.5] = 0
        late[:WARM_UP] = 0
        order = np.argsort(ts + late, kind="stable")
        ahead = ts[-1] + self.delay + (2 + 2 * number) * self.window
        last = {"ts": ahead, "key": -1}
        return {
            name: np.append(column[order], [last.get(name, -SIDE)] * 2).astype(column.dtype)
            for name, column in columns.items()
        }

    # ---- The join, as SQL -----------------------------------------------------------------------

    @property
    def reach(self) -> float:
        """How far apart values or points may be, so that a tuple has its number of matches."""
        share = self.matches / (self.window * self.per_ms)
        part = share / 2 if self.kind == "band" else (share / np.pi) ** 0.5
        return max(1, round(SIDE * GRID * float(part))) / GRID

    def residual(self, of: str = NAMED) -> str:
        """What must hold besides equal cells and near times; ``of`` is how a column is written."""
        apart = [
            f"({of.format(stream='a', column=axis)} - {of.format(stream='b', column=axis)})"
            for axis in self.columns[2:]
        ]
        if self.kind == "band":
            return f"abs{apart[0]} <= {self.reach}"
        return " + ".join(f"{one} * {one}" for one in apart) + f" <= {self.reach**2}"

    @property
    def condition(self) -> str:
        """What must hold besides near times."""
        if self.kind != "equal":
            return self.residual()
        first, *others = self.streams
        return " AND ".join(f"{first}.key = {other}.key" for other in others)

    def cell(self, prefix: str = "") -> str:
        """What is compared where a system needs an equality: the key, or the cell of a tuple.

        ``prefix`` stands before the names of columns.
        """
        if self.kind == "equal":
            return f"{prefix}key"
        axes = [f"{prefix}{axis}" for axis in self.columns[2:]]
        cells = [f"CAST(floor({axis} / {self.reach}) AS BIGINT)" for axis in axes]
        return f" * {SIDE * GRID} + ".join(cells)

    @property
    def around(self) -> tuple[int, ...]:
        """From the cell of a tuple to those where its partners may be."""
        if self.kind == "equal":
            return (0,)
        if self.kind == "band":
            return (-1, 0, 1)
        return tuple(x * SIDE * GRID + y for x, y in product((-1, 0, 1), repeat=2))

    def checksum(self, of: str = NAMED, mod: str = "({0} % {1})") -> str:
        """A number of a result in SQL: their sum over all results tells whether results are equal.

        Parameters
        ----------
        of
            How a system writes a column of a stream.
        mod
            How it writes the rest of a division.
        """
        column = "value" if self.kind == "equal" else "key"
        first, *others = (
            f"(CAST({of.format(stream=stream, column=column)} AS BIGINT) + 1)"
            for stream in self.streams
        )
        number = first
        for other in others:
            number = mod.format(f"({number} * {other})", MODULUS)
        return number


def _write(folder: Path, batch: int, table: pa.Table) -> None:
    # Two files a batch, so that two tasks read.
    for half in range(2):
        path = folder / f"{batch:04d}-{half}.parquet"
        pq.write_table(table.slice(half * len(table) // 2, len(table) // 2 + half), path)
        date = 1_000_000_000 + 10 * batch + half
        os.utime(path, (date, date))

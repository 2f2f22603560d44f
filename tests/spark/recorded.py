"""Recorded arrivals as files that Spark replays tick by tick."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.reference.model import Query, StreamTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts bigint, a bigint, b string, place bigint"


@dataclass(frozen=True)
class Recording:
    """Tuples of m streams, each with its tick; columns ``a`` and ``b`` besides the time."""

    m: int
    n_ticks: int
    tuples: tuple[StreamTuple, ...]

    def table(self, stream: int, tick: int | None = None) -> pa.Table:
        """Tuples of a stream, of one tick or all."""
        rows = [
            {**e.row, "place": e.arrival}
            for e in self.tuples
            if e.stream == stream and tick in (None, e.tick)
        ]
        schema = pa.schema({"ts": pa.int64(), "a": pa.int64(), "b": pa.string(),
                            "place": pa.int64()})  # fmt: skip
        return pa.Table.from_pylist(rows, schema=schema)

    def write(self, folder: Path, *, n_files: int = 1, ticks: Sequence[int] | None = None) -> None:
        """Write every tick of every stream as ``n_files`` files, dated in the order of ticks."""
        for s in range(self.m):
            (folder / f"s{s + 1}").mkdir(parents=True, exist_ok=True)
            for tick in range(self.n_ticks) if ticks is None else ticks:
                table = self.table(s, tick)
                for part in range(n_files):
                    rows = table.take(pa.array(range(part, table.num_rows, n_files), pa.int64()))
                    path = folder / f"s{s + 1}" / f"{tick:04d}-{part}.parquet"
                    pq.write_table(rows, path)
                    date = 1_000_000_000 + tick * 10 + part
                    os.utime(path, (date, date))

    def frames(self, spark: SparkSession, folder: Path, *, n_files: int = 1) -> list[DataFrame]:
        """Streams that hand out one tick a batch."""
        return [
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", n_files)
            .parquet(str(folder / f"s{s + 1}"))
            for s in range(self.m)
        ]

    def query(self, windows: tuple[int, ...], holds: Callable[..., bool]) -> Query:
        """The query for the reference."""
        return Query(windows, holds)


def record(
    m: int,
    n_ticks: int,
    *,
    seed: int = 0,
    empty: Sequence[int] = (),
    per_tick: tuple[int, int] = (8, 16),
    hot: float = 0.0,
) -> Recording:
    """Random tuples, some of them late.

    Ticks in ``empty`` bring none, others ``per_tick`` of each stream. If ``hot`` is given, it is
    the share of the tuples with key 0, and the other keys are many.
    """
    random = np.random.default_rng(seed)
    tuples: list[StreamTuple] = []
    for tick in range(n_ticks):
        for s in range(m):
            if tick in empty:
                continue
            for _ in range(int(random.integers(*per_tick))):
                delay = int(random.choice([0, 0, 0, 30, 120]))
                ts = tick * 50 + int(random.integers(0, 50)) - delay
                values = {
                    "a": None if random.random() < 0.05 else int(random.integers(0, 4)),
                    "b": str(random.choice(["x", "y", "zz"])),
                }
                if hot and values["a"] is not None:
                    values["a"] = 0 if random.random() < hot else int(random.integers(1, 200))
                tuples.append(StreamTuple(s, ts, len(tuples), values, tick))
    return Recording(m, n_ticks, tuple(tuples))

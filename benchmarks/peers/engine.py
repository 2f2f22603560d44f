"""Our engine alone over sorted streams, on one core and without Spark, beside DuckDB.

Rows leave as Arrow batches, with all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recalljoin
from benchmarks.engine import prepare, run
from benchmarks.inputs import MODULUS
from benchmarks.peers.peer import main
from recalljoin.engine.settings import EngineSettings

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.inputs import Input


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    tables = {}
    for stream in made.streams:
        table = pq.read_table(folder / f"{stream}.parquet")
        tables[stream] = table.append_column("arrival", table["ts"])
    columns = ", ".join(f"{s}.{name} AS {s}{name}" for s in made.streams for name in made.columns)
    streams = ", ".join(f"{stream} [{made.window} ms]" for stream in made.streams)
    query = f"SELECT {columns} FROM {streams} WHERE {made.condition}"
    column = "value" if made.kind == "equal" else "key"
    checksum = 0

    def add(batch: pa.RecordBatch) -> None:
        nonlocal checksum
        number, *others = (
            batch[f"{s}{column}"].to_numpy().astype(np.int64) + 1 for s in made.streams
        )
        for other in others:
            number = number * other % MODULUS
        checksum += int(number.sum())

    bound, arrivals = prepare(query, tables)
    n_results, _ = run(bound, arrivals, EngineSettings(lost=False), k=0, each=add)
    return n_results, checksum


if __name__ == "__main__":
    main("recalljoin engine", f"recalljoin {recalljoin.__version__}, one core", join)

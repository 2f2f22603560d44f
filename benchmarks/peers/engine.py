"""Our engine alone over sorted streams, on one core and without Spark, beside DuckDB.

Files are read as the join goes on. Rows leave as Arrow batches, with all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recalljoin
from benchmarks.engine import run_slices
from benchmarks.inputs import MODULUS
from benchmarks.peers.peer import main
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.settings import EngineSettings
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.inputs import Input

ROWS = 1 << 15
"""Rows of a file that are read at once."""


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
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

    files = {stream: pq.ParquetFile(folder / f"{stream}.parquet") for stream in made.streams}
    # The order of time is the order of arrival.
    schemas = {
        stream: file.schema_arrow.append(pa.field("arrival", file.schema_arrow.field("ts").type))
        for stream, file in files.items()
    }
    bound = parse_query(query, arrival="arrival").bind(schemas)
    slices = (arrivals_of(bound, tables) for tables in side_by_side(files))
    n_results, _ = run_slices(bound, slices, EngineSettings(lost=False), k=0, each=add)
    return n_results, checksum


def side_by_side(files: Mapping[str, pq.ParquetFile]) -> Iterator[dict[str, pa.Table]]:
    """Rows of sorted files, in pieces: the rows of all files up to some time, then those behind."""
    batches = {stream: file.iter_batches(ROWS) for stream, file in files.items()}
    held = {stream: file.schema_arrow.empty_table() for stream, file in files.items()}
    while batches:
        for stream, more in list(batches.items()):
            if (batch := next(more, None)) is None:
                del batches[stream]
            else:
                new = pa.Table.from_batches([batch])
                held[stream] = pa.concat_tables([held[stream], new])
        # All rows up to this time have been read, of every file that has not ended.
        read = [held[stream]["ts"][-1].value for stream in batches]
        piece = {}
        for stream, table in held.items():
            times = table["ts"].cast(pa.int64()).to_numpy()
            n = int(np.searchsorted(times, min(read), side="left")) if read else len(times)
            piece[stream], held[stream] = table.slice(0, n), table.slice(n)
        yield {s: table.append_column("arrival", table["ts"]) for s, table in piece.items()}


if __name__ == "__main__":
    main("recalljoin engine", f"recalljoin {recalljoin.__version__}, one core", join)

"""DuckDB over streams that are there and sorted: no stream, but the limit of what a join can do.

Times are cut into pieces of two windows, so that the join is one of equal keys and pieces, and few
pairs are looked at in vain. Rows leave as Arrow batches, with all columns.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import duckdb

from benchmarks.peers.peer import WORKERS, main

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.inputs import Input

COLUMN = "{stream}{column}"
THREADS = "PEER_THREADS"
"""The variable of the environment that says how many threads."""


def statement(made: Input, folder: Path) -> str:
    """The join, with a checksum of each row."""
    first, *others = made.streams
    streams = {}
    for s in made.streams:
        named = ", ".join(f"{name} AS {s}{name}" for name in made.columns)
        also = f"{made.cell()} AS {s}cell, epoch_ms(ts) AS {s}ms"
        streams[s] = f"SELECT {named}, {also} FROM '{folder / s}.parquet'"
    joined = streams[first]
    if len(made.around) > 1:
        steps = ", ".join(str(step) for step in made.around)
        joined = f"SELECT * REPLACE (acell + unnest([{steps}]) AS acell) FROM ({joined})"
    piece = 2 * made.window
    before = [first]
    for other in others:
        where = [f"abs({s}ms - {other}ms) <= {made.window}" for s in before]
        if made.kind != "equal":
            where.append(made.residual(COLUMN))
        # A row of the first stream has partners in two pieces.
        joined = (
            f"SELECT * EXCLUDE (piece, {other}piece) FROM "
            f"(SELECT *, ({first}ms - {made.window}) // {piece} + unnest([0, 1]) AS piece "
            f"FROM ({joined})) JOIN "
            f"(SELECT *, {other}ms // {piece} AS {other}piece FROM ({streams[other]})) "
            f"ON {first}cell = {other}cell AND piece = {other}piece WHERE {' AND '.join(where)}"
        )
        before.append(other)
    columns = ", ".join(f"{s}{name}" for s in made.streams for name in made.columns)
    return f"SELECT {columns}, {made.checksum(COLUMN)} AS number FROM ({joined})"


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads()}")
    n_results = checksum = 0
    for batch in connection.sql(statement(made, folder)).to_arrow_reader(65536):
        n_results += batch.num_rows
        checksum += int(batch["number"].to_numpy().sum())
    return n_results, checksum


def threads() -> int:
    """As many as all others have, or what the environment says."""
    return int(os.environ.get(THREADS, WORKERS))


if __name__ == "__main__":
    main("duckdb", f"DuckDB {duckdb.__version__}, threads: {threads()}", join)

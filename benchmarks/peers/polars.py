"""Polars' streaming engine over streams that are there and sorted: a limit, as DuckDB is.

Times are cut into pieces as for DuckDB. Only counts and checksums leave: columns that they do not
need are never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from benchmarks.inputs import GRID, MODULUS, SIDE
from benchmarks.peers.peer import main

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.inputs import Input


def _stream(made: Input, folder: Path, stream: str) -> pl.LazyFrame:
    """A stream with its columns named after it, and its cell."""
    frame = pl.scan_parquet(folder / f"{stream}.parquet")
    cell = pl.col("key")
    if made.kind != "equal":
        x, *y = ((pl.col(axis) / made.reach).floor().cast(pl.Int64) for axis in made.columns[2:])
        cell = x * (SIDE * GRID) + y[0] if y else x
    named = [pl.col(name).alias(f"{stream}{name}") for name in made.columns[1:]]
    millis = pl.col("ts").dt.epoch("ms").alias(f"{stream}ts")
    own = frame.select(*named, millis, cell=cell)
    if stream == made.streams[0] and len(made.around) > 1:
        copies = [own.with_columns(cell=pl.col("cell") + step) for step in made.around]
        return pl.concat(copies)
    return own


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    piece = 2 * made.window
    first, *others = made.streams
    joined = _stream(made, folder, first)
    before = [first]
    for other in others:
        begins = (pl.col(f"{first}ts") - made.window) // piece
        both = pl.concat([joined.with_columns(piece=begins + step) for step in (0, 1)])
        own = _stream(made, folder, other).with_columns(piece=pl.col(f"{other}ts") // piece)
        joined = both.join(own, on=["cell", "piece"]).filter(
            (pl.col(f"{s}ts") - pl.col(f"{other}ts")).abs() <= made.window for s in before
        )
        before.append(other)
    if made.kind != "equal":
        apart = [pl.col(f"a{axis}") - pl.col(f"b{axis}") for axis in made.columns[2:]]
        joined = joined.filter(pl.sum_horizontal(one * one for one in apart) <= made.reach**2)
    column = "value" if made.kind == "equal" else "key"
    number, *numbers = (pl.col(f"{s}{column}").cast(pl.Int64) + 1 for s in made.streams)
    for other_number in numbers:
        number = number * other_number % MODULUS
    sums = joined.select(pl.len(), number.sum()).collect(engine="streaming").row(0)
    return int(sums[0]), int(sums[1])


if __name__ == "__main__":
    main("polars", f"Polars {pl.__version__}", join)

"""Small recordings that are out of order, as tables and as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

QUERY = "SELECT a.id, b.id AS other FROM a [2 SEC], b [1 SEC] WHERE a.key = b.key"
"""Joins what :func:`disordered` makes."""


def disordered(seconds: int = 20, *, seed: int = 3) -> dict[str, pa.Table]:
    """Two streams of 50 tuples a second, some of them up to 2 s late; times in milliseconds."""
    rng = np.random.default_rng(seed)
    tables = {}
    for number, name in enumerate(("a", "b")):
        arrival = np.arange(seconds * 50) * 20 + 10 * number
        delay = np.where(rng.random(len(arrival)) < 0.3, rng.integers(0, 2000, len(arrival)), 0)
        delay[0] = 0
        ts = arrival - delay
        key = rng.integers(0, 4, len(arrival))
        columns = {"arrival": arrival, "ts": ts, "key": key, "id": np.arange(len(arrival))}
        tables[name] = pa.table(columns)
    return tables


def as_timestamps(table: pa.Table, *columns: str, unit: str = "us") -> pa.Table:
    """The same with integer milliseconds turned into timestamps."""
    for name in columns:
        place = table.column_names.index(name)
        times = table.column(name).cast(pa.timestamp("ms", tz="UTC")).cast(
            pa.timestamp(unit, tz="UTC")
        )  # fmt: skip
        table = table.set_column(place, name, times)
    return table


def write(
    tables: Mapping[str, pa.Table], folder: Path, *, suffix: str = "parquet"
) -> dict[str, str]:
    """One file for each stream."""
    files = {}
    for name, table in tables.items():
        path = folder / f"{name}.{suffix}"
        if suffix in ("csv", "tsv"):
            options = pyarrow.csv.WriteOptions(delimiter="," if suffix == "csv" else "\t")
            pyarrow.csv.write_csv(table, path, options)
        else:
            pyarrow.parquet.write_table(table, path)
        files[name] = str(path)
    return files

"""Reading the files named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    import pyarrow as pa


def read_inputs(inputs: tuple[str, ...]) -> dict[str, pa.Table]:
    """The tables of ``NAME=FILE`` options, by name."""
    tables = {}
    for given in inputs:
        name, equals, path = given.partition("=")
        if not (name and equals and path):
            message = f"{given!r} is not of the form NAME=FILE"
            raise click.BadParameter(message, param_hint="--input")
        if name in tables:
            message = f"stream {name!r} is given twice"
            raise click.BadParameter(message, param_hint="--input")
        if not Path(path).exists():
            message = f"there is no file {path!r}"
            raise click.BadParameter(message, param_hint="--input")
        read = pyarrow.csv.read_csv if path.endswith(".csv") else pyarrow.parquet.read_table
        tables[name] = read(path)
    return tables

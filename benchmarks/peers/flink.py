"""Flink's interval join, as SQL: all of it runs in the JVM. State is on the heap, no checkpoints.

Files are given to Flink's readers in any order, which makes tuples late that are not. So each
stream is one file, whose rows are read as they stand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyflink.version
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.peer import WORKERS, main

if TYPE_CHECKING:
    from benchmarks.inputs import Input

COLUMN = "{stream}.`{column}`"
SETTINGS = {
    "parallelism.default": str(WORKERS),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    # Results are summed up where they are found, and sums sent on now and then.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "50000",
}


def statement(made: Input) -> str:
    """The join."""
    first, *others = made.streams
    # Reserved words.
    cell = re.sub(r"\b(key|value)\b", r"`\1`", made.cell())
    cells = ", ".join(f"{cell} + ({step})" for step in made.around)
    tables = [
        f"(SELECT *, {cell} AS cell FROM {s}_in) AS {s}"
        if s != first or len(made.around) == 1
        else f"(SELECT {s}_in.*, cell FROM {s}_in CROSS JOIN UNNEST(ARRAY[{cells}]) AS t (cell)) "
        f"AS {s}"
        for s in made.streams
    ]
    window = f"INTERVAL '{made.window / 1000:.3f}' SECOND"
    where = [f"{first}.cell = {other}.cell" for other in others] + [
        f"{one}.ts BETWEEN {other}.ts - {window} AND {other}.ts + {window}"
        for i, one in enumerate(made.streams)
        for other in made.streams[i + 1 :]
    ]
    if made.kind != "equal":
        where.append(made.residual(COLUMN))
    number = made.checksum(COLUMN, "MOD({0}, CAST({1} AS BIGINT))")
    return f"SELECT COUNT(*), SUM({number}) FROM {', '.join(tables)} WHERE {' AND '.join(where)}"


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    jars = ";".join(path.as_uri() for path in (Path(sys.prefix) / "jars").glob("*.jar"))
    for name, value in (SETTINGS | {"pipeline.jars": jars}).items():
        env.get_config().set(name, value)
    types = {"ts": "TIMESTAMP_LTZ(3)", "key": "BIGINT"}
    columns = ", ".join(f"`{name}` {types.get(name, 'DOUBLE')}" for name in made.columns)
    delay = f"INTERVAL '{(made.delay + 10) / 1000:.3f}' SECOND"
    for stream in made.streams:
        env.execute_sql(
            f"CREATE TABLE {stream}_in ({columns}, WATERMARK FOR ts AS ts - {delay}) WITH "
            f"('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{(folder / f'{stream}.parquet').as_uri()}')"
        )
    last = (0, 0)
    with env.execute_sql(statement(made)).collect() as rows:
        for row in rows:
            # What was counted so far takes the place of what was said before.
            if row[0]:
                last = (row[0], row[1])
    return last


if __name__ == "__main__":
    main("flink", f"Flink {pyflink.version.__version__}", join)

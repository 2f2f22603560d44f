"""Pathway's ``interval_join`` over text files, its native reader that needs no licence key.

Its static mode takes all of the input as one batch. It forgets nothing and keeps no snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pathway as pw
from pathway.internals.parse_graph import G

from benchmarks.inputs import GRID, MODULUS, SIDE
from benchmarks.peers.peer import main

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.inputs import Input


def _stream(made: Input, folder: Path, stream: str) -> Any:
    """A stream with its columns named after it, and its cell."""
    types = {"ts": int, "key": int}
    schema = pw.schema_from_types(**{name: types.get(name, float) for name in made.columns})
    table = pw.io.csv.read(folder / f"{stream}.csv", schema=schema, mode="static")
    cell = table.key
    if made.kind != "equal":
        x, *y = (pw.cast(int, table[axis] // made.reach) for axis in made.columns[2:])
        cell = x * (SIDE * GRID) + y[0] if y else x
    # The cell is the key where keys are compared.
    columns = (name for name in made.columns if name != "key" or made.kind != "equal")
    named = {f"{stream}{name}": table[name] for name in columns}
    if stream == made.streams[0] and len(made.around) > 1:
        cells = pw.make_tuple(*(cell + step for step in made.around))
        return table.select(cell=cells, **named).flatten(pw.this.cell)
    return table.select(cell=cell, **named)


def _joined(made: Input, folder: Path) -> Any:
    joined: Any = None
    window = pw.temporal.interval(-made.window, made.window)
    for number, stream in enumerate(made.streams):
        own = _stream(made, folder, stream)
        if joined is None:
            joined = own
            continue
        found = joined.interval_join_inner(
            own, joined.ats, own[f"{stream}ts"], window, joined.cell == own.cell
        )
        columns = {name: joined[name] for name in joined.column_names()} | {
            name: own[name] for name in own.column_names() if name != "cell"
        }
        joined = found.select(**columns)
        for other in made.streams[1:number]:
            apart = joined[f"{other}ts"] - joined[f"{stream}ts"]
            joined = joined.filter((apart <= made.window) & (apart >= -made.window))
    return joined


def join(made: Input, folder: Path) -> tuple[int, int]:
    """Join the files in a folder."""
    G.clear()
    joined = _joined(made, folder)
    if made.kind != "equal":
        apart = [joined[f"a{axis}"] - joined[f"b{axis}"] for axis in made.columns[2:]]
        squares = sum((one * one for one in apart[1:]), apart[0] * apart[0])
        joined = joined.filter(squares <= made.reach**2)
    column = "value" if made.kind == "equal" else "key"
    number, *others = (pw.cast(int, joined[f"{s}{column}"]) + 1 for s in made.streams)
    for other in others:
        number = number * other % MODULUS
    sums = joined.select(number=number).reduce(
        n=pw.reducers.count(), checksum=pw.reducers.sum(pw.this.number)
    )
    last = [(0, 0)]

    def changed(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:  # noqa: ARG001
        if is_addition:
            last.append((row["n"], row["checksum"]))

    pw.io.subscribe(sums, on_change=changed)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return last[-1]


if __name__ == "__main__":
    main("pathway", f"Pathway {pw.__version__}", join)

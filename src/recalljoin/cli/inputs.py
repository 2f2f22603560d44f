"""Reads what is named on the command line: queries, files, durations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from recalljoin.engine.ahead import AUTO
from recalljoin.errors import InvalidQuery
from recalljoin.query.durations import nanoseconds

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_FILES = (".sql", ".txt")


_F = TypeVar("_F", bound=Callable[..., Any])


def input_option(what: str) -> Callable[[_F], _F]:
    """The option ``--input NAME=FILE``, once for each stream."""
    return click.option(
        "--input", "inputs", multiple=True, required=True, metavar="NAME=FILE", help=what
    )


def column_options(command: _F) -> _F:
    """The options that say which columns are times, and how to read them, for all streams."""
    time = click.option(
        "--time", metavar="COLUMN", help="Event time: timestamps, or integers. [ts]"
    )
    unit = click.option(
        "--time-unit", type=click.Choice(("s", "ms", "us", "ns")), default="ms", show_default=True,
        help="What integer times and arrivals count in.",
    )  # fmt: skip
    ahead = click.option(
        "--max-ahead", metavar="DURATION|off", default=AUTO, callback=_as_max_ahead,
        help="Refuse times further ahead of their stream, unless it goes on from there. "
        "[1h, or ten times the longest of windows and period]",
    )  # fmt: skip
    arrival = click.option(
        "--arrival",
        metavar="COLUMN",
        help="Time or global position of arrival; ties go by the order of --input, then by row. "
        "[`arrival` if there is such a column; if no input has it, rows arrive in step]",
    )
    return time(arrival(unit(ahead(command))))


def source_option(command: _F) -> _F:
    """The option that says which column tells the sources of a stream apart, for all streams."""
    return click.option(
        "--source", metavar="COLUMN",
        help="Source of a tuple (device, sensor, partition): the join waits for the source that "
        "is behind. [none]",
    )(command)  # fmt: skip


def duration_option(name: str, what: str, *, needs_unit: bool = False) -> Callable[[_F], _F]:
    """An option that takes a length of time: ``300ms``, ``1min``, or a number of milliseconds.

    Where milliseconds would hardly be meant, a number alone is asked for its unit.
    """
    callback = _with_unit if needs_unit else _as_duration
    return click.option(name, metavar="DURATION", callback=callback, help=what)


def _with_unit(ctx: click.Context, param: click.Parameter, value: str | None) -> str | int | None:
    if value is not None and value.strip().isdecimal():
        message = f"{value.strip()} of what? Write {value.strip()}s, {value.strip()}min or so"
        raise click.BadParameter(message, ctx, param)
    return _as_duration(ctx, param, value)


def _as_max_ahead(ctx: click.Context, param: click.Parameter, value: str) -> str | int | None:
    if value == "off":
        return None
    return value if value == AUTO else _as_duration(ctx, param, value)


def _as_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> str | int | None:
    text = "" if value is None else value.strip()
    if text.isdecimal():
        return int(text)
    if value is not None:
        try:
            nanoseconds(text, name=param.name or "duration")
        except InvalidQuery as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return value


def read_query(given: str) -> str:
    """The text of a query, given itself or as the name of a file that holds it."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except OSError:  # too long for a name
        is_file = False
    if is_file:
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            message = f"the file {given!r} is no text in UTF-8"
            raise click.BadParameter(message, param_hint="the query") from error
    if given.endswith(_QUERY_FILES) and not any(letter.isspace() for letter in given):
        message = f"there is no file {given!r}"
        raise click.BadParameter(message, param_hint="the query")
    return given


def named_files(inputs: tuple[str, ...]) -> dict[str, str]:
    """The files of ``NAME=FILE`` options, by name."""
    files: dict[str, str] = {}
    for given in inputs:
        name, equals, path = given.partition("=")
        message = None
        if not (name and equals and path):
            message = f"{given!r} is not of the form NAME=FILE"
        elif name in files:
            message = f"stream {name!r} is given twice"
        elif "://" not in path and not Path(path).exists():
            message = f"there is no file {path!r}"
        if message is not None:
            raise click.BadParameter(message, param_hint="--input")
        files[name] = path
    return files


def read_tables(files: dict[str, str]) -> dict[str, pa.Table]:
    """Tables from files of Parquet, CSV and JSON lines."""
    return {name: _read(path) for name, path in files.items()}


def _read(path: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    from recalljoin.errors import DatasetError
    from recalljoin.query.sources import CSV, JSON_LINES, kind_of, separator_of, with_times

    kind = kind_of(path)
    try:
        if kind == CSV:
            options = pyarrow.csv.ParseOptions(delimiter=separator_of(path))
            return pyarrow.csv.read_csv(path, parse_options=options)
        if kind == JSON_LINES:
            return with_times(pyarrow.json.read_json(path))
        return pyarrow.parquet.read_table(path)
    except pa.ArrowException as error:
        message = f"{path!r} cannot be read as {kind}: {str(error).partition(chr(10))[0]}"
        raise DatasetError(message) from error


def warn(text: str) -> None:
    """Say loudly, beside the output, that something is probably not what is meant."""
    click.secho(f"WARNING: {text}", fg="yellow", bold=True, err=True)


def warn_without_arrivals(files: dict[str, str], arrival: str | None) -> None:
    """Say that the order of arrival is made up, where no column tells it."""
    from recalljoin.query.sources import schema_of

    if arrival is not None:
        return
    bare = [
        name
        for name, path in files.items()
        if "://" not in path and "arrival" not in schema_of(path, stream=name).names
    ]
    if bare:
        warn(
            f"no column `arrival` in the input of {', '.join(bare)}: all rows are taken to arrive "
            "in step, file by file in the order of their rows. Files in order of time then seem to "
            "need no wait at all, whatever the real delays were; name the column with --arrival"
        )

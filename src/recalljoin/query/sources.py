"""Which columns the data of a stream have: DataFrames, files, Arrow tables, or a schema itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from recalljoin.errors import DatasetError, InvalidQuery, InvalidSetting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Source = Any
"""A Spark DataFrame, an Arrow table or schema, or the path of a file or folder."""

CSV: Final = "CSV"
JSON_LINES: Final = "JSON lines"
PARQUET: Final = "Parquet"
_ENDS: Final = {
    CSV: (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    JSON_LINES: (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz"),
}
_ISO_TIME: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
_ROWS_LOOKED_AT: Final = 10_000
"""How many rows of JSON are read to see which columns hold times."""


def schema_of(source: Source, *, stream: str) -> pa.Schema:
    """The columns of a stream's data.

    Parameters
    ----------
    source
        A Spark DataFrame, streaming or not; an Arrow table, reader or schema; or the path of a
        file of Parquet, CSV or JSON lines, or of a folder with such files.
    stream
        Name of the stream, for messages.

    Raises
    ------
    DatasetError
        When a file is missing or cannot be read.
    InvalidSetting
        When ``source`` is of another kind.

    Examples
    --------
    >>> schema_of(pa.table({"ts": [1], "user": ["ada"]}), stream="clicks").names
    ['ts', 'user']
    """
    if isinstance(source, pa.Schema):
        return source
    if isinstance(source, str | Path):
        return _schema_of_file(source)
    if isinstance(getattr(source, "schema", None), pa.Schema):
        return source.schema
    if type(source).__module__.partition(".")[0] == "pyspark":
        return arrow_schema(source, stream=stream)
    message = (
        f"the data of stream `{stream}` must be a Spark DataFrame, an Arrow table or schema, or "
        f"the path of a Parquet, CSV or JSON lines file, got {type(source).__name__}"
    )
    raise InvalidSetting(message)


def arrow_schema(frame: DataFrame, *, stream: str | None = None) -> pa.Schema:
    """The Arrow schema in which Spark hands over a DataFrame's rows.

    Parameters
    ----------
    frame
        The DataFrame.
    stream
        Name of its stream, for messages.

    Raises
    ------
    InvalidQuery
        When the DataFrame has columns that Spark cannot hand over.
    """
    # A caller with a DataFrame has loaded PySpark; queries without one must not need PySpark.
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    faults = [
        f"column `{field.name if stream is None else f'{stream}.{field.name}'}` is "
        f"{field.dataType.simpleString()}, and the join compares text by its bytes; write "
        f"COLLATE UTF8_BINARY behind it, or compare lower({field.name})"
        for field in frame.schema.fields
        if " collate " in field.dataType.simpleString()
    ]
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    fields: list[pa.Field] = []
    for field in frame.schema.fields:
        try:
            fields += to_arrow_schema(StructType([field]), timezone=zone)
        except (PySparkException, ValueError):
            name = field.name if stream is None else f"{stream}.{field.name}"
            faults.append(
                f"column `{name}` is {field.dataType.simpleString()}, which the join cannot take "
                f"in; cast it, or drop it: frame.drop({field.name!r})"
            )
    if faults:
        raise InvalidQuery(faults)
    return pa.schema([field.remove_metadata() for field in fields])


def existing(path: str | Path) -> str:
    """A local file or folder, by its whole name.

    Raises
    ------
    DatasetError
        When there is no such file or folder, or it is empty.
    """
    place = Path(path)
    if not place.exists():
        message = f"there is no file {str(place)!r}"
        raise DatasetError(message)
    if place.is_dir() and not _files_in(place):
        message = f"folder {str(place)!r} holds no file"
        raise DatasetError(message)
    if place.is_file() and place.stat().st_size == 0:
        message = f"file {str(place)!r} is empty; it must at least name the columns of its stream"
        raise DatasetError(message)
    return str(place.resolve())


def first_file(name: str) -> str:
    """The file itself, or the first file of a folder, whose files are all of one kind."""
    path = Path(name)
    return str(_files_in(path)[0]) if path.is_dir() else name


def kind_of(name: str) -> str:
    """What a file holds, by the end of its name.

    Examples
    --------
    >>> kind_of("clicks.CSV.gz"), kind_of("clicks.jsonl"), kind_of("clicks")
    ('CSV', 'JSON lines', 'Parquet')
    """
    for kind, ends in _ENDS.items():
        if name.lower().endswith(ends):
            return kind
    return PARQUET


def separator_of(name: str) -> str:
    """What stands between two values in a file of that name."""
    return "\t" if ".tsv" in name.lower() else ","


def with_times(table: pa.Table) -> pa.Table:
    """JSON has no times: columns of text that are all ISO 8601 times become timestamps.

    Examples
    --------
    >>> table = pa.table({"ts": ["2026-03-01T13:00:00.5+01:00"], "user": ["ada"]})
    >>> with_times(table).schema.types
    [TimestampType(timestamp[us, tz=UTC]), DataType(string)]
    """
    # Imported here, as few queries read files.
    import pyarrow.compute as pc  # noqa: PLC0415

    for place, field in enumerate(table.schema):
        column = table.column(place)
        if not pa.types.is_string(field.type) or column.null_count == len(column):
            continue
        if not pc.all(pc.match_substring_regex(column, _ISO_TIME)).as_py():
            continue
        for zone in ("UTC", None):
            try:
                times = column.cast(pa.timestamp("us", zone))
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, times)
            break
    return table


def _schema_of_file(path: str | Path) -> pa.Schema:
    # Imported here, as few queries read files.
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.dataset as ds  # noqa: PLC0415

    name = str(path)
    if "://" not in name:
        name = first_file(existing(path))
    kind = kind_of(name)
    options = pyarrow.csv.ParseOptions(delimiter=separator_of(name))
    forms = {
        CSV: ds.CsvFileFormat(options),
        JSON_LINES: ds.JsonFileFormat(),
        PARQUET: ds.ParquetFileFormat(),
    }
    form = forms[kind]
    try:
        data = ds.dataset(name, format=form)
        return with_times(data.head(_ROWS_LOOKED_AT)).schema if kind == JSON_LINES else data.schema
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        message = f"{str(path)!r} cannot be read as {kind}: {reason}"
        raise DatasetError(message) from error


def _files_in(folder: Path) -> list[Path]:
    # Spark leaves the same files out: marks of success, checksums, unfinished work.
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name[:1] not in ("_", ".")
    )

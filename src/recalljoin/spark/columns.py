"""The parts of a query that Spark computes: expressions of one stream, and what is selected.

Parts of the condition that read one stream become columns of that stream before its tuples are
routed. What is selected is computed when results are rows again, over one struct per stream. Both
kinds may use all of Spark's functions, and follow Spark's rules about nulls and errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from recalljoin.errors import InvalidQuery
from recalljoin.query.bound_query import RESULT_TIME
from recalljoin.query.one_stream import computed_text
from recalljoin.query.sources import arrow_schema
from recalljoin.spark.packing import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.model import Query

    ArrowTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    """What Spark's mapInArrow calls in each task."""


def bind_frames(
    query: Query, frames: Mapping[str, DataFrame], *, time_unit: TimeUnit
) -> tuple[BoundQuery, dict[str, DataFrame]]:
    """A query bound to the DataFrames of its streams, and the DataFrames with computed columns.

    Parameters
    ----------
    query
        The query as the user states it.
    frames
        The DataFrame of each stream, by the stream's name.
    time_unit
        Unit of integer times.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    """
    _refuse_alike(frames)
    schemas = {name: arrow_schema(seen(frame), stream=name) for name, frame in frames.items()}
    columns = query.spark_columns(schemas)
    computed = computed_schemas(columns, frames)
    bound = query.bind(schemas, time_unit=time_unit, computed=computed)
    wide = {name: with_computed(frame, columns[name]) for name, frame in frames.items()}
    return bound, wide


def seen(frame: DataFrame) -> DataFrame:
    """The columns of a DataFrame that a query sees."""
    hidden = [name for name in HIDDEN if name in frame.schema.names]
    return frame.drop(*hidden) if hidden else frame


def _refuse_alike(frames: Mapping[str, DataFrame]) -> None:
    """Refuse columns of one stream that Spark could not tell apart."""
    faults: list[str] = []
    for stream, frame in frames.items():
        seen: dict[str, str] = {}
        for field in frame.schema.fields:
            other = seen.get(field.name.lower())
            if other is not None:
                faults.append(
                    f"stream `{stream}` has the columns `{other}` and `{field.name}`, which Spark "
                    "does not tell apart; rename one of them"
                )
            seen[field.name.lower()] = field.name
    if faults:
        raise InvalidQuery(faults)


def computed_schemas(
    columns: Mapping[str, Mapping[str, str]], frames: Mapping[str, DataFrame]
) -> dict[str, pa.Schema]:
    """The types of the columns that Spark computes for each stream.

    Parameters
    ----------
    columns
        For each stream the Spark SQL of each column, by the column's name.
    frames
        The DataFrame of each stream.

    Raises
    ------
    InvalidQuery
        With everything that Spark cannot compute.
    """
    faults: list[str] = []
    found: dict[str, pa.Schema] = {}
    for stream, texts in columns.items():
        fields: list[pa.Field] = []
        for name, text in texts.items():
            try:
                fields += arrow_schema(frames[stream].select(sf.expr(text).alias(name)))
            except PySparkException as error:
                faults.append(_fault(str(computed_text(name)), error))
        found[stream] = pa.schema(fields)
    if faults:
        raise InvalidQuery(faults)
    return found


def with_computed(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """The DataFrame with further columns; ``columns`` has the SQL of each, by its name."""
    if not columns:
        return frame
    return frame.select("*", *(sf.expr(text).alias(name) for name, text in columns.items()))


def selected(rows: DataFrame, query: BoundQuery) -> DataFrame:
    """What a query selects, computed from results that hold the columns which the query reads.

    Raises
    ------
    InvalidQuery
        With everything that Spark cannot compute.
    """
    if query.spark_select is None:
        return _where(rows, query)
    structs = []
    for s, stream in enumerate(query.streams):
        fields = [
            sf.col(quoted(column.name)).alias(column.name.removeprefix(f"{stream.name}."))
            for column in query.select or ()
            if column.expression.streams == {s}
        ]
        structs += [sf.struct(*fields).alias(stream.name)] if fields else []
    members = _where(rows.select(*structs, RESULT_TIME), query)
    outputs: list[Column] = []
    faults: list[str] = []
    for name, text in query.spark_select:
        output = sf.expr(text).alias(name)
        try:
            members.select(output).schema  # noqa: B018 - asks Spark whether it can
        except PySparkException as error:
            faults.append(_fault(text, error))
        outputs.append(output)
    if faults:
        raise InvalidQuery(faults)
    return members.select(*outputs, RESULT_TIME)


def in_arrow(frame: DataFrame, names: Sequence[str], task: ArrowTask, schema: str) -> DataFrame:
    """What ``task`` makes of some columns of a DataFrame, as rows with ``schema``.

    PySpark reads a dot or a backtick in a column's name as part of SQL. Where there is one, columns
    travel under plain names, and the task is given them under their own.
    """
    if not any(mark in name for name in names for mark in ".`"):
        return frame.select(*(sf.col(quoted(name)) for name in names)).mapInArrow(task, schema)

    def renamed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = list(names)
        return task(pa.RecordBatch.from_arrays(each.columns, own) for each in batches)

    renamed.__name__ = getattr(task, "__name__", "renamed")
    plain = (sf.col(quoted(name)).alias(f"_{i}") for i, name in enumerate(names))
    return frame.select(*plain).mapInArrow(renamed, schema)


def _where(members: DataFrame, query: BoundQuery) -> DataFrame:
    """The rows that come out, of rows with one struct per stream."""
    if query.spark_where is None:
        return members
    try:
        return members.where(sf.expr(query.spark_where))
    except PySparkException as error:
        raise InvalidQuery(_fault(query.spark_where, error)) from error


def quoted(name: str) -> str:
    """A column's name as Spark's SQL writes it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def _fault(text: str, error: PySparkException) -> str:
    # After the first line of Spark's message come the plan and the place in the text.
    first = str(error).strip().split("\n", maxsplit=1)[0]
    return f"in `{text}`: Spark cannot compute it: {first}"

"""Columns with a role in a stream: event time, arrival, and source."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.scope import Name, matching
from recalljoin.query.spelling import way_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.model import Stream


def time_column(stream: Stream, role: str, schema: pa.Schema, faults: list[str]) -> str | None:
    """The column of a stream's event time or arrival (``role``); a fault is noted in ``faults``."""
    name: str = getattr(stream, role)
    column = find_column(name, schema)
    if column is None:
        names = "`[5 SEC ON column]` or time='column'" if role == "time" else "arrival='column'"
        faults.append(
            f"stream `{stream.name}` has no {role} column `{name}`; "
            + (_field_as_column(name, schema) or f"name it with {names}; " + _known(name, schema))
        )
        return None
    if not _is_time(column.type):
        is_castable = pt.is_date(column.type) or pt.is_string(column.type)
        hint = "cast it to a timestamp" if is_castable else "name another column"
        faults.append(
            f"{role} column `{stream.name}.{column.name}` must be an integer or a timestamp, got "
            f"{column.type}; {hint}"
        )
        return None
    return str(column.name)


def as_if_timed(
    names: Sequence[str], schemas: Sequence[pa.Schema | None]
) -> list[pa.Schema | None]:
    """The schemas with a type of time for columns of event time that have another type.

    A column of another type is a fault that has been told of. What the condition does with it would
    be told of as further faults, with other ways out.
    """
    columns = [
        None if schema is None else find_column(name, schema)
        for name, schema in zip(names, schemas, strict=True)
    ]
    kinds = [column.type for column in columns if column is not None and _is_time(column.type)]
    kind = kinds[0] if kinds else pa.timestamp("us")
    return [
        schema
        if schema is None or column is None or _is_time(column.type)
        else schema.set(schema.get_field_index(column.name), column.with_type(kind))
        for column, schema in zip(columns, schemas, strict=True)
    ]


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_integer(kind))


def source_column(stream: Stream, schema: pa.Schema, faults: list[str]) -> str | None:
    """The column that says which source a tuple is from; a fault is noted in ``faults``."""
    if stream.source is None:
        return None
    column = find_column(stream.source, schema)
    if column is None:
        faults.append(
            f"stream `{stream.name}` has no source column `{stream.source}`; "
            + (
                _field_as_column(stream.source, schema)
                or "name it with `[5 SEC SOURCE column]` or source='column'; "
                + _known(stream.source, schema)
            )
        )
        return None
    if pt.is_nested(column.type):
        faults.append(
            f"source column `{stream.name}.{column.name}` must be a number, a text or the like, "
            f"got {column.type}; name another column"
        )
        return None
    return str(column.name)


def column_faults(stream: str, schema: pa.Schema) -> list[str]:
    """What is wrong with the columns of a stream, whatever a query reads of them."""
    n_named = Counter(schema.names)
    faults = [
        f"stream `{stream}` has several columns `{name}`; rename all but one of them"
        for name, n in n_named.items()
        if n > 1
    ]
    faults += [
        f"column `{stream}.{field.name}` is run-end encoded, which the join cannot take in; decode "
        "it, as in pyarrow.compute.run_end_decode(column)"
        for field in schema
        if pt.is_run_end_encoded(field.type)
    ]
    return faults


def _known(name: str, schema: pa.Schema) -> str:
    return way_out(name, schema.names, known_as="columns")


def _field_as_column(name: str, schema: pa.Schema) -> str | None:
    """What to do where the name is that of a field in a struct, as in nested JSON."""
    outer, *fields = name.split(".")
    column = find_column(outer, schema)
    if not fields or column is None or not pt.is_struct(column.type):
        return None
    return (
        f"`{column.name}` is a struct, and a field of it must first be a column of its own, as in "
        f"frame.withColumn({fields[-1]!r}, col({name!r}))"
    )


def find_column(name: str, schema: pa.Schema) -> pa.Field | None:
    """The column of that name, in any case; None if there is none, or more than one."""
    places = matching(Name(name), schema.names)
    return schema.field(places[0]) if len(places) == 1 else None

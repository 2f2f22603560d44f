"""What is given beside a query: columns for all its streams, and the data of the streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recalljoin.errors import InvalidSetting
from recalljoin.query.given import INPUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.query.model import Query

USUAL_ARRIVAL = "arrival"


def with_columns(
    query: Query,
    *,
    time: str | None = None,
    arrival: str | None = None,
    source: str | None = None,
) -> Query:
    """The query with other columns of event time, arrival and source, where they are given."""
    given = {"time": time, "arrival": arrival, "source": source}
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(query, streams=tuple(replace(stream, **changes) for stream in query.streams))


def with_usual_arrival(query: Query, schemas: Mapping[str, pa.Schema]) -> Query:
    """The query with the column ``arrival``, if it names none and every input has that column.

    Raises
    ------
    InvalidSetting
        When only some inputs have the column.
    """
    if any(stream.arrival is not None for stream in query.streams):
        return query
    without = [name for name, schema in schemas.items() if USUAL_ARRIVAL not in schema.names]
    if not without:
        return with_columns(query, arrival=USUAL_ARRIVAL)
    if len(without) < len(schemas):
        message = (
            f"`arrival` must be known of all inputs or of none, and "
            f"{', '.join(f'`{name}`' for name in without)} has no column {USUAL_ARRIVAL!r}; name "
            "the column that all have in `arrival`"
        )
        raise InvalidSetting(message)
    return query


def data_of(query: Query, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The data by stream or source: what the streams carry, and what is given beside the query."""
    carried = {stream.name: stream.data for stream in query.streams if stream.data is not None}
    return carried | named_data(inputs)


def tables_of(
    query: Query, inputs: Mapping[str, Any] | None, *, otherwise: str
) -> dict[str, pa.Table]:
    """The Arrow table of each stream or source.

    Parameters
    ----------
    query, inputs
        As in :func:`data_of`.
    otherwise
        What takes data of other kinds, for the message.

    Raises
    ------
    InvalidSetting
        When the data of a stream are of another kind.
    """
    tables = data_of(query, inputs)
    for name, table in tables.items():
        if not isinstance(table, pa.Table):
            message = (
                f"the data of stream `{name}` must be an Arrow table, got {type(table).__name__}; "
                f"{otherwise}"
            )
            raise InvalidSetting(message)
    return tables


def named_data(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is given beside a query.

    Raises
    ------
    InvalidSetting
        When it has no names.
    """
    if inputs is None:
        return {}
    INPUTS.check("inputs", inputs)
    return dict(inputs)

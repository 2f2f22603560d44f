"""Tables as arrivals of a bound query, for comparison without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.query.text import parse_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from recalljoin.query.bound_query import BoundQuery


def bound_arrivals(text: str, tables: Mapping[str, pa.Table]) -> tuple[BoundQuery, Arrivals]:
    """The query and what it is run over, in the order of column ``arrival``."""
    stated = parse_query(text)
    streams = tuple(replace(stream, arrival="arrival") for stream in stated.streams)
    query = replace(stated, streams=streams).bind({n: t.schema for n, t in tables.items()})
    return query, arrivals_of(query, tables)

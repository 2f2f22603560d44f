"""Tables as arrivals of a bound query, for comparison without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recalljoin.engine import Arrivals, arrivals_of
from recalljoin.query import BoundQuery, parse_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


def bound_arrivals(text: str, tables: Mapping[str, pa.Table]) -> tuple[BoundQuery, Arrivals]:
    """The query and what it is run over, in the order of column ``arrival``."""
    stated = parse_query(text)
    streams = tuple(replace(stream, arrival="arrival") for stream in stated.streams)
    query = replace(stated, streams=streams).bind({n: t.schema for n, t in tables.items()})
    return query, arrivals_of(query, tables)

"""A query in words: its streams, keys, conditions, outputs and recall target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.query.bound_query import PARTITION, BoundQuery
from recalljoin.query.durations import NANOSECONDS_PER, describe
from recalljoin.query.kinds import PRESERVED, shown
from recalljoin.query.options import named_options
from recalljoin.query.render import render
from recalljoin.query.sources import schema_of
from recalljoin.query.stream_columns import data_of, named_data, with_columns
from recalljoin.query.text import parse_query, stated_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.query.bound_query import BoundQuality
    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.functions import Functions
    from recalljoin.query.model import Query
    from recalljoin.query.sources import Source


@named_options
def explain(
    query: str | Query | BoundQuery,
    inputs: Mapping[str, Source] | None = None,
    *,
    time: str | None = None,
    arrival: str | None = None,
    functions: Functions | None = None,
    time_unit: TimeUnit = "ms",
) -> str:
    """What a query does, as text for people: its keys, conditions, windows and target.

    :func:`recalljoin.explain` tells joins of Spark as well, and describes the options.
    """
    if isinstance(query, BoundQuery):
        return _explained(query)
    given = named_data(inputs) if isinstance(query, str) else data_of(stated_query(query), inputs)
    schemas = {name: schema_of(data, stream=name) for name, data in given.items()}
    if isinstance(query, str):
        # Parsed with the schemas, so that faults of text and columns are reported together.
        query = parse_query(
            query,
            functions=functions,
            time=time or "ts",
            arrival=arrival,
            schemas=schemas,
            time_unit=time_unit,
        )
    else:
        query = with_columns(query, time=time, arrival=arrival)
    return _explained(query.bind(schemas, time_unit=time_unit))


def _explained(bound: BoundQuery) -> str:
    names = [stream.name for stream in bound.streams]
    sections = {
        "streams": _streams(bound),
        "equal": [
            f"{' = '.join(render(each, names) for each in found.members.values())}  ({found.type})"
            for found in bound.classes
        ],
        "further conditions": [render(part.expression, names) for part in bound.residual],
        **_rows(bound, names),
        "output": _output(bound, names),
        "quality": _quality(bound.quality, bound),
    }
    lines: list[str] = []
    for title, content in sections.items():
        lines.append(title)
        lines.extend(f"  {line}" for line in content or ["none"])
    return "\n".join([*lines, f"times are counted in {bound.unit}"])


def _rows(bound: BoundQuery, names: list[str]) -> dict[str, list[str]]:
    """Which rows there are and when they leave, unless the join is inner and in order."""
    alone = [names[s] for s in PRESERVED[bound.how]]
    lines = []
    if bound.how in ("left", "right", "full"):
        lines.append(f"pairs, and tuples of {' and '.join(alone)} without a partner")
    elif bound.how != "inner":
        which = "that have a partner, each once" if bound.how == "semi" else "without a partner"
        lines.append(f"tuples of {alone[0]} {which}")
    lines += (f"only where {render(part, names)}" for part in bound.where)
    if bound.emit == "eager":
        lines.append("results leave as soon as their last member has arrived")
    return {"rows": lines} if lines else {}


def _duration(ticks: int, bound: BoundQuery) -> str:
    return describe(ticks * NANOSECONDS_PER[bound.unit])


def _streams(bound: BoundQuery) -> list[str]:
    rows = []
    for stream in bound.streams:
        row = [
            stream.name,
            f"window {_duration(stream.window, bound)}",
            f"time {stream.time}",
            f"arrival {stream.arrival}" if stream.arrival else "",
            f"source {stream.source}" if stream.source not in (None, PARTITION) else "",
            f"from {stream.table}" if stream.table not in ("", stream.name) else "",
        ]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True) if n).rstrip()
        for row in rows
    ]


def _output(bound: BoundQuery, names: list[str]) -> list[str]:
    if bound.counts_only:
        return [f"the number of results, as {bound.count_name}"]
    if bound.select is None:
        structs = [names[s] for s in shown(bound.how, len(names))]
        return ["one struct per stream: " + ", ".join(structs)]
    return [
        f"{column.name} = {render(column.expression, names)}  ({column.expression.type})"
        for column in bound.select
    ]


def _quality(quality: BoundQuality | None, bound: BoundQuery) -> list[str]:
    if quality is None:
        return ["no target"]
    waiting = "no limit" if quality.max_wait is None else _duration(quality.max_wait, bound)
    if quality.min_wait:
        waiting += f", shortest wait: {_duration(quality.min_wait, bound)}"
    if quality.initial_wait is not None:
        waiting += f", at first: {_duration(quality.initial_wait, bound)}"
    steps = ""
    if quality.granularity is not None:
        steps = f", in steps of {_duration(quality.granularity, bound)}"
    precision = ""
    if quality.null_precision is not None:
        precision = f", {quality.null_precision:g} of the nulls true"
    return [
        f"recall of at least {quality.recall:g} over {_duration(quality.period, bound)}{precision}",
        f"the wait is chosen anew every {_duration(quality.interval, bound)}{steps}",
        f"longest wait: {waiting}",
    ]

"""A bound query in words: what it joins, on what, and how well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.query.durations import NANOSECONDS_PER, describe
from recalljoin.query.render import render

if TYPE_CHECKING:
    from recalljoin.query.bound import BoundQuality, BoundQuery


def explain(bound: BoundQuery) -> str:
    """What a query does, as text for people.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from recalljoin.query import parse_query
    >>> schema = pa.schema({"ts": pa.int64(), "a1": pa.int32()})
    >>> query = parse_query("SELECT * FROM s1 [5 SEC], s2 [1 MINUTE] WHERE s1.a1 = s2.a1")
    >>> print(explain(query.bind({"s1": schema, "s2": schema})))
    streams
      s1  window 5 s    time ts
      s2  window 1 min  time ts
    equal
      s1.a1 = s2.a1  (int64)
    further conditions
      none
    output
      one struct per stream: s1, s2
    quality
      no target
    times are counted in ms
    """
    names = [stream.name for stream in bound.streams]
    sections = {
        "streams": _streams(bound),
        "equal": [
            f"{' = '.join(render(each, names) for each in found.members.values())}  ({found.type})"
            for found in bound.classes
        ],
        "further conditions": [render(part.expression, names) for part in bound.residual],
        "output": _output(bound, names),
        "quality": _quality(bound.quality, bound),
    }
    lines = []
    for title, content in sections.items():
        lines.append(title)
        lines.extend(f"  {line}" for line in content or ["none"])
    return "\n".join([*lines, f"times are counted in {bound.unit}"])


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
            f"from {stream.source}" if stream.source not in ("", stream.name) else "",
        ]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _output(bound: BoundQuery, names: list[str]) -> list[str]:
    if bound.counts_only:
        return [f"the number of results, as {bound.count_name}"]
    if bound.select is None:
        return ["one struct per stream: " + ", ".join(names)]
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
        steps = f"in steps of {_duration(quality.granularity, bound)}, "
    return [
        f"recall of at least {quality.recall:g} over {_duration(quality.period, bound)}",
        f"buffer size chosen every {_duration(quality.interval, bound)}, {steps}basic window "
        f"{_duration(quality.basic_window, bound)}",
        f"longest wait: {waiting}",
    ]

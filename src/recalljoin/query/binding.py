"""Binding: a query meets the schemas of its streams, and all faults come out together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.bound import BoundQuery, BoundStream, Conjunct, EqualityClass
from recalljoin.query.coercion import Mismatch
from recalljoin.query.durations import (
    MAX_TIME,
    NANOSECONDS_PER,
    TimeUnit,
    finest,
    in_unit,
    nanoseconds,
)
from recalljoin.query.grammar import parse_condition
from recalljoin.query.lowering import Lowering
from recalljoin.query.outputs import Outputs, lower_outputs
from recalljoin.query.quality import bind_quality
from recalljoin.query.scope import Name, Scope, find, matching
from recalljoin.query.spelling import listed, way_out
from recalljoin.query.split import split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recalljoin.query.expressions import Expression
    from recalljoin.query.functions import Functions
    from recalljoin.query.model import Stream
    from recalljoin.query.quality import Quality


class Statement(Protocol):
    """What is bound: a :class:`~recalljoin.query.Query`, or the parts of one that has faults."""

    @property
    def streams(self) -> Sequence[Stream]:
        """The inputs."""

    @property
    def condition(self) -> str | None:
        """What must hold for a result."""

    @property
    def select(self) -> str:
        """The outputs."""

    @property
    def quality(self) -> Quality | None:
        """How complete the result must be."""

    @property
    def functions(self) -> Functions:
        """The user's own functions."""


@dataclass
class Faults:
    """What is wrong, the quality target apart from everything else."""

    query: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)

    def refuse(self) -> None:
        """Raise all faults in one error, if there are any."""
        if self.query or self.target:
            kind = InvalidQuery if self.query else InvalidTarget
            raise kind(list(dict.fromkeys([*self.query, *self.target])))


def check(statement: Statement, faults: Faults) -> None:
    """Record the faults that show without schemas."""
    if _check_streams([stream.name for stream in statement.streams], faults):
        _lower(statement, [None] * len(statement.streams), faults)


def bind(
    statement: Statement,
    schemas: Mapping[str, pa.Schema],
    faults: Faults,
    *,
    time_unit: TimeUnit,
) -> BoundQuery | None:
    """The bound query; meaningless, and maybe None, once a fault is recorded."""
    if not _check_streams([stream.name for stream in statement.streams], faults):
        return None
    if time_unit not in NANOSECONDS_PER:
        faults.query.append(f"`time_unit` must be one of s, ms, us, ns, got {time_unit!r}")
        time_unit = "ms"
    faults.query.extend(
        f"stream `{stream.name}` has no window; write for example window='5 seconds'"
        for stream in statement.streams
        if stream.window is None
    )
    found = [_schema(stream, schemas, faults) for stream in statement.streams]
    unit = _unit(statement.streams, found, time_unit, faults)
    streams = [
        _stream(stream, schema, unit, faults)
        for stream, schema in zip(statement.streams, found, strict=True)
    ]
    classes, residual, outputs = _lower(statement, found, faults)
    quality = None
    if statement.quality is not None:
        windows = [_window(stream) for stream in statement.streams]
        quality = bind_quality(statement.quality, windows, unit, faults.target)
    return BoundQuery(
        streams=tuple(stream for stream in streams if stream is not None),
        unit=unit,
        classes=classes,
        residual=residual,
        select=outputs.columns,
        counts_only=outputs.counts_only,
        quality=quality,
        count_name=outputs.count_name,
        time_unit=time_unit,
    )


def _check_streams(names: Sequence[str], faults: Faults) -> bool:
    """Whether names can be told apart; a join of one stream is a fault, but can be read on."""
    if len(names) < 2:
        faults.query.append(f"a join takes at least two streams, got {len(names)}; add another")
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            faults.query.append(
                f"two streams are called `{name}` (names ignore case); "
                f"give one an alias, as in `{name} AS other`"
            )
        seen.add(name.lower())
    return len(seen) == len(names)


def _lower(
    statement: Statement, schemas: Sequence[pa.Schema | None], faults: Faults
) -> tuple[tuple[EqualityClass, ...], tuple[Conjunct, ...], Outputs]:
    scope = Scope([stream.name for stream in statement.streams], schemas)
    lowering = Lowering(scope, statement.functions)
    parts: list[Expression] = []
    outputs = Outputs()
    try:
        if statement.condition is not None:
            parts = lowering.condition(parse_condition(statement.condition))
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    try:
        outputs = lower_outputs(statement.select, lowering)
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    faults.query.extend(lowering.faults)
    try:
        classes, residual = split(parts)
    except Mismatch as mismatch:
        faults.query.append(f"in the condition: {mismatch}")
        return (), (), outputs
    return classes, residual, outputs


def _schema(stream: Stream, schemas: Mapping[str, pa.Schema], faults: Faults) -> pa.Schema | None:
    schema = find(stream.name, schemas)
    if schema is None and stream.source is not None:
        schema = find(stream.source, schemas)
    if schema is None:
        hint = way_out(stream.source or stream.name, list(schemas), known_as="schemas")
        faults.query.append(f"no schema is given for stream `{stream.name}`; {hint}")
    return schema


def _unit(
    streams: Sequence[Stream],
    schemas: Sequence[pa.Schema | None],
    time_unit: TimeUnit,
    faults: Faults,
) -> TimeUnit:
    """The finest unit among the time columns."""
    units: set[TimeUnit] = set()
    zoned: dict[bool, str] = {}
    for stream, schema in zip(streams, schemas, strict=True):
        column = None if schema is None else _find_column(stream.time, schema)
        if column is None:
            continue
        if pt.is_timestamp(column.type):
            units.add(column.type.unit)
            zoned[column.type.tz is not None] = f"{stream.name}.{column.name}"
        elif pt.is_integer(column.type):
            units.add(time_unit)
    if len(zoned) == 2:
        faults.query.append(
            f"time columns must all have a time zone or none, got {listed([zoned[True]])} with "
            f"and {listed([zoned[False]])} without; convert one of them"
        )
    return finest(units or {time_unit})


def _stream(
    stream: Stream, schema: pa.Schema | None, unit: TimeUnit, faults: Faults
) -> BoundStream | None:
    if schema is None:
        return None
    time = _time_column(stream, "time", stream.time, schema, faults)
    arrival = None
    if stream.arrival is not None:
        arrival = _time_column(stream, "arrival", stream.arrival, schema, faults)
    window = in_unit(_window(stream), unit)
    if window > MAX_TIME:
        faults.query.append(
            f"`window` of stream `{stream.name}` is too long to count in {unit}, got "
            f"{stream.window!r}; write a shorter one"
        )
    if time is None:
        return None
    return BoundStream(
        name=stream.name,
        schema=schema,
        time=time,
        arrival=arrival,
        window=window,
        source=stream.source or stream.name,
    )


def _window(stream: Stream) -> int:
    """Length of a stream's window in nanoseconds; 0, with a fault recorded, if it has none."""
    return 0 if stream.window is None else nanoseconds(stream.window, name="window")


def _time_column(
    stream: Stream, role: str, name: str, schema: pa.Schema, faults: Faults
) -> str | None:
    column = _find_column(name, schema)
    if column is None:
        names = "`[5 SEC ON column]` or time='column'" if role == "time" else "arrival='column'"
        faults.query.append(
            f"stream `{stream.name}` has no {role} column `{name}`; name it with {names}; "
            + way_out(name, schema.names, known_as="columns")
        )
        return None
    if not (pt.is_timestamp(column.type) or pt.is_integer(column.type)):
        hint = "cast it to a timestamp" if pt.is_date(column.type) else "name another column"
        faults.query.append(
            f"{role} column `{stream.name}.{column.name}` must be an integer or a timestamp, got "
            f"{column.type}; {hint}"
        )
        return None
    return str(column.name)


def _find_column(name: str, schema: pa.Schema) -> pa.Field | None:
    places = matching(Name(name), schema.names)
    return schema.field(places[0]) if len(places) == 1 else None

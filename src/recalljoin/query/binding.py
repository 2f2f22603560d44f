"""Binding: a query meets the schemas of its streams, and all faults come out together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.bound_query import (
    RESULT_TIME,
    BoundQuery,
    BoundStream,
    Conjunct,
    EqualityClass,
)
from recalljoin.query.durations import (
    MAX_TIME,
    NANOSECONDS_PER,
    TimeUnit,
    finest,
    in_unit,
    nanoseconds,
)
from recalljoin.query.expressions import Call, Column
from recalljoin.query.grammar import parse_condition
from recalljoin.query.kinds import kind_faults
from recalljoin.query.lowering import Lowering
from recalljoin.query.one_stream import OneStream, computed_columns
from recalljoin.query.outputs import (
    Outputs,
    check_outputs,
    check_shown,
    check_where,
    lower_outputs,
    with_where,
)
from recalljoin.query.quality import bind_quality
from recalljoin.query.role_columns import (
    as_if_timed,
    column_faults,
    find_column,
    source_column,
    time_column,
)
from recalljoin.query.rules import Mismatch
from recalljoin.query.scope import Scope, find
from recalljoin.query.spelling import listed, way_out
from recalljoin.query.split import split, without_and
from recalljoin.query.time_bounds import TimeBounds, is_implied
from recalljoin.query.trees import conjuncts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recalljoin.query.expressions import Expression
    from recalljoin.query.functions import Functions
    from recalljoin.query.kinds import Emit, How
    from recalljoin.query.model import Stream
    from recalljoin.query.quality import Quality


class Bindable(Protocol):
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

    @property
    def how(self) -> How:
        """Kind of join."""

    @property
    def emit(self) -> Emit:
        """When results leave."""

    @property
    def where(self) -> str | None:
        """What must be true of a row to come out."""


@dataclass
class Faults:
    """Faults of a query; faults of the quality target are kept apart from all others."""

    query: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)

    def refuse(self) -> None:
        """Raise all faults in one error, if there are any."""
        if self.query or self.target:
            kind = InvalidQuery if self.query else InvalidTarget
            raise kind(list(dict.fromkeys([*self.query, *self.target])))


def check(statement: Bindable, faults: Faults) -> None:
    """Record the faults that show without schemas."""
    if not _check_streams([stream.name for stream in statement.streams], faults):
        return
    faults.query.extend(kind_faults(statement.how, statement.emit, len(statement.streams)))
    scope = Scope([s.name for s in statement.streams], [None] * len(statement.streams))
    lowering = Lowering(scope, statement.functions)
    try:
        if statement.condition is not None:
            for part in conjuncts(parse_condition(statement.condition)):
                lowering.check(part)
        check_where(statement.where, statement.how, lowering)
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    try:
        check_outputs(statement.select, lowering)
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    faults.query.extend(lowering.faults)


def columns_for_spark(
    statement: Bindable, schemas: Mapping[str, pa.Schema]
) -> dict[str, dict[str, str]]:
    """For each stream the columns that Spark must add for the condition: Spark's SQL by name."""
    streams = statement.streams
    if statement.condition is None:
        return {stream.name: {} for stream in streams}
    found = [_schema(stream, schemas, Faults()) for stream in streams]
    scope = Scope([s.name for s in streams], found, [s.time for s in streams])
    one_stream = OneStream(scope, statement.functions)
    parts = conjuncts(parse_condition(statement.condition))
    columns = computed_columns(parts, one_stream, len(streams))
    return {stream.name: mine for stream, mine in zip(streams, columns, strict=True)}


def bind(
    statement: Bindable,
    schemas: Mapping[str, pa.Schema],
    faults: Faults,
    *,
    time_unit: TimeUnit,
    computed: Mapping[str, pa.Schema] | None = None,
) -> BoundQuery | None:
    """The bound query; once a fault is recorded, it means nothing and may be None."""
    if not _check_streams([stream.name for stream in statement.streams], faults):
        return None
    if time_unit not in tuple(NANOSECONDS_PER):
        faults.query.append(f"`time_unit` must be one of s, ms, us, ns, got {time_unit!r}")
        time_unit = "ms"
    faults.query.extend(kind_faults(statement.how, statement.emit, len(statement.streams)))
    found = [_schema(stream, schemas, faults) for stream in statement.streams]
    unit = _unit(statement.streams, found, time_unit, faults)
    streams = [
        _stream(stream, schema, unit, faults)
        for stream, schema in zip(statement.streams, found, strict=True)
    ]
    n_faults = len(faults.query)
    timed = as_if_timed([stream.time for stream in statement.streams], found)
    parts, outputs = _lower(statement, timed, computed, faults)
    known = [stream for stream in streams if stream is not None]
    if len(known) < len(streams) or len(faults.query) > n_faults:
        faults.query.extend(_surely_without_window(statement, streams))
    if len(known) == len(streams):
        bounds = TimeBounds([_time_of(s, at) for at, s in enumerate(known)], unit, time_unit)
        if len(faults.query) == n_faults:
            known = _with_windows(statement, known, bounds, parts, faults)
        windows = [stream.window for stream in known]
        # Equalities stay, because the join looks tuples up by them.
        parts = [p for p in parts if _is_equality(p) or not is_implied(bounds.of(p), windows)]
    classes, residual = _split(parts, faults)
    quality = None
    if statement.quality is not None:
        lengths = [stream.window * NANOSECONDS_PER[unit] for stream in known]
        quality = bind_quality(statement.quality, lengths, unit, faults.target, statement.how)
    if computed is not None:
        known = [replace(s, computed=computed.get(s.name, s.computed)) for s in known]
    return BoundQuery(
        streams=tuple(known),
        unit=unit,
        classes=classes,
        residual=residual,
        select=outputs.columns,
        counts_only=outputs.counts_only,
        quality=quality,
        count_name=outputs.count_name,
        time_unit=time_unit,
        spark_select=outputs.texts,
        how=statement.how,
        emit=statement.emit,
        where=outputs.where,
        spark_where=outputs.where_text,
    )


def _check_streams(names: Sequence[str], faults: Faults) -> bool:
    """Whether all names differ. A join of one stream is a fault that does not stop binding."""
    if len(names) < 2:
        faults.query.append(f"a join takes at least two streams, got {len(names)}; add another")
    seen: set[str] = set()
    for name in names:
        if name.lower() == RESULT_TIME:
            faults.query.append(
                f"a stream is called `{name}`, as the column with the time of a result is; give it "
                f"an alias, as in `{name} AS other`"
            )
        if name.lower() in seen:
            faults.query.append(
                f"two streams are called `{name}` (names ignore case); "
                f"give one an alias, as in `{name} AS other`"
            )
        seen.add(name.lower())
    return len(seen) == len(names)


def _lower(
    statement: Bindable,
    schemas: Sequence[pa.Schema | None],
    computed: Mapping[str, pa.Schema] | None,
    faults: Faults,
) -> tuple[list[Expression], Outputs]:
    """The parts of the condition and the outputs."""
    streams = statement.streams
    scope = Scope([s.name for s in streams], schemas, [s.time for s in streams])
    by_spark = None if computed is None else [computed[s.name] for s in streams]
    lowering = Lowering(scope, statement.functions, by_spark)
    parts: list[Expression] = []
    outputs = Outputs()
    try:
        if statement.condition is not None:
            parts = without_and(lowering.condition(parse_condition(statement.condition)))
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    try:
        on_spark = computed is not None
        outputs = lower_outputs(statement.select, lowering, on_spark=on_spark)
        check_where(statement.where, statement.how, lowering)
        outputs = with_where(outputs, statement.where, lowering, on_spark=on_spark)
        check_shown(outputs, statement.how, lowering)
    except InvalidQuery as error:
        faults.query.extend(error.faults)
    faults.query.extend(lowering.faults)
    return parts, outputs


def _split(
    parts: Sequence[Expression], faults: Faults
) -> tuple[tuple[EqualityClass, ...], tuple[Conjunct, ...]]:
    try:
        return split(parts)
    except Mismatch as mismatch:
        faults.query.append(f"in the condition: {mismatch}")
        return (), ()


def _is_equality(part: Expression) -> bool:
    return isinstance(part, Call) and part.function == "eq"


def _time_of(stream: BoundStream, at: int) -> Column:
    return Column(at, stream.time, stream.schema.field(stream.time).type)


def _no_window(stream: str) -> str:
    return f"stream `{stream}` has no window; write `{stream} [5 SEC]` or window='5 seconds'"


def _surely_without_window(statement: Bindable, bound: Sequence[BoundStream | None]) -> list[str]:
    """Faults of streams without a window, where no mended condition could give them one."""
    condition = (statement.condition or "").lower()
    compares = any(word in condition for word in ("<", ">", "between"))
    return [
        _no_window(stream.name)
        for stream, found in zip(statement.streams, bound, strict=True)
        # Where the time column has another name, a comparison may well be of that column.
        if stream.window is None
        and stream.time.lower() not in condition
        and not (found is None and compares)
    ]


def _with_windows(
    statement: Bindable,
    streams: Sequence[BoundStream],
    time_bounds: TimeBounds,
    parts: Sequence[Expression],
    faults: Faults,
) -> list[BoundStream]:
    """The streams; a stream without a window gets the one that follows from the condition."""
    bounds = [bound for part in parts for bound in time_bounds.of(part)]
    derived = time_bounds.windows(bounds)
    found = []
    for s, (given, stream) in enumerate(zip(statement.streams, streams, strict=True)):
        window = stream.window if given.window is not None else derived[s]
        if window is None:
            here = f"{stream.name}.{stream.time}"
            later = [streams[other] for other in time_bounds.unbounded(bounds, s)]
            others = [f"{each.name}.{each.time}" for each in later]
            faults.query.append(
                f"{_no_window(stream.name)}, or say in the condition how long after `{here}` the "
                f"time {listed(others, last=' and ')} may be, as in `{others[0]} <= {here} + ...`"
            )
        elif given.window is None and window > MAX_TIME:
            faults.query.append(
                f"stream `{stream.name}` has no window, and the one that follows from the "
                "condition is too long to count; write a shorter one"
            )
        found.append(replace(stream, window=window or 0))
    return found


def _schema(stream: Stream, schemas: Mapping[str, pa.Schema], faults: Faults) -> pa.Schema | None:
    schema = find(stream.name, schemas)
    if schema is None and stream.table is not None:
        schema = find(stream.table, schemas)
    if schema is None:
        hint = way_out(stream.table or stream.name, list(schemas), known_as="inputs")
        faults.query.append(f"no input is given for stream `{stream.name}`; {hint}")
        return None
    wrong = column_faults(stream.name, schema)
    faults.query.extend(wrong)
    return None if wrong else schema


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
        column = None if schema is None else find_column(stream.time, schema)
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
    time = time_column(stream, "time", schema, faults.query)
    arrival = None
    if stream.arrival is not None:
        arrival = time_column(stream, "arrival", schema, faults.query)
    source = source_column(stream, schema, faults.query)
    window = in_unit(nanoseconds(stream.window or 0, name="window"), unit)
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
        table=stream.table or stream.name,
        source=source,
    )

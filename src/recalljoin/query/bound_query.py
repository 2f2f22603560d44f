"""A query that has met its schemas: everything resolved, typed and counted in one unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.expressions import Expression
    from recalljoin.query.kinds import Emit, How

RESULT_TIME: Final = "result_time"
"""Column of every output with the timestamp of the result."""

PARTITION: Final = "__partition"
"""Column with topic and partition of a message, which the query does not see. As sources they are
waited for only while they run apart."""


@dataclass(frozen=True)
class BoundStream:
    """One input of the join."""

    name: str
    schema: pa.Schema
    """Columns of the input, without columns that Spark adds."""
    time: str
    """Column with the event time: an integer or a timestamp."""
    arrival: str | None
    """Column that says when a tuple arrived; None when tuples arrive in the order of input."""
    window: int
    """Size of the window in the query's unit."""
    table: str = ""
    """Name of the table of the stream; differs from ``name`` when the query gives an alias."""
    source: str | None = None
    """Column that says which source (device, sensor, partition) a tuple is from, if any does."""
    computed: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Columns that Spark adds for the condition; ``SELECT *`` does not show them."""

    @property
    def columns(self) -> pa.Schema:
        """Columns of the input, and columns that Spark adds."""
        return pa.schema([*self.schema, *self.computed]) if len(self.computed) else self.schema


@dataclass(frozen=True)
class EqualityClass:
    """Expressions of different streams that must all be equal for a result.

    A null is equal to nothing. In a class of floating-point type NaN equals NaN and -0.0 equals
    0.0.
    """

    members: Mapping[int, Expression]
    """Two or more, by stream; each reads its own stream only and is of type ``type``."""
    type: pa.DataType

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.members.items(), key=lambda item: item[0])), self.type))


@dataclass(frozen=True)
class Conjunct:
    """A further part of the condition, which must be true (and not null) for a result."""

    streams: frozenset[int]
    """The streams that the conjunct reads; empty for a constant."""
    expression: Expression


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class BoundQuality:
    """The quality target, durations in the query's unit."""

    recall: float
    period: int
    interval: int
    granularity: int | None
    basic_window: int
    min_wait: int
    max_wait: int | None
    initial_wait: int | None
    null_precision: float | None = None
    """Smallest share of the nulls that are true; None where a join has no nulls."""


@dataclass(frozen=True)
class BoundQuery:
    """What the engine runs.

    A combination of one tuple per stream is a result if it lies within the windows, all members
    of each class are equal, and all conjuncts are true.
    """

    streams: tuple[BoundStream, ...]
    unit: TimeUnit
    """Unit of all times and durations."""
    classes: tuple[EqualityClass, ...]
    residual: tuple[Conjunct, ...]
    select: tuple[OutputColumn, ...] | None
    """Columns of the result; None for ``*``, one struct per stream, and when only counting. For
    Spark, the columns that ``spark_select`` reads."""
    counts_only: bool
    """Whether the query is ``SELECT count(*)``."""
    quality: BoundQuality | None
    count_name: str = "count"
    """What the query calls its count."""
    time_unit: TimeUnit = "ms"
    """Unit of integer columns of event time and arrival. If any column of event time is an integer,
    this unit is as coarse as ``unit`` or coarser."""
    spark_select: tuple[tuple[str, str], ...] | None = None
    """The outputs that Spark computes over one struct per stream: names and SQL. None without
    Spark, for ``*`` and when only counting."""
    how: How = "inner"
    """Which rows the join has."""
    emit: Emit = "ordered"
    """When a result leaves."""
    where: tuple[Expression, ...] = ()
    """What must be true of a row to come out; beside an outer, semi or anti join only."""
    spark_where: str | None = None
    """The same as SQL over one struct per stream, where Spark checks it."""

    def time_text(self, stream: BoundStream) -> str:
        """A stream's column of event time and its unit, to tell states of different queries apart.

        The unit is left out for timestamps, whose type has it, and for integers in the query's
        unit.
        """
        counts = pt.is_integer(stream.schema.field(stream.time).type)
        if counts and self.time_unit != self.unit:
            return f"{stream.time} in {self.time_unit}"
        return stream.time

"""Where results become rows: in Spark's own compiled code, from lists of tuples and members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from recalljoin.engine.folding import BITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from recalljoin.engine.folding import Folded

_RESULT, _MEMBERS = "__result", "__members"


def folded_schema(folded: Folded, output: StructType) -> StructType:
    """Spark's schema of :class:`~recalljoin.engine.folding.Folded` results with rows ``output``."""
    *columns, time = (field.dataType for field in output)
    n_times = 1 if folded.has_nulls else len(folded.timed)
    n_members = len(folded.schema) - len(columns) - n_times
    lists = map(ArrayType, [*columns, *[time] * n_times, *[LongType()] * n_members])
    return StructType(list(map(StructField, folded.schema.names, lists)))


def unfolded(frame: DataFrame, folded: Folded, output: StructType) -> DataFrame:
    """A row for each result."""
    query = folded.output.query
    # A row without lists, such as a row with counts, gives no rows.
    first = folded.members(0)
    rows = frame.select("*", sf.posexplode(first).alias(_RESULT, _MEMBERS))

    def member(s: int) -> Column:
        name = folded.members(s)
        packed = sf.col(_MEMBERS) if name == first else sf.get(name, sf.col(_RESULT))
        return sf.shiftright(packed, folded.shift(s)).bitwiseAND((1 << BITS) - 1).cast("int")

    def column(i: int) -> Column:
        return sf.get(folded.name(i), member(folded.stream_of[i]))

    def time(s: int) -> Column:
        i = folded.time_in[s]
        if i is None:
            return sf.get(folded.time(s), member(s))
        is_struct = query.select is None
        return column(i).getField(query.streams[s].time) if is_struct else column(i)

    times = [time(s) for s in folded.output.shown] if not folded.has_nulls else []
    if folded.has_nulls:
        result_time = sf.get(folded.times(), sf.col(_RESULT))
    else:
        result_time = sf.greatest(*times) if len(times) > 1 else times[0]
    columns = [*map(column, range(len(output) - 1)), result_time]
    return rows.select(*(c.alias(name) for c, name in zip(columns, output.names, strict=True)))

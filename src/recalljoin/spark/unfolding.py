"""Where results become rows: in Spark's own compiled code, from lists of tuples and members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from recalljoin.engine.folding import Folded

_PLACE, _TIME = "__place", "__time"


def folded_schema(folded: Folded, output: StructType) -> StructType:
    """What :class:`~recalljoin.engine.folding.Folded` is to Spark, whose rows are ``output``."""
    kinds = [field.dataType for field in output] + [IntegerType() for _ in folded.streams]
    lists = (ArrayType(kind) for kind in kinds)
    return StructType(list(map(StructField, folded.schema.names, lists)))


def unfolded(frame: DataFrame, folded: Folded, output: StructType) -> DataFrame:
    """A row for each result."""
    # The last column has a value for each result. A row without lists goes without a trace.
    time = folded.name(len(output) - 1)
    rows = frame.select("*", sf.posexplode(time).alias(_PLACE, _TIME))

    def column(i: int) -> Column:
        s = folded.stream_of[i]
        place = sf.col(_PLACE)
        return sf.get(folded.name(i), place if s is None else sf.get(folded.members(s), place))

    columns = [*(column(i) for i in range(len(output) - 1)), sf.col(_TIME)]
    return rows.select(*(c.alias(name) for c, name in zip(columns, output.names, strict=True)))

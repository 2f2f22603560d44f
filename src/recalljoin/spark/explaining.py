"""A query in words; and a join on Spark, with how its work is divided and its wait is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from recalljoin.errors import InvalidSetting
from recalljoin.query.explain import explain as explain_query
from recalljoin.query.options import named_options
from recalljoin.query.shown_text import ShownText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import TimeUnit
    from recalljoin.query.functions import Functions
    from recalljoin.query.model import Query
    from recalljoin.query.sources import Source


@named_options
def explain(
    query: str | Query | BoundQuery | DataFrame,
    inputs: Mapping[str, Source] | None = None,
    *,
    time: str | None = None,
    arrival: str | None = None,
    functions: Functions | None = None,
    time_unit: TimeUnit = "ms",
) -> str:
    """What a query or a join does, as text for people.

    Parameters
    ----------
    query
        Text in the paper's form, a query, or a query that is bound already: its keys, conditions,
        windows and target. Or the streaming DataFrame that :func:`recalljoin.join` has returned:
        the same, and cells, shares, policy and limits.
    inputs
        The data of each stream, of which only the columns are read: a Spark DataFrame, streaming or
        not; an Arrow table or schema; or the path of a Parquet or CSV file, or of a folder of such
        files. Streams of a query may carry their data themselves.
    time, arrival
        Columns with the event time and the arrival, for all streams; by default what the query
        says (``ts``, and none).
    functions
        Functions of your own that a text calls.
    time_unit
        What integer time columns count in.

    Raises
    ------
    InvalidQuery
        With every fault of the query.
    DatasetError
        When a file is missing or cannot be read.
    InvalidSetting
        When an input is of another kind, or a DataFrame comes from no streaming join.

    Examples
    --------
    >>> import pyarrow as pa
    >>> left = pa.table({"ts": [1], "a1": [7]})
    >>> right = pa.schema({"ts": pa.int64(), "a1": pa.int32()})
    >>> query = "SELECT * FROM s1 [5 SEC], s2 [1 MINUTE] WHERE s1.a1 = s2.a1"
    >>> print(explain(query, {"s1": left, "s2": right}))
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
    if hasattr(query, "sparkSession"):
        return ShownText(_explained(query))
    told = explain_query(
        cast("Any", query), inputs,
        time=time, arrival=arrival, functions=functions, time_unit=time_unit,
    )  # fmt: skip
    return ShownText(told)


def _explained(frame: Any) -> str:
    from recalljoin.spark.chained import plans_of  # noqa: PLC0415 - loads Spark

    texts = [f"join {plan.name}\n{plan.text}" for plan in plans_of(frame)]
    if not texts:
        message = (
            "the DataFrame comes from no streaming join of recalljoin; give what rj.join or rj.sql "
            "has returned for streaming DataFrames, or a query with its inputs"
        )
        raise InvalidSetting(message)
    return "\n\n".join(texts)

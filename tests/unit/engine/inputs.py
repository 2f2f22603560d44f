"""Short ways to write inputs of the engine down in its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrivals import Arrivals, arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.step import Step, drain
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recalljoin.engine.settings import EngineSettings
    from recalljoin.query.bound_query import BoundQuery

Arrival = Literal["tuple", "tick"]


def bound(
    condition: str | None = "s1.a = s2.a",
    *,
    windows: Sequence[int] = (10, 10),
    types: Mapping[str, pa.DataType] | None = None,
    select: str = "*",
    functions: Functions | None = None,
) -> BoundQuery:
    """A query over streams ``s1`` .. ``sm`` with columns ``ts``, ``a`` or ``types``, ``n``.

    ``n`` is the position in the input, which also says in which order tuples arrive.
    """
    columns = {"a": pa.int64()} if types is None else types
    schema = pa.schema({"ts": pa.int64(), **columns, "n": pa.int64()})
    names = [f"s{i + 1}" for i in range(len(windows))]
    query = Query(
        streams=[
            Stream(name, window=window, arrival="n")
            for name, window in zip(names, windows, strict=True)
        ],
        condition=condition,
        select=select,
        functions=functions or Functions(),
    )
    return query.bind(dict.fromkeys(names, schema))


def rows_of(query: BoundQuery, rows: Sequence[tuple[Any, ...]], *, first: int = 0) -> Arrivals:
    """Tuples in the order they arrive, each ``(stream from 1 on, ts, values ...)``."""
    tables = {}
    for i, stream in enumerate(query.streams):
        mine = [(*row[1:], first + n) for n, row in enumerate(rows) if row[0] == i + 1]
        columns = zip(*mine, strict=True) if mine else [()] * len(stream.schema)
        tables[stream.name] = pa.table(
            [
                pa.array(list(column), field.type)
                for column, field in zip(columns, stream.schema, strict=True)
            ],
            schema=stream.schema,
        )
    return arrivals_of(query, tables)


def run(
    query: BoundQuery,
    rows: Sequence[tuple[Any, ...]],
    *,
    k: int | list[int] = 0,
    settings: EngineSettings | None = None,
) -> tuple[list[dict[str, Any]], list[Step]]:
    """Results and steps of a whole input, one tuple after another."""
    pipeline = Pipeline(query, settings)
    arrivals = rows_of(query, rows)
    batches, step = drain(pipeline.push(arrivals, k=k if isinstance(k, int) else np.array(k)))
    rest, last = drain(pipeline.flush())
    return [row for batch in [*batches, *rest] for row in batch.to_pylist()], [step, last]


def members(results: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Input positions of the members of results with one struct per stream."""
    return [
        tuple(value["n"] for name, value in result.items() if name != "result_time")
        for result in results
    ]

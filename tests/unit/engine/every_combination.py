"""True results by trying every combination, and the engine checked against them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.settings import EngineSettings
from recalljoin.query.functions import Functions
from tests.unit.engine.inputs import members, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recalljoin.query.bound_query import BoundQuery

Row = tuple[Any, ...]


def true_results(
    rows: Sequence[Row], windows: Sequence[int], holds: Callable[..., bool]
) -> set[tuple[int, ...]]:
    """Positions of the members of all true results, by trying every combination."""
    numbered = [(n, row) for n, row in enumerate(rows)]
    streams = [[x for x in numbered if x[1][0] == s + 1] for s in range(len(windows))]
    found = set()
    for combination in itertools.product(*streams):
        newest = max(row[1] for _, row in combination)
        near = all(
            newest - row[1] <= window for (_, row), window in zip(combination, windows, strict=True)
        )
        if near and holds(*(row[2:] for _, row in combination)):
            found.add(tuple(n for n, _ in combination))
    return found


def disordered(
    m: int, n: int, values: Callable[[np.random.Generator], Row], *, seed: int = 3
) -> list[Row]:
    """``n`` tuples of ``m`` streams, some of them late."""
    rng = np.random.default_rng(seed)
    return [(i % m + 1, int(i - rng.choice([0, 0, 0, 2, 9])), *values(rng)) for i in range(n)]


def check(
    query: BoundQuery, rows: Sequence[Row], holds: Callable[..., bool], *, k: int = 1000
) -> int:
    """Rows and counts of a query must be the true results; with a K for all, in order."""
    windows = [stream.window for stream in query.streams]
    expected = true_results(rows, windows, holds)
    results, steps = run(query, rows, k=k)
    found = members(results)
    assert len(found) == len(set(found))
    assert set(found) == expected
    times = [row["result_time"] for row in results]
    assert times == sorted(times)
    counted = run(query, rows, k=k, settings=EngineSettings(rows=False))[1]
    assert sum(step.n_produced for step in counted) == len(expected)
    assert [step.n_join.tolist() for step in counted] == [step.n_join.tolist() for step in steps]
    # Most tuples late: what is not produced is counted as lost.
    for rows_too in (True, False):
        settings = EngineSettings(rows=rows_too, retention=1000)
        late = run(query, rows, k=0, settings=settings)[1]
        produced = sum(step.n_produced for step in late)
        assert produced + sum(step.n_lost for step in late) == len(expected)
    return len(expected)


def same_key(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def functions() -> Functions:
    """Functions of a user: the distance of the paper, a scalar one, one that takes nulls."""
    registry = Functions()

    @registry.register
    def dist(
        x1: np.ndarray[Any, Any],
        y1: np.ndarray[Any, Any],
        x2: np.ndarray[Any, Any],
        y2: np.ndarray[Any, Any],
    ) -> Any:
        return np.hypot(x1 - x2, y1 - y2)

    @registry.register(returns="boolean", scalar=True)
    def close(a: int, b: int) -> bool:
        return abs(a - b) <= 1

    @registry.register(returns="bigint", scalar=True, nulls="pass")
    def zero_if_null(a: int | None) -> int:
        return 0 if a is None else a

    return registry

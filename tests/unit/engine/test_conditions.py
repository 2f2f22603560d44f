"""Conditions of every kind, against every combination tried."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.step import drain
from tests.unit.engine.every_combination import (
    Row,
    check,
    disordered,
    functions,
    same_key,
    true_results,
)
from tests.unit.engine.inputs import bound, members, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

NUMBERS = {"x": pa.int64(), "y": pa.float64()}


def numbers(rng: np.random.Generator) -> Row:
    x = None if rng.integers(8) == 0 else int(rng.integers(-5, 6))
    y = [None, math.nan, math.inf, 0.5, -2.5, 1.0][int(rng.integers(6))]
    return (x, y)


def known(*values: Any) -> bool:
    return all(value is not None for value in values)


BANDS: dict[str, tuple[str, Callable[..., bool]]] = {
    "band": (
        "s1.x BETWEEN s2.x - 1 AND s2.x + 1",
        lambda a, b: known(a[0], b[0]) and abs(a[0] - b[0]) <= 1,
    ),
    "distance": (
        "sqrt(power(s1.x - s2.x, 2) + power(s1.y - s2.y, 2)) < 3",
        lambda a, b: (
            known(*a, *b) and math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) < 3
            if known(*a, *b) and not (a[1] == b[1] == math.inf)
            else False
        ),
    ),
    "NaN is the largest": (
        "s1.y >= s2.y",
        lambda a, b: (
            known(a[1], b[1]) and (math.isnan(a[1]) or (not math.isnan(b[1]) and a[1] >= b[1]))
        ),
    ),
    "key and band": (
        "s1.x = s2.x AND s1.y < s2.y + 1",
        lambda a, b: (
            known(*a, *b)
            and a[0] == b[0]
            and not math.isnan(a[1])
            and (math.isnan(b[1]) or a[1] < b[1] + 1)
        ),
    ),
    "leaf after an operation": (
        "s1.x = s2.x AND s1.x + s2.x <= s1.y * 2",
        lambda a, b: (
            known(a[0], a[1], b[0])
            and a[0] == b[0]
            and (math.isnan(a[1]) or a[0] + b[0] <= a[1] * 2)
        ),
    ),
}


@pytest.mark.parametrize("name", BANDS)
def test_band_conditions_and_distances(name: str) -> None:
    condition, holds = BANDS[name]
    query = bound(condition, windows=(20, 25), types=NUMBERS)
    assert check(query, disordered(2, 120, numbers), holds) > 0


OTHERS: dict[str, tuple[str, Callable[..., bool]]] = {
    "or": (
        "s1.x = s2.x OR s1.t = s2.t",
        lambda a, b: same_key(a[0], b[0]) or same_key(a[1], b[1]),
    ),
    "not": (
        "s1.x = s2.x AND NOT (s1.t = s2.t)",
        lambda a, b: same_key(a[0], b[0]) and known(a[1], b[1]) and a[1] != b[1],
    ),
    "in": (
        "s1.x + s2.x IN (0, 3)",
        lambda a, b: known(a[0], b[0]) and a[0] + b[0] in (0, 3),
    ),
    "is null": (
        "s1.x IS NULL AND s2.x IS NOT NULL AND s1.t = s2.t",
        lambda a, b: a[0] is None and b[0] is not None and same_key(a[1], b[1]),
    ),
    "null of both": (
        "s1.x + s2.x IS NULL",
        lambda a, b: a[0] is None or b[0] is None,
    ),
    "greatest": (
        "greatest(s1.x, s2.x) = 2 AND least(s1.x, s2.x) < 1",
        lambda a, b: (
            max((v for v in (a[0], b[0]) if v is not None), default=None) == 2
            and min(v for v in (a[0], b[0]) if v is not None) < 1
        ),
    ),
    "always false": ("s1.x = s2.x AND 1 > 2", lambda _a, _b: False),
    "one stream only": (
        "s1.x > 0 AND s2.t = 'a'",
        lambda a, b: known(a[0]) and a[0] > 0 and b[1] == "a",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_conditions_that_are_evaluated_on_columns(name: str) -> None:
    condition, holds = OTHERS[name]
    query = bound(condition, windows=(20, 25), types={"x": pa.int64(), "t": pa.string()})

    def draw(rng: np.random.Generator) -> Row:
        x = [None, -1, 0, 1, 2, 3][int(rng.integers(6))]
        return (x, [None, "a", "ab", "bx", "b", "A", ""][int(rng.integers(7))])

    count = check(query, disordered(2, 110, draw), holds)
    assert (count > 0) == (name != "always false")


def test_integers_beyond_the_exact_range_of_floats_are_compared_as_integers() -> None:
    query = bound("s1.x < s2.x", types={"x": pa.int64()})
    rows = [
        *[(1, 0, 1), (2, 0, 2), (1, 1, 2**53), (2, 1, 2**53 + 1)],
        *[(1, 2, 2**62), (2, 2, 2**62 + 1), (1, 2, -(2**63)), (2, 2, 2**63 - 1), (1, 3, 2**53)],
    ]
    check(query, rows, lambda a, b: a[0] < b[0])
    # The large ones may come when programs have been at work for long.
    pipeline = Pipeline(query)
    found = []
    for n, row in enumerate(rows):
        batches, _ = drain(pipeline.push(rows_of(query, [row], first=n), k=0))
        found += members([result for batch in batches for result in batch.to_pylist()])
    batches, _ = drain(pipeline.flush())
    found += members([result for batch in batches for result in batch.to_pylist()])
    expected = true_results(rows, (10, 10), lambda a, b: a[0] < b[0])
    assert set(found) == expected


def test_a_product_that_overflows_is_null_and_not_true() -> None:
    query = bound("s1.x * s2.x > 0", types={"x": pa.int64()})
    rows = [(1, 0, 2**40), (2, 0, 2**40), (2, 0, 2), (1, 0, 3)]
    assert check(query, rows, lambda a, b: 0 < a[0] * b[0] < 2**63) == 3


USERS: dict[str, tuple[str, Callable[..., bool]]] = {
    "vectorised": (
        "dist(s1.x, s1.y, s2.x, s2.y) < 3",
        lambda a, b: known(*a, *b) and math.hypot(a[0] - b[0], a[1] - b[1]) < 3,
    ),
    "scalar": ("close(s1.x, s2.x)", lambda a, b: known(a[0], b[0]) and abs(a[0] - b[0]) <= 1),
    "as a key": (
        "zero_if_null(s1.x) = zero_if_null(s2.x)",
        lambda a, b: (a[0] or 0) == (b[0] or 0),
    ),
}


@pytest.mark.parametrize("name", USERS)
def test_functions_of_the_user(name: str) -> None:
    condition, holds = USERS[name]

    def draw(rng: np.random.Generator) -> Row:
        x, y = numbers(rng)
        return (x, None if y is not None and not math.isfinite(y) else y)

    query = bound(condition, windows=(20, 25), types=NUMBERS, functions=functions())
    assert check(query, disordered(2, 120, draw), holds) > 0

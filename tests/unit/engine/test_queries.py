"""Queries of every kind, from two to eight streams, against every combination tried."""

from __future__ import annotations

import datetime
import itertools
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine import EngineSettings, Pipeline, arrivals_of, drain
from recalljoin.query import BoundQuery, Functions, parse_query
from tests.unit.engine.inputs import bound, members, rows_of, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def small(rng: np.random.Generator) -> Row:
    return (int(rng.integers(0, 3)),)


@pytest.mark.parametrize("m", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("shape", ["one class", "star", "chain"])
def test_two_to_eight_streams(m: int, shape: str) -> None:
    types = {f"c{i}": pa.int64() for i in range(m)}
    pairs = {
        "one class": [(i, "c0", i + 1, "c0") for i in range(m - 1)],
        "star": [(0, f"c{i}", i, f"c{i}") for i in range(1, m)],
        "chain": [(i, f"c{i}", i + 1, f"c{i}") for i in range(m - 1)],
    }[shape]
    condition = " AND ".join(f"s{i + 1}.{a} = s{j + 1}.{b}" for i, a, j, b in pairs)
    windows = [20 + 5 * i for i in range(m)]
    query = bound(condition, windows=windows, types=types)
    order = list(types)

    def values(rng: np.random.Generator) -> Row:
        return tuple(int(x < 3) for x in rng.integers(0, 10, m))

    def holds(*rows: Row) -> bool:
        return all(rows[i][order.index(a)] == rows[j][order.index(b)] for i, a, j, b in pairs)

    n = {2: 60, 3: 50, 4: 44, 5: 35, 6: 30, 7: 28, 8: 32}[m]
    assert check(query, disordered(m, n, values), holds) > 0


def test_eight_streams_and_no_condition() -> None:
    query = bound(None, windows=[30, 0, 5, 30, 30, 30, 30, 30])
    assert check(query, disordered(8, 24, small, seed=8), lambda *_: True) >= 0
    rows = [(s, 5, 0) for s in range(1, 9) for _ in range(2)]
    assert check(query, rows, lambda *_: True) == 2**8


def test_a_window_of_zero_joins_equal_times_only() -> None:
    query = bound("s1.a = s2.a", windows=(0, 0))
    rows = [(1, 5, 1), (2, 5, 1), (2, 6, 1), (1, 6, 1), (1, 5, 1), (2, 7, 1)]
    assert check(query, rows, lambda a, b: a == b) == 3


def test_windows_differ_per_stream() -> None:
    # s1 looks back 3, s2 looks back 10: who comes first decides.
    query = bound("s1.a = s2.a", windows=(3, 10))
    rows = [(1, 0, 1), (2, 4, 1), (2, 20, 1), (1, 24, 1), (1, 30, 1), (1, 31, 1)]
    assert check(query, rows, lambda a, b: a == b) == 2


D = Decimal
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int32(), [0, -1, 2**31 - 1, None]),
    "unsigned": (pa.uint64(), [0, 2**64 - 1, 2**63, None]),
    "string": (pa.string(), ["", "a", "A", "ä", None]),
    "large string": (pa.large_string(), ["x", "yy", None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["x", "yy", None]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x00\x00", None]),
    "date": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 1, 10**15, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(9, 2), [D("0.10"), D("-0.10"), D("9999999.99"), None]),
    "wide decimal": (pa.decimal128(38, 4), [D("1E+30"), D("-1E+30"), D("0.0001"), None]),
    "float": (pa.float64(), [0.0, -0.0, math.nan, 1.5, None]),
}


def same_key(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(name: str) -> None:
    kind, values = KEYS[name]
    query = bound("s1.a = s2.a AND s2.a = s3.a", windows=(20, 30, 25), types={"a": kind})

    def draw(rng: np.random.Generator) -> Row:
        return (values[int(rng.integers(len(values)))],)

    def holds(a: Row, b: Row, c: Row) -> bool:
        return same_key(a[0], b[0]) and same_key(b[0], c[0])

    assert check(query, disordered(3, 60, draw), holds) > 0


def test_keys_of_different_number_types() -> None:
    query = bound("s1.a = s2.b", types={"a": pa.int64(), "b": pa.float64()})
    large = [(1, 0, 2**53 + 1, 0.0), (2, 0, 0, float(2**53)), (2, 0, 0, 3.0), (1, 0, 3, 0.0)]
    results, _ = run(query, large, k=1000)
    assert (3, 2) in members(results)


def test_several_equalities_at_once() -> None:
    types = {"a": pa.int64(), "b": pa.string(), "c": pa.bool_()}
    condition = "s1.a = s2.a AND s1.b = s2.b AND s2.a = s3.a AND s3.c = s2.c AND lower(s3.b) = s1.b"
    query = bound(condition, windows=(15, 25, 20), types=types)

    def draw(rng: np.random.Generator) -> Row:
        return (int(rng.integers(2)), ["x", "X"][int(rng.integers(2))], bool(rng.integers(2)))

    def holds(one: Row, two: Row, three: Row) -> bool:
        return bool(
            one[0] == two[0] == three[0]
            and one[1] == two[1] == three[1].lower()
            and two[2] == three[2]
        )

    assert check(query, disordered(3, 80, draw), holds) > 0


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
    "like": (
        "concat(s1.t, s2.t) LIKE 'a%b_'",
        lambda a, b: (
            known(a[1], b[1])
            and (a[1] + b[1]).startswith("a")
            and len(a[1] + b[1]) >= 3
            and (a[1] + b[1])[-2] == "b"
        ),
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
    "coalesce": (
        "coalesce(s1.x, s2.x, 1) > 0",
        lambda a, b: next(v for v in (a[0], b[0], 1) if v is not None) > 0,
    ),
    "coalesced keys": (
        "coalesce(s1.x, -1) = coalesce(s2.x, -1)",
        lambda a, b: (-1 if a[0] is None else a[0]) == (-1 if b[0] is None else b[0]),
    ),
    "case": (
        "CASE WHEN s1.x > s2.x THEN s1.t = 'a' ELSE s2.t = 'b' END",
        lambda a, b: a[1] == "a" if known(a[0], b[0]) and a[0] > b[0] else b[1] == "b",
    ),
    "substring": (
        "substring(s1.t, 1, 1) = upper(substring(s2.t, 1, 1))",
        lambda a, b: known(a[1], b[1]) and a[1][:1] == b[1][:1].upper(),
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


def functions() -> Functions:
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


def test_a_cross_join_of_four_streams() -> None:
    query = bound(None, windows=(4, 0, 9, 6))
    assert check(query, disordered(4, 60, small), lambda *_: True) > 0


def test_a_key_between_two_streams_and_the_rest_free() -> None:
    query = bound("s2.a = s4.a", windows=(4, 7, 9, 6))
    assert check(query, disordered(4, 60, small), lambda _a, b, _c, d: b == d) > 0


def test_a_triangle_is_counted_by_enumerating() -> None:
    types = {"a": pa.int64(), "b": pa.int64()}
    condition = "s1.a = s2.b AND s2.a = s3.b AND s3.a = s1.b"
    query = bound(condition, windows=(30, 20, 25), types=types)
    assert not Pipeline(query, EngineSettings(rows=False)).operator.counts_by_tree

    def draw(rng: np.random.Generator) -> Row:
        return (int(rng.integers(3)), int(rng.integers(3)))

    def holds(a: Row, b: Row, c: Row) -> bool:
        return bool(a[0] == b[1] and b[0] == c[1] and c[0] == a[1])

    assert check(query, disordered(3, 80, draw), holds) > 0


PAPER: dict[str, tuple[str, Callable[..., bool]]] = {
    "two streams": (
        "SELECT * FROM s1 [5 SEC], s2 [5 SEC] WHERE dist(s1.x, s1.y, s2.x, s2.y) < 5",
        lambda a, b: math.hypot(a["x"] - b["x"], a["y"] - b["y"]) < 5,
    ),
    "three streams": (
        "SELECT * FROM s1 [5 SEC], s2 [5 SEC], s3 [5 SEC] "
        "WHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1 WITH RECALL 0.95 OVER 1 MINUTE",
        lambda a, b, c: a["a1"] == b["a1"] == c["a1"],
    ),
    "four streams": (
        "SELECT * FROM s1 [3 SEC], s2 [3 SEC], s3 [3 SEC], s4 [3 SEC] "
        "WHERE s1.a1 = s2.a1 AND s1.a2 = s3.a2 AND s1.a3 = s4.a3",
        lambda a, b, c, d: a["a1"] == b["a1"] and a["a2"] == c["a2"] and a["a3"] == d["a3"],
    ),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_three_queries_of_the_paper(name: str) -> None:
    text, holds = PAPER[name]
    names = ("x", "y", "a1", "a2", "a3")
    schema = pa.schema({"ts": pa.int64(), **dict.fromkeys(names, pa.int64()), "n": pa.int64()})
    query = parse_query(text, functions=functions())
    m = len(query.streams)
    rng = np.random.default_rng(1)
    tables: dict[str, pa.Table] = {}
    for stream in query.streams:
        n = {2: 40, 3: 30, 4: 14}[m]
        tables[stream.name] = pa.table(
            {
                "ts": np.arange(n) * 500 - rng.choice([0, 0, 700, 2500], n),
                **{c: rng.integers(0, 12 if c in "xy" else 3, n) for c in names},
                "n": np.arange(n),
            },
            schema=schema,
        )
    bound_query = query.bind(dict.fromkeys(tables, schema))
    pipeline = Pipeline(bound_query)
    arrivals = arrivals_of(bound_query, tables)
    batches, _ = drain(pipeline.push(arrivals, k=60_000))
    rest, _ = drain(pipeline.flush())
    found = members([row for batch in [*batches, *rest] for row in batch.to_pylist()])
    windows = [stream.window for stream in bound_query.streams]
    expected = set()
    for combination in itertools.product(*(t.to_pylist() for t in tables.values())):
        newest = max(row["ts"] for row in combination)
        near = zip(combination, windows, strict=True)
        if all(newest - row["ts"] <= w for row, w in near) and holds(*combination):
            expected.add(tuple(row["n"] for row in combination))
    assert len(found) == len(set(found))
    assert expected == set(found)
    assert expected

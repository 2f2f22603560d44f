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

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.query.text import parse_query
from tests.unit.engine.every_combination import Row, check, disordered, functions, same_key
from tests.unit.engine.inputs import bound, members, run

if TYPE_CHECKING:
    from collections.abc import Callable


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
    condition = (
        "s1.a = s2.a AND s1.b = s2.b AND s2.a = s3.a AND s3.c = s2.c AND least(s3.b, 'a') = s1.b"
    )
    query = bound(condition, windows=(15, 25, 20), types=types)

    def draw(rng: np.random.Generator) -> Row:
        return (int(rng.integers(2)), ["a", "X"][int(rng.integers(2))], bool(rng.integers(2)))

    def holds(one: Row, two: Row, three: Row) -> bool:
        return bool(
            one[0] == two[0] == three[0]
            and one[1] == two[1] == min(three[1], "a")
            and two[2] == three[2]
        )

    assert check(query, disordered(3, 80, draw), holds) > 0


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

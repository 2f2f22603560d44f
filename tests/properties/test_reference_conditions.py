"""The condition kinds say the same thing in SQL and in Python, by an independent SQL engine."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.reference.conditions import KINDS, Condition
from tests.strategies import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_text_and_predicate_agree(kind: Callable[[int], Condition], m: int) -> None:
    duckdb = pytest.importorskip("duckdb")
    condition = kind(m)
    drawn = random.Random(m)
    n_rows = 12 if m < 4 else 9
    streams: list[list[dict[str, object]]] = [
        [
            {"ts": drawn.randrange(4)}
            | {name: drawn.choice(domain.values) for name, domain in columns.items()}
            for _ in range(n_rows)
        ]
        for columns in condition.columns
    ]
    with duckdb.connect() as connection:
        for i, (columns, rows) in enumerate(zip(condition.columns, streams, strict=True)):
            types = {name: arrow_type(domain.type) for name, domain in columns.items()}
            schema = pa.schema({"ts": pa.int64(), **types, "n": pa.int64()})
            numbered = [{**row, "n": n} for n, row in enumerate(rows)]
            connection.register(f"s{i + 1}", pa.Table.from_pylist(numbered, schema=schema))
        names = [f"s{i + 1}" for i in range(m)]
        numbers = ", ".join(f"{name}.n" for name in names)
        found = connection.execute(
            f"SELECT {numbers} FROM {', '.join(names)} WHERE {condition.sql or 'true'}"
        ).fetchall()
    expected = [
        numbers
        for numbers in itertools.product(range(n_rows), repeat=m)
        if condition.predicate([streams[i][n] for i, n in enumerate(numbers)])
    ]
    assert sorted(found) == expected
    assert expected, "draws values that never meet"
    assert condition.sql is None or len(expected) < n_rows**m

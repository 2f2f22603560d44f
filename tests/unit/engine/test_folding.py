"""Results that leave with every tuple once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine import folding
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.folding import Folded
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import drain
from recalljoin.query.model import Query, Stream
from tests.unfolding import rows_of

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "text": pa.string()})


def bound(select: str = "*", condition: str = "s1.a = s2.a", m: int = 2) -> BoundQuery:
    streams = [Stream(f"s{i + 1}", window=1000) for i in range(m)]
    query = Query(streams=streams, condition=condition, select=select)
    return query.bind({each.name: SCHEMA for each in streams})


def stream(n: int, n_keys: int, seed: int, width: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)
    text = [f"{seed}-{i}".ljust(width) if i % 7 else None for i in range(n)]
    return pa.table(
        {"ts": np.arange(n), "a": random.integers(0, n_keys, n), "text": text}, schema=SCHEMA
    )


def results(query: BoundQuery, tables: dict[str, pa.Table], *, folded: bool) -> list[Any]:
    pipeline = Pipeline(query, EngineSettings(folded=folded))
    batches, _ = drain(pipeline.push(arrivals_of(query, tables), k=0))
    rest, _ = drain(pipeline.flush())
    assert isinstance(pipeline.output, Folded) == folded
    rows = (row for batch in [*batches, *rest] for row in rows_of(batch, pipeline).to_pylist())
    return sorted(rows, key=repr)


def test_folded_results_are_the_results() -> None:
    tables = {f"s{i + 1}": stream(400, 40, i) for i in range(3)}
    for select in (
        "*",
        "s2.text, s1.a AS b",
        "s1.text AS x, s3.ts",
    ):
        query = bound(select, "s1.a = s2.a AND s2.a = s3.a AND s1.ts + s3.ts > 100", m=3)
        found = results(query, tables, folded=True)
        assert len(found) > 1000
        assert found == results(query, tables, folded=False)


def test_results_of_many_streams_are_folded_too() -> None:
    tables = {f"s{i + 1}": stream(40, 8, i) for i in range(5)}
    condition = " AND ".join(f"s1.a = s{i}.a" for i in range(2, 6))
    for select in ("*", "s4.text, s5.ts, s1.a"):
        query = bound(select, condition, m=5)
        found = results(query, tables, folded=True)
        assert len(found) > 1000
        assert found == results(query, tables, folded=False)


def test_a_tuple_leaves_once_however_many_matches_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folding, "FEWEST", 10_000)
    query = bound()
    pipeline = Pipeline(query, EngineSettings(folded=True))
    tables = {"s1": stream(100, 1, 0), "s2": stream(100, 1, 1)}
    batches, _ = drain(pipeline.push(arrivals_of(query, tables), k=1000))
    assert not batches
    batches, _ = drain(pipeline.flush())
    n_results, n_tuples = 0, 0
    for batch in batches:
        n_results += len(batch.column("members_0")[0])
        n_tuples += len(batch.column("_0")[0]) + len(batch.column("_1")[0])
    assert (n_results, n_tuples) == (10_000, 200)


def test_many_results_leave_in_pieces_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FEWEST", 4)
    monkeypatch.setattr(folding, "MOST", 64)
    tables = {"s1": stream(200, 5, 0), "s2": stream(200, 5, 1)}
    pipeline = Pipeline(query := bound(), EngineSettings(folded=True))
    batches, _ = drain(pipeline.push(arrivals_of(query, tables), k=0))
    sizes = [len(batch.column("members_0")[0]) for batch in batches]
    assert sizes[:5] == [4, 8, 16, 32, 64]
    assert max(sizes) == 64
    assert results(query, tables, folded=True) == results(query, tables, folded=False)


def test_pieces_of_heavy_tuples_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "ENOUGH_BYTES", 20_000)
    tables = {"s1": stream(100, 1, 0, width=5000), "s2": stream(100, 1, 1, width=5000)}
    pipeline = Pipeline(query := bound(), EngineSettings(folded=True))
    batches, _ = drain(pipeline.push(arrivals_of(query, tables), k=0))
    rest, _ = drain(pipeline.flush())
    assert all(b.nbytes <= 20_000 or len(b.column("members_0")[0]) == 1 for b in [*batches, *rest])
    assert results(query, tables, folded=True) == results(query, tables, folded=False)


@pytest.mark.parametrize("select", ["*", "s1.text"])
@pytest.mark.parametrize("unit", [None, "s", "us", "ns"])
@pytest.mark.parametrize("how", ["left", "full", "semi", "anti"])
def test_rows_without_a_partner_are_folded_too(how: Any, unit: str | None, select: str) -> None:
    tables = {f"s{i + 1}": stream(300, 200, i) for i in range(2)}
    if unit is not None:
        kind = pa.timestamp(unit, "UTC")
        tables = {name: t.set_column(0, "ts", t["ts"].cast(kind)) for name, t in tables.items()}
    window = "100 s" if unit == "s" else "100 ms"
    streams = [Stream(name, window=window) for name in tables]
    query = Query(streams=streams, condition="s1.a = s2.a", select=select, how=how)
    bound_query = query.bind({name: table.schema for name, table in tables.items()})
    found = []
    for folded in (True, False):
        pipeline = Pipeline(bound_query, EngineSettings(arrival="tick", folded=folded))
        arrivals = arrivals_of(bound_query, tables)
        ticks = np.arange(len(arrivals)) // 50
        batches, _ = drain(pipeline.push_ticks(arrivals, ticks, n_ticks=12, k=0))
        rest, _ = drain(pipeline.flush())
        rows = (row for b in [*batches, *rest] for row in rows_of(b, pipeline).to_pylist())
        found.append(sorted(rows, key=repr))
    assert len(found[0]) > 20
    if unit != "ns":  # Spark's timestamps count microseconds
        assert found[0] == found[1]
    assert len(found[0]) == len(found[1])
    if select == "*" and how in ("left", "full"):
        assert any(row["s2"] is None for row in found[0])

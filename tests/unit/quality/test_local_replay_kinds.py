"""Outer, semi and anti joins, and results at once, of recorded streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin import advise, replay
from recalljoin.errors import InvalidSetting
from recalljoin.query.model import Query, Stream

ORDERS = pa.table(
    {"ts": [1000, 2000, 3000, 9000, 20_000], "arrival": [1000, 2000, 3000, 9000, 20_000],
     "id": [1, 2, None, 4, 5]}
)  # fmt: skip
PAYMENTS = pa.table(
    {"ts": [1500, 2500, 9500, 20_000], "arrival": [1500, 12_000, 9500, 20_000],
     "order_id": [1, 2, 7, 9]}
)  # fmt: skip
INPUTS = {"o": ORDERS, "p": PAYMENTS}


def text(join: str, select: str = "o.id, p.order_id", where: str = "") -> str:
    return f"SELECT {select} FROM o [2 SEC] {join} p [2 SEC] ON o.id = p.order_id {where}"


def rows(query: str, **settings: Any) -> list[tuple[Any, ...]]:
    joined = replay(query, INPUTS, **{"tick": "1 second", **settings})
    return [tuple(row.values()) for row in joined.table().to_pylist()]


def test_an_outer_join_shows_tuples_without_a_partner_at_their_verdict() -> None:
    # The payment of order 2 comes ten seconds late.
    assert rows(text("LEFT JOIN"), k=0) == [
        (1, 1, 1500), (2, None, 4000), (None, None, 5000), (4, None, 11_000), (5, None, 22_000),
    ]  # fmt: skip
    assert rows(text("LEFT JOIN"), k="10 seconds")[:2] == [(1, 1, 1500), (2, 2, 2500)]


def test_false_nulls_are_counted() -> None:
    joined = replay(text("LEFT JOIN"), INPUTS, tick="1 second", k=0)
    assert (joined.nulls, joined.false_nulls, joined.null_precision) == (4, 1, 0.75)
    assert (joined.produced, joined.lost, joined.recall) == (4, 1, 0.8)
    assert "4 nulls, 1 of them false" in repr(joined)


def test_the_other_kinds() -> None:
    waits = {"k": "10 seconds"}
    assert rows(text("LEFT SEMI JOIN", "o.id"), **waits) == [(1, 1000), (2, 2000)]
    anti = rows(text("LEFT ANTI JOIN", "o.id"), **waits)
    assert anti == [(None, 5000), (4, 11_000), (5, 22_000)]
    right = rows(text("RIGHT JOIN"), **waits)
    assert right == [(1, 1, 1500), (2, 2, 2500), (None, 7, 11_500), (None, 9, 22_000)]
    assert len(rows(text("FULL OUTER JOIN"), **waits)) == 7


def test_structs_of_absent_partners_are_null() -> None:
    joined = replay(text("LEFT JOIN", "*"), INPUTS, tick="1 second", k="10 seconds").table()
    assert joined.column("p").is_null().to_pylist() == [False, False, True, True, True]
    only = replay(text("LEFT ANTI JOIN", "*"), INPUTS, tick="1 second", k=0).table()
    assert only.column_names == ["o", "result_time"]


def test_where_applies_to_the_rows_that_come_out() -> None:
    alone = rows(text("LEFT JOIN", where="WHERE p.order_id IS NULL"), k="10 seconds")
    assert [row[0] for row in alone] == [None, 4, 5]
    # In ON the same says which pairs there are, and every order comes out.
    kept = text("LEFT JOIN").replace("ON ", "ON o.id > 1 AND ")
    assert len(rows(kept, k="10 seconds")) == 5


def test_a_count_has_every_row_that_left() -> None:
    assert rows(text("LEFT JOIN", "count(*)"), k=0) == [(5,)]


def test_results_at_once_are_the_same_rows() -> None:
    for join in ("JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"):
        query = text(join, "o.id" if "SEMI" in join or "ANTI" in join else "o.id, p.order_id")
        ordered = rows(query, k="3 seconds")
        assert sorted(rows(query, k="3 seconds", emit="eager"), key=repr) == sorted(
            ordered, key=repr
        )


@pytest.mark.parametrize(("join", "emit"), [("LEFT JOIN", "ordered"), ("JOIN", "eager")])
def test_without_ticks_they_are_refused_with_the_reason(join: str, emit: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"sits in its buffer.*length of a `tick`"):
        replay(text(join), INPUTS, emit=emit, k=0)


def orders_and_payments(seed: int, n: int = 6000) -> dict[str, pa.Table]:
    """Orders, a fifth of them never paid; payments come up to 20 s late, one in eight of them."""
    rng = np.random.default_rng(seed)
    ordered = np.cumsum(rng.exponential(50, n)).astype(np.int64)
    paid = np.flatnonzero(rng.random(n) < 0.8)
    at = ordered[paid] + rng.integers(0, 2000, len(paid))
    late = np.where(rng.random(len(paid)) < 0.125, rng.exponential(5000, len(paid)), 0)
    late = np.minimum(late, 20_000).astype(np.int64)
    orders = pa.table({"ts": ordered, "arrival": ordered + 50, "id": np.arange(n)})
    payments = pa.table({"ts": at, "arrival": at + 50 + late, "order_id": paid})
    # A heartbeat keeps the slower stream going to the end.
    return {"o": orders, "p": payments.sort_by("arrival")}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("emit", ["ordered", "eager"])
def test_nulls_are_as_precise_as_asked_for(seed: int, emit: Any) -> None:
    inputs = orders_and_payments(seed)
    found = {}
    for precision in (0.7, 0.99):
        query = text("LEFT JOIN", "count(*)")
        query += f" WITH RECALL 0.8 NULL PRECISION {precision} OVER 30 SECONDS"
        joined = replay(query, inputs, tick="1 second", emit=emit)
        assert joined.adaptation is not None
        assert joined.null_precision >= precision - 0.01
        assert joined.recall >= 0.79
        found[precision] = joined.adaptation.mean_k
    assert found[0.99] > 1.3 * found[0.7]


def test_a_sample_tells_the_wait_for_precise_nulls() -> None:
    inputs = orders_and_payments(5)
    advice = {p: advise(_asking(p), inputs) for p in (0.7, 0.99)}
    assert advice[0.99].k_ms > advice[0.7].k_ms
    assert advice[0.99].nulls is not None
    assert advice[0.99].to_json()["null_precision"] == 0.99
    joined = replay(_query(), inputs, tick="50 ms", k=round(advice[0.99].k_ms))
    assert joined.null_precision >= 0.985
    assert replay(_query(), inputs, tick="50 ms", k=0).null_precision < 0.9


def _query() -> Query:
    streams = [Stream("o", window="2 s"), Stream("p", window="2 s")]
    return Query(streams=streams, condition="o.id = p.order_id", how="left")


def _asking(precision: float) -> str:
    return text("LEFT JOIN", "count(*)") + f"WITH RECALL 0.8 NULL PRECISION {precision}"

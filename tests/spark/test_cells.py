"""The grid of cells: shares, copies, owners, keys."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.query.model import Query, Stream
from recalljoin.spark.cells import Layout, make_grid, spread_keys
from recalljoin.spark.hashing import hashed, spark_hash, to_share

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "b": pa.string()})


def bound(m: int, condition: str | None) -> BoundQuery:
    names = [f"s{i + 1}" for i in range(m)]
    query = Query(streams=[Stream(name, window="5 s") for name in names], condition=condition)
    return query.bind(dict.fromkeys(names, SCHEMA))


def test_one_common_key_splits_all_streams_and_copies_none() -> None:
    grid = make_grid(bound(3, "s1.a = s2.a AND s2.a = s3.a"), 8)
    assert grid.shares == (8,)
    assert [grid.n_copies(s) for s in range(3)] == [1, 1, 1]


def test_a_chain_of_two_keys_copies_the_outer_streams() -> None:
    grid = make_grid(bound(3, "s1.a = s2.a AND s2.b = s3.b"), 8)
    assert sorted(grid.shares) == [2, 4]
    assert grid.n_copies(1) == 1
    assert grid.n_copies(0) * grid.n_copies(2) == 8


def test_without_an_equality_each_stream_has_a_dimension() -> None:
    grid = make_grid(bound(2, "s1.a < s2.a"), 4)
    assert grid.shares == (2, 2)
    assert [grid.n_copies(s) for s in range(2)] == [2, 2]


def test_cells_that_would_only_hold_copies_are_not_used() -> None:
    # 7 cells as 7 x 1 give a cell 1/7 + 1/7 + 1 tuples, 3 x 2 give it 1/3 + 1/6 + 1/2.
    grid = make_grid(bound(3, "s1.a = s2.a AND s2.b = s3.b"), 7)
    assert grid.n_cells == 6


@pytest.mark.parametrize("condition", ["s1.a = s2.a", "s1.a < s2.a", None])
@pytest.mark.parametrize("n_cells", [1, 2, 3, 8])
def test_every_tuple_has_one_owner_among_its_copies(condition: str | None, n_cells: int) -> None:
    query = bound(2, condition)
    grid = make_grid(query, n_cells)
    ts = np.arange(200)
    table = pa.table({"ts": ts, "a": ts % 17, "b": [str(t) for t in ts]}, schema=SCHEMA)
    for s in range(2):
        cells = grid.cells_of(query, s, table, ts)
        assert cells.shape == (200, grid.n_copies(s))
        owners = np.array([[grid.owns(int(cell), s) for cell in row] for row in cells])
        assert (owners.sum(axis=1) == 1).all()
        assert all(len(set(row)) == len(row) for row in cells.tolist())


def test_null_keys_are_spread_over_cells() -> None:
    query = bound(2, "s1.a = s2.a")
    grid = make_grid(query, 4)
    ts = np.arange(400)
    table = pa.table({"ts": ts, "a": pa.nulls(400, pa.int64()), "b": ["x"] * 400}, schema=SCHEMA)
    cells = Counter(grid.cells_of(query, 0, table, ts)[:, 0].tolist())
    assert set(cells) == {0, 1, 2, 3}
    assert max(cells.values()) < 160


def test_keys_of_different_types_meet_in_one_cell() -> None:
    query = Query(
        streams=[Stream("s1", window="5 s"), Stream("s2", window="5 s")], condition="s1.a = s2.a"
    ).bind(
        {
            "s1": pa.schema({"ts": pa.int64(), "a": pa.int32()}),
            "s2": pa.schema({"ts": pa.int64(), "a": pa.float64()}),
        }
    )  # fmt: skip
    grid = make_grid(query, 8)
    numbers = np.arange(50)
    one = pa.table({"ts": numbers, "a": pa.array(numbers, pa.int32())})
    other = pa.table({"ts": numbers, "a": pa.array(numbers, pa.float64())})
    assert (
        grid.cells_of(query, 0, one, numbers).tolist()
        == grid.cells_of(query, 1, other, numbers).tolist()
    )


@pytest.mark.parametrize("n_cells", [0, -1, 5000])
def test_an_impossible_number_of_cells_is_refused(n_cells: int) -> None:
    with pytest.raises(InvalidSetting, match=r"`cells` must be between 1 and 1024, got"):
        make_grid(bound(2, "s1.a = s2.a"), n_cells)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12])
def test_group_keys_fall_into_as_many_partitions_as_there_are_groups(n: int) -> None:
    assert [spark_hash(key) % n for key in spread_keys(n)] == list(range(n))


def test_cells_are_dealt_out_evenly_to_groups() -> None:
    layout = Layout(make_grid(bound(2, "s1.a = s2.a"), 8), 3)
    assert sorted(Counter(layout.keys).values()) == [2, 3, 3]


def test_equal_texts_have_equal_hashes_wherever_they_lie() -> None:
    values = ["", "a", "b", "ab", "ba", None, "a", "x" * 300, ""]
    whole = hashed(pa.array(values))
    part = hashed(pa.array(["z", *values]).slice(1))
    assert whole.tolist() == part.tolist()
    assert len(set(whole.tolist())) == 7


def test_hashes_of_texts_and_numbers_are_spread_evenly() -> None:
    for values in (pa.array(range(40_000)), pa.array([f"id-{i:06d}" for i in range(40_000)])):
        counts = np.bincount(to_share(hashed(values), 8), minlength=8)
        assert counts.min() > 4_600
        assert counts.max() < 5_400


def test_wide_decimals_binary_and_nested_values_can_be_hashed() -> None:
    from decimal import Decimal

    digits = ["1" + "0" * 30, "1" + "0" * 29 + "1"]
    wide = pa.array([Decimal(d) for d in digits], pa.decimal128(38, 0))
    assert len(set(hashed(wide).tolist())) == 2
    assert len(set(hashed(pa.array([b"a", b"b", b"a"])).tolist())) == 2
    assert len(hashed(pa.array([[1], [2, 3]]))) == 2

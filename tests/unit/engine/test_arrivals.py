"""From tables to arrivals: order, units, rows that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.times import NULL_TIME, TIME_OUT_OF_RANGE, times_of
from recalljoin.errors import InvalidSetting
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.durations import TimeUnit

MAX = 2**61


def query_for(
    *schemas: pa.Schema, arrival: str | None = "n", time_unit: TimeUnit = "ms"
) -> BoundQuery:
    names = [f"s{i + 1}" for i in range(len(schemas))]
    streams = [
        Stream(name, window=10, arrival=arrival if arrival in schema.names else None)
        for name, schema in zip(names, schemas, strict=True)
    ]
    bound = dict(zip(names, schemas, strict=True))
    return Query(streams=streams).bind(bound, time_unit=time_unit)


def arrivals(*tables: pa.Table, **options: Any) -> Arrivals:
    query = query_for(*(table.schema for table in tables), **options)
    return arrivals_of(query, {f"s{i + 1}": table for i, table in enumerate(tables)})


def order(of: Arrivals) -> list[tuple[int, int]]:
    """Stream and timestamp of each arrival."""
    return list(zip(of.stream.tolist(), of.ts.tolist(), strict=True))


def test_streams_are_merged_by_arrival_ties_by_stream_then_row() -> None:
    one = pa.table({"ts": [1, 2, 3], "n": [5, 7, 7]})
    two = pa.table({"ts": [4, 5, 6], "n": [5, 5, 7]})
    assert order(arrivals(one, two)) == [(0, 1), (1, 4), (1, 5), (0, 2), (0, 3), (1, 6)]


def test_without_arrival_columns_tables_arrive_in_step() -> None:
    one, two = pa.table({"ts": [1, 2, 3]}), pa.table({"ts": [4, 5]})
    assert order(arrivals(one, two)) == [(0, 1), (1, 4), (0, 2), (1, 5), (0, 3)]
    assert arrivals(one, two).arrival is None


def test_a_table_need_not_be_in_order_of_arrival() -> None:
    one = pa.table({"ts": [3, 1, 2], "n": [30, 10, 20], "a": ["c", "a", "b"]})
    two = pa.table({"ts": [9], "n": [15]})
    merged = arrivals(one, two)
    assert order(merged) == [(0, 1), (1, 9), (0, 2), (0, 3)]
    # The table is put in that order too, so that rows are numbered as they arrive.
    assert merged.tables[0]["a"].to_pylist() == ["a", "b", "c"]
    assert merged.row.tolist() == [0, 0, 1, 2]
    assert merged.arrival is not None
    assert merged.arrival.tolist() == [10, 15, 20, 30]


def test_arrival_is_for_all_streams_or_for_none() -> None:
    with pytest.raises(InvalidSetting) as caught:
        arrivals(pa.table({"ts": [1], "n": [1]}), pa.table({"ts": [1]}))
    assert str(caught.value) == (
        "`arrival` must be given for all streams or for none; `s2` has none"
    )


def test_a_null_arrival_is_refused() -> None:
    with pytest.raises(InvalidSetting) as caught:
        arrivals(pa.table({"ts": [1, 2], "n": [1, None]}), pa.table({"ts": [1], "n": [1]}))
    assert str(caught.value) == "`arrival` of `s1` must not be null; column 'n' is"


def test_arrivals_in_different_units_are_one_time() -> None:
    one = pa.table({"ts": [1, 3], "n": pa.array([1, 3], pa.timestamp("ms"))})
    two = pa.table({"ts": [2, 4], "n": pa.array([2000, 4000], pa.timestamp("us"))})
    assert [ts for _, ts in order(arrivals(one, two))] == [1, 2, 3, 4]


def test_a_tick_is_as_long_as_it_says_whatever_the_unit_of_arrival() -> None:
    # The query counts in ms, because its times do.
    arrived = pa.array([7000, 106_999, 107_000, 400_000], pa.timestamp("us"))
    one = pa.table({"ts": pa.array([1, 2, 3, 4], pa.timestamp("ms")), "n": arrived})
    two = pa.table({"ts": pa.array([1], pa.timestamp("ms")), "n": arrived.slice(0, 1)})
    assert ticks_of(arrivals(one, two), 100).tolist() == [0, 0, 0, 1, 3]


def test_ticks_are_counted_from_the_first_arrival_of_all_inputs() -> None:
    one = pa.table({"ts": [1, 2, 3], "n": [-150, -51, 49]})
    two = pa.table({"ts": [1, 2], "n": [-120, 251]})
    assert ticks_of(arrivals(one, two), 100).tolist() == [0, 0, 0, 1, 4]


def test_ticks_need_arrival_times_and_a_length() -> None:
    one = pa.table({"ts": [1]})
    with pytest.raises(InvalidSetting, match="every stream needs an `arrival` column"):
        ticks_of(arrivals(one, one), 100)
    two = pa.table({"ts": [1], "n": [1]})
    with pytest.raises(InvalidSetting, match="`tick` must be positive, got 0"):
        ticks_of(arrivals(two, two), 0)


@pytest.mark.parametrize(
    ("values", "kind", "unit", "expected"),
    [
        ([1, -1], pa.int64(), "ms", [1, -1]),
        ([1, 255], pa.uint8(), "ms", [1, 255]),
        ([MAX, -MAX], pa.int64(), "ns", [MAX, -MAX]),
        ([MAX], pa.uint64(), "ms", [MAX]),
        ([3, -2], pa.timestamp("s"), "ms", [3000, -2000]),
        ([3, -2], pa.timestamp("s", "Europe/Berlin"), "ns", [3 * 10**9, -2 * 10**9]),
        ([3, -2], pa.timestamp("us", "UTC"), "us", [3, -2]),
        ([MAX // 1000], pa.timestamp("ms"), "us", [MAX // 1000 * 1000]),
    ],
)
def test_times_are_integers_in_the_unit_of_the_query(
    values: list[int], kind: pa.DataType, unit: str, expected: list[int]
) -> None:
    column = pa.chunked_array([pa.array(values, pa.int64()).cast(kind), pa.nulls(1, kind)])
    times, known = times_of(column, unit, unit)
    assert times[:-1].tolist() == expected
    assert known.tolist() == [True] * len(values) + [False]


FAULTY = [
    (pa.int64(), MAX + 1, "ms"),
    (pa.int64(), -MAX - 1, "ms"),
    (pa.int64(), 2**63 - 1, "ms"),
    (pa.int64(), -(2**63), "ms"),
    (pa.uint64(), MAX + 1, "ms"),
    (pa.uint64(), 2**64 - 1, "ms"),
    (pa.timestamp("s"), MAX // 1000 + 1, "us"),
    (pa.timestamp("s"), 2**62, "us"),
    (pa.timestamp("s"), -(2**63), "us"),
    (pa.timestamp("s"), 2**63 - 1, "us"),
    (pa.timestamp("us"), MAX + 1, "us"),
]


@pytest.mark.parametrize(("kind", "value", "unit"), FAULTY)
def test_a_time_absurdly_far_away_is_refused_and_can_be_read_back(
    kind: pa.DataType, value: int, unit: str
) -> None:
    raw = pa.array([5, value, 6], pa.uint64() if value > 2**63 - 1 else pa.int64())
    one = pa.table({"ts": raw.cast(kind), "a": [1, 2, 3]})
    if pa.types.is_timestamp(kind):
        # A second stream in the finer unit makes that the unit of the query.
        two = pa.table({"ts": pa.array([7], pa.timestamp(unit)), "a": [9]})
    else:
        two = pa.table({"ts": [7], "a": [9]})
    found = arrivals(one, two)
    assert found.tables[0]["a"].to_pylist() == [1, 3]
    assert len(found) == 3
    assert set(found.refused) == {("s1", TIME_OUT_OF_RANGE)}
    assert found.refused["s1", TIME_OUT_OF_RANGE]["a"].to_pylist() == [2]


def test_refused_rows_are_kept_by_stream_and_reason() -> None:
    one = pa.table({"ts": [None, 1, 2**62], "n": [1, 2, 3]})
    two = pa.table({"ts": pa.array([None, None], pa.int64()), "n": [1, 2]})
    found = arrivals(one, two)
    assert order(found) == [(0, 1)]
    counted = {place: rows.num_rows for place, rows in found.refused.items()}
    assert counted == {("s1", NULL_TIME): 1, ("s1", TIME_OUT_OF_RANGE): 1, ("s2", NULL_TIME): 2}


def test_a_slice_is_a_part_of_the_input_with_its_own_rows() -> None:
    one = pa.table({"ts": [1, 2, 3, 4], "n": [0, 2, 4, 6]})
    two = pa.table({"ts": [10, 20, 30], "n": [1, 3, 5]})
    whole = arrivals(one, two)
    part = whole.slice(2, 5)
    assert order(part) == [(0, 2), (1, 20), (0, 3)]
    assert [table["ts"].to_pylist() for table in part.tables] == [[2, 3], [20]]
    assert part.row.tolist() == [0, 0, 1]
    assert part.arrival is not None
    assert part.arrival.tolist() == [2, 3, 4]
    nothing = whole.slice(3, 3)
    assert len(nothing) == 0
    assert [table.num_rows for table in nothing.tables] == [0, 0]
    assert order(whole.slice(5, 100)) == [(1, 30), (0, 4)]


def test_an_input_may_be_empty_and_in_many_chunks() -> None:
    one = pa.table({"ts": pa.chunked_array([[1], [], [2, 3]], pa.int64())})
    two = pa.table({"ts": pa.array([], pa.int64())})
    assert order(arrivals(one, two)) == [(0, 1), (0, 2), (0, 3)]
    assert len(arrivals(two, two)) == 0
    assert ticks_of(arrivals(pa.table({"ts": [0], "n": [3]}), pa.table({"ts": [0], "n": [9]})), 5)[
        -1
    ] == np.int64(1)

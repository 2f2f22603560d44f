from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from recalljoin.query.arrow_types import canonical, common, family

CANONICAL = [
    pa.bool_(),
    pa.int64(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 10),
    pa.float32(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("ms"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.duration("s"),
    pa.duration("ns"),
    pa.time64("ns"),
    pa.null(),
]


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        *((t, pa.int64()) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        *((t, pa.int64()) for t in (pa.uint8(), pa.uint16(), pa.uint32())),
        (pa.uint64(), pa.decimal128(20, 0)),
        *((t, pa.float32()) for t in (pa.float16(), pa.float32())),
        (pa.float64(), pa.float64()),
        *((t, pa.string()) for t in (pa.string(), pa.large_string(), pa.string_view())),
        *((t, pa.binary()) for t in (pa.binary(), pa.large_binary(), pa.binary_view())),
        (pa.binary(16), pa.binary()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.uuid(), pa.binary()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal64(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(5, -2), pa.decimal128(7, 0)),
        (pa.decimal256(20, 2), pa.decimal128(20, 2)),
        (pa.decimal256(50, 2), None),
        *((t, pa.date32()) for t in (pa.date32(), pa.date64())),
        *((t, pa.time64("ns")) for t in (pa.time32("s"), pa.time64("us"))),
        (pa.list_(pa.int64()), None),
        (pa.struct({"x": pa.int64()}), None),
        (pa.map_(pa.string(), pa.int64()), None),
    ],
)
def test_columns_of_many_types_are_computed_in_few(
    given: pa.DataType, computed: pa.DataType | None
) -> None:
    assert canonical(given) == computed
    assert computed is None or canonical(computed) == computed


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.decimal128(10, 2), pa.float64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.int64(), pa.float64()),
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (pa.decimal128(10, 2), pa.decimal128(6, 4), pa.decimal128(12, 4)),
        (pa.decimal128(38, 0), pa.decimal128(10, 10), None),
        (pa.date32(), pa.timestamp("s"), None),
        (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("s", "UTC"), pa.timestamp("s"), None),
        (pa.timestamp("s", "UTC"), pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.duration("s"), pa.duration("us"), pa.duration("us")),
        (pa.duration("s"), pa.int64(), None),
        (pa.string(), pa.binary(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.null(), pa.string(), pa.string()),
    ],
)
def test_two_types_meet_in_one_that_holds_both(
    one: pa.DataType, other: pa.DataType, met: pa.DataType | None
) -> None:
    assert common(one, other) == met


@pytest.mark.parametrize(
    ("one", "other"), list(itertools.combinations_with_replacement(CANONICAL, 2))
)
def test_which_of_two_comes_first_matters_to_the_zone_at_most(
    one: pa.DataType, other: pa.DataType
) -> None:
    met, reverse = common(one, other), common(other, one)
    assert met == reverse
    assert met is None or common(met, one) == met


def test_exact_and_inexact_numbers_are_of_different_families() -> None:
    exact = {family(t) for t in (pa.int64(), pa.decimal128(5, 2))}
    assert exact == {"exact number"}
    assert family(pa.float64()) == "floating point"
    assert (
        family(pa.timestamp("s")) == family(pa.timestamp("ns")) != family(pa.timestamp("s", "UTC"))
    )
    assert family(pa.string()) != family(pa.binary())

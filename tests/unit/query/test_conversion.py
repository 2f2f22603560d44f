"""CAST between all types that have one, value by value."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.query import Column, evaluate
from recalljoin.query.arrow_types import canonical
from recalljoin.query.coercion import Mismatch, computable
from recalljoin.query.rules import cast

NAN = float("nan")
MIDNIGHT = datetime(2024, 1, 1)  # noqa: DTZ001 - wall clock
SAMPLES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    pa.int8(): [1, -128, None],
    pa.int16(): [1, None],
    pa.int32(): [1, 2**31 - 1, None],
    pa.int64(): [1, 2**63 - 1, -(2**63), None],
    pa.uint8(): [255, None],
    pa.uint16(): [1, None],
    pa.uint32(): [2**32 - 1, None],
    pa.uint64(): [2**64 - 1, 0, None],
    pa.float16(): [np.float16(1.5), None],
    pa.float32(): [1.5, NAN, None],
    pa.float64(): [1.5, -0.0, 1e300, float("inf"), NAN, None],
    pa.decimal32(5, 2): [Decimal("1.25"), None],
    pa.decimal128(10, 2): [Decimal("1.25"), Decimal("-99999999.99"), None],
    pa.decimal128(5, -2): [Decimal("1200"), None],
    pa.decimal256(50, 10): [Decimal("1.25"), None],
    pa.string(): ["1", "abc", "2024-01-01", "true", " 5 ", "1.5", "", None],
    pa.large_string(): ["1", None],
    pa.string_view(): ["1", None],
    pa.binary(): [b"1", None],
    pa.large_binary(): [b"1", None],
    pa.binary_view(): [b"1", None],
    pa.binary(2): [b"12", None],
    pa.date32(): [date(2024, 1, 1), None],
    pa.date64(): [date(2024, 1, 1), None],
    pa.timestamp("s"): [MIDNIGHT, None],
    pa.timestamp("ns"): [MIDNIGHT, None],
    pa.timestamp("us", "Europe/Berlin"): [MIDNIGHT, None],
    pa.duration("ms"): [timedelta(seconds=1), None],
    pa.time32("s"): [time(1, 2, 3), None],
    pa.time64("us"): [time(1, 2, 3), None],
    pa.null(): [None],
}
TARGETS = [
    pa.bool_(),
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 1),
    pa.decimal256(60, 5),
    pa.string(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
]


def convert(values: list[Any], source: pa.DataType, target: pa.DataType) -> pa.Array:
    array = pa.array(values, source)
    expression = cast(Column(0, "x", source), target)
    return evaluate(expression, lambda _stream, _name: array, len(array))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(SAMPLES, TARGETS)), ids=str)
def test_every_cast_is_refused_or_gives_its_type_for_every_value(
    source: pa.DataType, target: pa.DataType
) -> None:
    values = SAMPLES[source]
    try:
        result = convert(values, source, target)
    except Mismatch as refusal:
        assert str(refusal) == (  # noqa: PT017 - which of the two it is differs by type
            f"{canonical(source)} cannot be converted to {target}; CAST takes numbers, text, "
            "booleans, dates and timestamps where that makes sense"
        )
        return
    result.validate(full=True)
    assert result.type == target
    assert len(result) == len(values)
    assert all(
        got is None for got, value in zip(result.to_pylist(), values, strict=True) if value is None
    )


@pytest.mark.parametrize("source", [*SAMPLES], ids=str)
def test_computing_in_fewer_types_loses_no_value(source: pa.DataType) -> None:
    array = pa.array(SAMPLES[source], source)
    result = evaluate(computable(Column(0, "x", source)), lambda _s, _n: array, len(array))
    assert result.type == canonical(source)
    assert result.null_count == array.null_count


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1.9, -1.9, NAN, 1e300], pa.float64(), pa.int64(), [1, -1, None, None]),
        ([2.0**63, -9.3e18, -(2.0**63)], pa.float64(), pa.int64(), [None, None, -(2**63)]),
        ([127.9, 128.0], pa.float64(), pa.int8(), [127, None]),
        ([300, 5], pa.int64(), pa.int8(), [None, 5]),
        ([2**53 + 1], pa.int64(), pa.float64(), [float(2**53)]),
        (
            [Decimal("1.25"), Decimal("-1.25")],
            pa.decimal128(5, 2),
            pa.decimal128(5, 1),
            [Decimal("1.3"), Decimal("-1.3")],
        ),
        ([Decimal("999.96")], pa.decimal128(5, 2), pa.decimal128(4, 1), [None]),
        ([Decimal("1.99"), Decimal("-1.99")], pa.decimal128(5, 2), pa.int64(), [1, -1]),
        ([Decimal("11.10")], pa.decimal128(5, 2), pa.float64(), [11.1]),
        (
            [Decimal("12345678901234567890.1")],
            pa.decimal128(38, 1),
            pa.float64(),
            [12345678901234567890.1],
        ),
        ([Decimal("0.1")], pa.decimal256(60, 1), pa.float64(), [0.1]),
        ([0.1, NAN, 1e10], pa.float64(), pa.decimal128(5, 2), [Decimal("0.10"), None, None]),
        ([5, 123], pa.int64(), pa.decimal128(3, 1), [Decimal("5.0"), None]),
        (
            ["7", " 7 ", "+7", "7.0", "x", "99999999999999999999"],
            pa.string(),
            pa.int64(),
            [7, 7, 7, None, None, None],
        ),
        (
            ["1e3", ".5", "NaN", "-inf", "1,5"],
            pa.string(),
            pa.float64(),
            [1000.0, 0.5, NAN, float("-inf"), None],
        ),
        (
            ["1.25", "1.35", "x", "999.96"],
            pa.string(),
            pa.decimal128(4, 1),
            [Decimal("1.3"), Decimal("1.4"), None, None],
        ),
        (
            ["true", "FALSE", "1", "0", "yes"],
            pa.string(),
            pa.bool_(),
            [True, False, True, False, None],
        ),
        (
            ["2024-02-29", "2023-02-29", "2024-2-9", "2024-02-29 12:00"],
            pa.string(),
            pa.date32(),
            [date(2024, 2, 29), None, None, None],
        ),
        (
            ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z"],
            pa.string(),
            pa.timestamp("us"),
            [MIDNIGHT, MIDNIGHT, None],
        ),
        (
            ["2024-01-01 00:00:00", "2024-01-01T01:00:00+01:00"],
            pa.string(),
            pa.timestamp("us", "UTC"),
            [MIDNIGHT.replace(tzinfo=UTC)] * 2,
        ),
        ([0, 1, -1], pa.int64(), pa.bool_(), [False, True, True]),
        ([Decimal("0.00"), Decimal("0.01")], pa.decimal128(5, 2), pa.bool_(), [False, True]),
        ([True, False], pa.bool_(), pa.decimal128(5, 2), [Decimal("1.00"), Decimal("0.00")]),
        ([1.5, 1.0], pa.float64(), pa.string(), ["1.5", "1"]),
        (
            [datetime(1969, 12, 31, 23, tzinfo=UTC)],
            pa.timestamp("us", "UTC"),
            pa.date32(),
            [date(1969, 12, 31)],
        ),
        (
            [datetime(2023, 12, 31, 23, 30, tzinfo=UTC)],
            pa.timestamp("us", "Europe/Berlin"),
            pa.date32(),
            [date(2024, 1, 1)],
        ),
        (
            [date(2024, 1, 1)],
            pa.date32(),
            pa.timestamp("us", "Europe/Berlin"),
            [datetime(2023, 12, 31, 23, tzinfo=UTC)],
        ),
    ],
)
def test_values_that_do_not_fit_are_null_and_the_others_rounded(
    values: list[Any], source: pa.DataType, target: pa.DataType, expected: list[Any]
) -> None:
    result = convert(values, source, target).to_pylist()
    # As text, because NaN differs from itself; instants in UTC, whatever their zone.
    in_utc = [got.astimezone(UTC) if getattr(got, "tzinfo", None) else got for got in result]
    assert list(map(repr, in_utc)) == list(map(repr, expected))


def test_a_few_bad_rows_among_many_do_not_disturb_the_others() -> None:
    values = [2**63 - 1 if at % 997 == 0 else at for at in range(10_000)]
    column = Column(0, "x", pa.int64())
    result = convert(values, column.type, pa.int32()).to_pylist()
    assert result == [None if at % 997 == 0 else at for at in range(10_000)]

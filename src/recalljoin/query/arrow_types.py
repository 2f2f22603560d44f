"""Which Arrow types an expression computes in, and which two types meet in a third.

Columns come in many types, and operators work in few. :func:`canonical` maps a column's type to one
of the few without loss. :func:`common` finds the type in which two values are compared, as Spark
does.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.durations import TimeUnit, finest

BOOL: Final = pa.bool_()
INT: Final = pa.int64()
FLOAT32: Final = pa.float32()
FLOAT: Final = pa.float64()
STRING: Final = pa.string()
BINARY: Final = pa.binary()
DATE: Final = pa.date32()
NULL: Final = pa.null()

MAX_DIGITS: Final = 38
"""Digits of the widest decimal Spark has."""

_INT_DIGITS: Final = 20


def canonical(type_: pa.DataType) -> pa.DataType | None:
    """The type in which expressions compute with columns of ``type_``; None if they cannot.

    Examples
    --------
    >>> canonical(pa.int16()), canonical(pa.dictionary(pa.int8(), pa.large_string()))
    (DataType(int64), DataType(string))
    >>> canonical(pa.list_(pa.int64())) is None
    True
    """
    if isinstance(type_, pa.BaseExtensionType):
        return canonical(type_.storage_type)
    if pt.is_dictionary(type_):
        return canonical(type_.value_type)
    for applies, target in _CANONICAL:
        if applies(type_):
            return target
    if pt.is_decimal(type_):
        scale = max(type_.scale, 0)
        return decimal(type_.precision + scale - type_.scale, scale)
    if pt.is_timestamp(type_) or pt.is_duration(type_):
        return type_
    return None


_CANONICAL: Final = (
    (pt.is_boolean, BOOL),
    (pt.is_uint64, pa.decimal128(_INT_DIGITS, 0)),
    (pt.is_integer, INT),
    (pt.is_float64, FLOAT),
    (pt.is_floating, FLOAT32),
    (pt.is_string, STRING),
    (pt.is_large_string, STRING),
    (pt.is_string_view, STRING),
    (pt.is_binary, BINARY),
    (pt.is_large_binary, BINARY),
    (pt.is_binary_view, BINARY),
    (pt.is_fixed_size_binary, BINARY),
    (pt.is_date, DATE),
    (pt.is_time, pa.time64("ns")),
    (pt.is_null, NULL),
)


def decimal(digits: int, scale: int) -> pa.DataType | None:
    """The decimal with ``digits`` digits; None when Spark's widest decimal is narrower."""
    return pa.decimal128(max(digits, 1), scale) if digits <= MAX_DIGITS else None


def is_number(type_: pa.DataType) -> bool:
    """Whether arithmetic applies: integers, floating point and decimals."""
    return bool(pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_))


def is_zoned(type_: pa.DataType) -> bool:
    """Whether a timestamp has a time zone, and so names an instant and not a clock reading."""
    return pt.is_timestamp(type_) and type_.tz is not None


def digits(type_: pa.DataType) -> tuple[int, int]:
    """Digits and scale that hold every value of an integer or decimal type."""
    return (type_.precision, type_.scale) if pt.is_decimal(type_) else (_INT_DIGITS, 0)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type in which values of two canonical types are compared; None if incomparable.

    Integers and decimals meet in an exact type that holds both. Next to a floating-point number
    every number becomes floating point: single precision if both are, otherwise double precision.

    Examples
    --------
    >>> common(pa.int64(), pa.decimal128(10, 2)), common(pa.int64(), pa.float32())
    (Decimal128Type(decimal128(22, 2)), DataType(double))
    """
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    if is_number(one) and is_number(other):
        if pt.is_floating(one) or pt.is_floating(other):
            return FLOAT
        (digits_one, scale_one), (digits_other, scale_other) = digits(one), digits(other)
        scale = max(scale_one, scale_other)
        return decimal(max(digits_one - scale_one, digits_other - scale_other) + scale, scale)
    if pt.is_duration(one) and pt.is_duration(other):
        return pa.duration(finest({one.unit, other.unit}))
    if pt.is_timestamp(one) and pt.is_timestamp(other) and is_zoned(one) == is_zoned(other):
        # Instants compare alike in any time zone; the zone of the first is kept.
        return pa.timestamp(finest({one.unit, other.unit}), one.tz)
    return None


def family(type_: pa.DataType) -> str:
    """Name of the types within which equality is exact and therefore transitive.

    ``a = b`` and ``b = c`` make ``a = c`` only if all three are compared without rounding. An
    integer compared as floating point belongs to another family than the same integer compared
    as an integer.
    """
    if pt.is_floating(type_):
        return "floating point"
    if is_number(type_):
        return "exact number"
    if pt.is_timestamp(type_):
        return "instant" if is_zoned(type_) else "wall clock"
    return "duration" if pt.is_duration(type_) else str(type_)


def time_unit(type_: pa.DataType) -> TimeUnit:
    """Unit of a timestamp or duration."""
    unit: TimeUnit = type_.unit
    return unit

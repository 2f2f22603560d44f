"""Constants in the text of a query: numbers, dates, timestamps, intervals, and type names."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from recalljoin.errors import InvalidQuery
from recalljoin.query.arrow_types import BOOL, DATE, FLOAT, INT, MAX_DIGITS, STRING, decimal
from recalljoin.query.coercion import date_literal, decimal_literal, timestamp_literal
from recalljoin.query.durations import NANOSECONDS_PER, nanoseconds
from recalljoin.query.expressions import Literal
from recalljoin.query.spelling import shortened

_FLOAT_DIGITS: Final = 15
"""Significant digits that survive in a floating-point number."""

_TARGETS: Final[dict[exp.DType, pa.DataType]] = {
    exp.DType.BOOLEAN: BOOL,
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: INT,
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: FLOAT,
    exp.DType.TEXT: STRING,
    exp.DType.VARCHAR: STRING,
    exp.DType.DATE: DATE,
}
_ZONES: Final[dict[exp.DType, str | None]] = {
    exp.DType.TIMESTAMP: None,
    exp.DType.DATETIME: None,
    exp.DType.TIMESTAMPNTZ: None,
    exp.DType.TIMESTAMPTZ: "UTC",
    exp.DType.TIMESTAMPLTZ: "UTC",
}


class Unreadable(Exception):
    """A constant that cannot be read; the message says what to write."""


def number_literal(text: str) -> Literal:
    """A number as written.

    Whole numbers are integers; with a decimal point or an exponent they are floating point, unless
    more digits are written than survive there: then, and where an integer is too long for 64 bits,
    they are decimals.

    Examples
    --------
    >>> number_literal("5"), number_literal("0.5")
    (Literal(value=5, type=DataType(int64)), Literal(value=0.5, type=DataType(double)))
    """
    value = Decimal(text)
    if text.isdigit():
        if value < 2**63:
            return Literal(int(text), INT, written=True)
    elif len(value.as_tuple().digits) <= _FLOAT_DIGITS or "e" in text.lower():
        floating = float(text)
        if floating == float("inf"):
            message = f"{text} is too large for floating point; write a smaller number"
            raise Unreadable(message)
        return Literal(floating, FLOAT, written=True)
    exact = decimal_literal(value)
    if exact is None:
        message = f"{shortened(text)} has more than {MAX_DIGITS} digits; write fewer"
        raise Unreadable(message)
    return exact


def interval_literal(amount: str, unit: str) -> Literal:
    """``INTERVAL '5' SECOND`` as a duration in the coarsest unit that holds it."""
    text = f"{amount} {unit}".strip()
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        length = sign * nanoseconds(unsigned, name="INTERVAL")
    except InvalidQuery as invalid:
        raise Unreadable(str(invalid)) from None
    units = (name for name, size in NANOSECONDS_PER.items() if length % size == 0)
    unit = next(units)
    ticks = length // NANOSECONDS_PER[unit]
    if abs(ticks) >= 2**63:
        message = f"INTERVAL of {text!r} does not fit into 64 bits of {unit}; write a shorter one"
        raise Unreadable(message)
    return Literal(ticks, pa.duration(unit))


def time_literal(text: str, written: exp.DataType) -> Literal | None:
    """``DATE '2024-12-31'`` or ``TIMESTAMP '...'``; None when the type is another."""
    if written.this == exp.DType.DATE:
        found, form = date_literal(text), "DATE '2024-12-31'"
    elif written.this in _ZONES:
        found = timestamp_literal(text, _ZONES[written.this])
        form = "TIMESTAMP '2024-12-31 23:59:59'"
    else:
        return None
    if found is None:
        message = f"{text!r} is no {form.split()[0].lower()}; write {form}"
        raise Unreadable(message)
    return replace(found, written=True)


def cast_target(written: exp.DataType, source: pa.DataType) -> pa.DataType:
    """The Arrow type that a type name in a CAST stands for."""
    parameters = [int(each.name) for each in written.expressions if each.name.isdigit()]
    if written.this == exp.DType.DECIMAL:
        return _decimal_target(parameters)
    if not written.expressions:
        if written.this in _ZONES:
            unit = source.unit if pt.is_timestamp(source) else "us"
            return pa.timestamp(unit, _ZONES[written.this])
        if written.this in _TARGETS:
            return _TARGETS[written.this]
    message = (
        f"CAST to {written.sql()} is not supported; write BOOLEAN, INT, BIGINT, DOUBLE, "
        "DECIMAL(digits, scale), STRING, DATE, TIMESTAMP or TIMESTAMPTZ"
    )
    raise Unreadable(message)


def _decimal_target(parameters: list[int]) -> pa.DataType:
    precision, scale = (*parameters, 0)[:2] if parameters else (0, 0)
    target = decimal(precision, scale) if precision > 0 and scale <= precision else None
    if target is None:
        message = f"write DECIMAL(digits, scale) with at most {MAX_DIGITS} digits"
        raise Unreadable(message)
    return target

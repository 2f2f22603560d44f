"""Constants in the text of a query: numbers and intervals."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from recalljoin.errors import InvalidQuery
from recalljoin.query.arrow_types import FLOAT, INT, MAX_DIGITS, decimal
from recalljoin.query.durations import NANOSECONDS_PER, nanoseconds
from recalljoin.query.expressions import Literal
from recalljoin.query.spelling import shortened


class Unreadable(Exception):
    """A constant that cannot be read; the message says what to write."""


def number_literal(text: str) -> Literal:
    """A number as written, typed as Spark types it.

    A whole number is an integer, or a decimal if 64 bits cannot hold it. A number with a decimal
    point is a decimal, a number with an exponent is floating point.

    Examples
    --------
    >>> number_literal("5"), number_literal("5e-1")
    (Literal(value=5, type=DataType(int64)), Literal(value=0.5, type=DataType(double)))
    """
    if text.isdigit() and int(text) < 2**63:
        return Literal(int(text), INT)
    if "e" in text.lower():
        floating = float(text)
        if floating == float("inf"):
            message = f"{text} is too large for floating point; write a smaller number"
            raise Unreadable(message)
        return Literal(floating, FLOAT)
    exact = decimal_literal(Decimal(text))
    if exact is None:
        message = f"{shortened(text)} has more than {MAX_DIGITS} digits; write fewer"
        raise Unreadable(message)
    return exact


def decimal_literal(value: Decimal) -> Literal | None:
    """A literal of the narrowest decimal type that holds ``value``; None if no type does."""
    _sign, figures, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    type_ = decimal(max(len(figures) + max(0, exponent), scale), scale)
    return None if type_ is None else Literal(pa.scalar(value, type_).as_py(), type_)


def interval_literal(amount: str, unit: str) -> Literal:
    """``INTERVAL '5' SECOND`` as a duration in the coarsest unit that expresses it exactly."""
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

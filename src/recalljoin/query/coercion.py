"""Bringing expressions to one type, and computing what is constant right away."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.arrow_types import (
    DATE,
    FLOAT,
    INT,
    NULL,
    STRING,
    UINT,
    canonical,
    common,
    decimal,
    is_number,
    is_zoned,
)
from recalljoin.query.evaluate import evaluate
from recalljoin.query.expressions import Call, Expression, Literal
from recalljoin.query.kernels.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Sequence


class Mismatch(Exception):
    """Expressions whose types do not go together; the message says why and what to write."""


def fold(call: Call) -> Expression:
    """``call``, or its value when it depends on nothing."""
    if call.user is not None or not all(isinstance(arg, Literal) for arg in call.args):
        return call
    return literal(evaluate(call, _no_columns, 1)[0])


def literal(scalar: pa.Scalar) -> Literal:
    """A literal with the value and type of an Arrow scalar."""
    value = scalar.value if pt.is_temporal(scalar.type) else scalar.as_py()
    return Literal(value, scalar.type)


def coerce(expression: Expression, target: pa.DataType) -> Expression:
    """``expression`` converted to ``target``, with no call where it has that type already."""
    if expression.type == target:
        return expression
    return fold(Call("cast", (expression,), target))


def computable(expression: Expression) -> Expression:
    """``expression`` in the canonical type of its own.

    Raises
    ------
    Mismatch
        When its type, such as a list, is none that expressions compute with.
    """
    target = canonical(expression.type)
    if target is None:
        way_out = (
            "name one of its fields, as in `stream.column.field`"
            if pt.is_struct(expression.type)
            else "select it, or compare another column"
        )
        message = f"a value of type {expression.type} cannot be computed with; {way_out}"
        raise Mismatch(message)
    return coerce(expression, target)


def unify(expressions: Sequence[Expression]) -> list[Expression]:
    """The expressions in the one type in which they can be compared or chosen from.

    Constants adapt to their neighbours as they are written: text next to a date or timestamp is
    read as one, a number with a decimal point next to a decimal is taken digit by digit.

    Raises
    ------
    Mismatch
        When there is no such type.
    """
    plain = [computable(each) for each in expressions]
    neighbours = [each.type for each in plain if not is_written(each)]
    plain = [beside(each, neighbours) for each in plain]
    target = NULL
    for each in plain:
        met = common(target, each.type)
        if met is None:
            raise Mismatch(_incomparable(target, each.type))
        target = met
    return [coerce(each, target) for each in plain]


def beside(expression: Expression, neighbours: Sequence[pa.DataType]) -> Expression:
    """A written constant as it is read next to values of other types; anything else as it is."""
    if not is_written(expression):
        return expression
    for neighbour in neighbours:
        adapted = _next_to(expression, neighbour)
        if adapted is not expression:
            return adapted
    return expression


def decimal_literal(value: Decimal) -> Literal | None:
    """A literal of the narrowest decimal type that holds ``value``; None if there is none."""
    if not value.is_finite():
        return None
    _sign, figures, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    type_ = decimal(max(len(figures) + max(0, exponent), scale), scale)
    return None if type_ is None else Literal(pa.scalar(value, type_).as_py(), type_)


def timestamp_literal(text: str, zone: str | None = None) -> Literal | None:
    """A timestamp as written, as fine as its digits; None when ``text`` is none.

    Text without an offset is a wall clock's reading: of ``zone``, if one is given.
    """
    fraction = text.partition(".")[2].split("+")[0].split("-")[0].rstrip("zZ")
    unit = "ns" if len(fraction) > 6 else "us"
    array = pa.array([text])
    naive = convert(array, pa.timestamp(unit))
    if naive[0].is_valid:
        if zone is None:
            return literal(naive[0])
        zoned = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
        return literal(zoned[0])
    instant = convert(array, pa.timestamp(unit, "UTC"))
    return literal(instant[0]) if instant[0].is_valid else None


def date_literal(text: str) -> Literal | None:
    """A date as written; None when ``text`` is none."""
    date = convert(pa.array([text]), DATE)[0]
    return literal(date) if date.is_valid else None


def is_written(expression: Expression) -> TypeGuard[Literal]:
    """Whether it is a constant as the query writes it, not one computed from others."""
    return isinstance(expression, Literal) and expression.written


def _next_to(given: Literal, neighbour: pa.DataType) -> Expression:
    if given.type == STRING and (pt.is_date(neighbour) or pt.is_timestamp(neighbour)):
        return _read_as(given.value, neighbour)
    if pt.is_timestamp(given.type) and not is_zoned(given.type) and is_zoned(neighbour):
        wall_clock = pa.array([given.value], given.type)
        zoned = pc.assume_timezone(
            wall_clock, neighbour.tz, ambiguous="earliest", nonexistent="latest"
        )
        return literal(zoned[0])
    if pt.is_decimal(neighbour) and given.type in (INT, FLOAT):
        # The shortest text of a floating-point number is what was written, up to 15 digits.
        return decimal_literal(Decimal(repr(given.value))) or given
    if neighbour == UINT and given.type == INT and given.value >= 0:
        return Literal(given.value, UINT)
    return given


def _read_as(text: str, neighbour: pa.DataType) -> Literal:
    if pt.is_date(neighbour):
        found = date_literal(text) or timestamp_literal(text)
        form = "YYYY-MM-DD"
    else:
        found = timestamp_literal(text, neighbour.tz)
        form = "YYYY-MM-DD HH:MM:SS"
    if found is None:
        message = f"{text!r} cannot be read as {neighbour}; write '{form}'"
        raise Mismatch(message)
    return found


def _incomparable(one: pa.DataType, other: pa.DataType) -> str:
    kinds = {one, other}
    if STRING in kinds and any(map(is_number, kinds)):
        way_out = "CAST one side, or write numbers without quotes"
    elif any(map(pt.is_duration, kinds)) and any(map(is_number, kinds)):
        way_out = "write a duration as INTERVAL '5' SECOND"
    elif any(map(pt.is_timestamp, kinds)) and any(map(is_number, kinds)):
        way_out = "write a point in time as TIMESTAMP '2024-12-31 23:59:59'"
    elif all(map(pt.is_timestamp, kinds)):
        way_out = "CAST(... AS TIMESTAMPTZ) reads the one without zone as UTC"
    elif pa.bool_() in kinds:
        way_out = "a boolean compares with TRUE and FALSE only"
    elif all(map(is_number, kinds)):
        way_out = "together they need more than 76 digits, CAST one side to DOUBLE"
    else:
        way_out = "CAST one side to the type of the other"
    return f"{one} and {other} do not compare; {way_out}"


def _no_columns(stream: int, name: str) -> Any:
    raise AssertionError((stream, name))

"""Typing rules of arithmetic, of numeric functions, and of points in time and durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.arrow_types import (
    FLOAT,
    INT,
    MAX_DIGITS,
    NULL,
    STRING,
    decimal,
    digits,
    is_number,
)
from recalljoin.query.coercion import Mismatch, beside, coerce, computable, unify
from recalljoin.query.durations import finest
from recalljoin.query.expressions import Call, Expression, Literal

Rule = Callable[[Sequence[Expression]], Expression]


def number(expression: Expression) -> Expression:
    """``expression`` as a number to compute with; integers are 64 bits wide and signed.

    Raises
    ------
    Mismatch
        When it is no number.
    """
    plain = computable(expression)
    if not (is_number(plain.type) or pt.is_null(plain.type)):
        message = f"it takes a number, got {plain.type}"
        raise Mismatch(message)
    return coerce(plain, INT) if pt.is_unsigned_integer(plain.type) else plain


def whole_number(expression: Expression) -> Expression:
    """``expression`` as an integer.

    Raises
    ------
    Mismatch
        When it is none.
    """
    plain = number(expression)
    if plain.type not in (INT, NULL):
        message = f"it takes a whole number here, got {plain.type}"
        raise Mismatch(message)
    return coerce(plain, INT)


def _arithmetic(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = [computable(arg) for arg in args]
        if any(pt.is_temporal(arg.type) for arg in plain):
            return _temporal(function, plain)
        one, other = (number(arg) for arg in plain)
        one, other = beside(one, [other.type]), beside(other, [one.type])
        types = (one.type, other.type)
        if NULL in types:
            return Literal(None, one.type if other.type == NULL else other.type)
        if FLOAT in types:
            return Call(function, (coerce(one, FLOAT), coerce(other, FLOAT)), FLOAT)
        if any(map(pt.is_decimal, types)):
            return _decimal_arithmetic(function, one, other)
        return Call(function, (one, other), INT)

    return rule


def _decimal_arithmetic(function: str, one: Expression, other: Expression) -> Expression:
    args = [
        arg if pt.is_decimal(arg.type) else coerce(arg, decimal(*digits(INT)))
        for arg in (one, other)
    ]
    (digits_one, scale_one), (digits_other, scale_other) = (digits(arg.type) for arg in args)
    whole = max(digits_one - scale_one, digits_other - scale_other)
    scale = max(scale_one, scale_other)
    if function == "multiply":
        result = decimal(digits_one + digits_other + 1, scale_one + scale_other)
    elif function == "modulo":
        result = decimal(whole + scale, scale)
    else:
        result = decimal(whole + scale + 1, scale)
    if result is None:
        message = f"the result needs more than {MAX_DIGITS} digits; CAST one side to DOUBLE"
        raise Mismatch(message)
    if pt.is_decimal256(result):
        args = [coerce(arg, pa.decimal256(*digits(arg.type))) for arg in args]
    return Call(function, tuple(args), result)


def _temporal(function: str, args: Sequence[Expression]) -> Expression:
    """Points in time and durations: the few combinations that mean something."""
    one, other = args
    if NULL in (one.type, other.type):
        known = one.type if other.type == NULL else other.type
        is_difference = function == "subtract" and pt.is_timestamp(known)
        return Literal(None, pa.duration(known.unit) if is_difference else known)
    if function == "add" and pt.is_duration(one.type) and not pt.is_duration(other.type):
        one, other = other, one
    point, moved = (pt.is_date(one.type) or pt.is_timestamp(one.type)), pt.is_duration(other.type)
    if function in {"add", "subtract"} and point and moved:
        one = coerce(one, pa.timestamp(other.type.unit)) if pt.is_date(one.type) else one
        unit = finest({one.type.unit, other.type.unit})
        type_ = pa.timestamp(unit, one.type.tz)
        return Call(function, (coerce(one, type_), coerce(other, pa.duration(unit))), type_)
    if function in {"add", "subtract"} and pt.is_duration(one.type) and moved:
        one, other = unify([one, other])
        return Call(function, (one, other), one.type)
    if function == "subtract" and point and not is_number(other.type) and other.type != STRING:
        return _difference(one, other)
    if function == "multiply":
        if moved:
            one, other = other, one
        if pt.is_duration(one.type) and pt.is_integer(other.type):
            return Call(function, (one, coerce(other, INT)), one.type)
    verb = {"add": "added to", "subtract": "subtracted from", "multiply": "multiplied with"}
    operation = verb.get(function, "combined with")
    message = (
        f"{other.type} cannot be {operation} {one.type}; write durations as INTERVAL '5' SECOND"
    )
    raise Mismatch(message)


def _difference(one: Expression, other: Expression) -> Expression:
    one, other = unify([one, other])
    if pt.is_date(one.type):
        one, other = (coerce(each, pa.timestamp("s")) for each in (one, other))
    return Call("subtract", (one, other), pa.duration(one.type.unit))


def _divide(args: Sequence[Expression]) -> Expression:
    one, other = (coerce(number(arg), FLOAT) for arg in args)
    return Call("divide", (one, other), FLOAT)


def _magnitude(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = computable(args[0])
        if not pt.is_duration(plain.type):
            plain = number(plain)
        return Call(function, (plain,), plain.type) if plain.type != NULL else plain

    return rule


def _floating(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        return Call(function, tuple(coerce(number(arg), FLOAT) for arg in args), FLOAT)

    return rule


def _sign(args: Sequence[Expression]) -> Expression:
    plain = number(args[0])
    return Call("sign", (plain,), FLOAT if plain.type == FLOAT else INT)


def _rounding(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = number(args[0])
        if plain.type == NULL:
            return plain
        if pt.is_decimal(plain.type):
            # 9.99 rounds to 10.00, which needs one digit more.
            wider = decimal(plain.type.precision + 1, plain.type.scale)
            if wider is None:
                message = f"the result needs more than {MAX_DIGITS} digits; CAST it to DOUBLE"
                raise Mismatch(message)
            plain = coerce(plain, wider)
        if function != "round":
            return Call(function, (plain,), plain.type)
        places = whole_number(args[1]) if len(args) > 1 else Literal(0, INT)
        if not isinstance(places, Literal):
            message = "the number of digits must be a constant"
            raise Mismatch(message)
        if places.value is None:
            return Literal(None, plain.type)
        return Call(function, (plain, places), plain.type)

    return rule


NUMBER_RULES: Final[dict[str, Rule]] = {
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply", "modulo")},
    **{name: _magnitude(name) for name in ("abs", "negate")},
    **{name: _floating(name) for name in ("sqrt", "power", "exp", "ln")},
    **{name: _rounding(name) for name in ("round", "floor", "ceil")},
    "divide": _divide,
    "sign": _sign,
}

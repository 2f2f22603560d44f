"""Typing rules: from a function and its arguments to a typed call.

Each rule checks the argument types, converts the arguments to the types the kernel works in, and
names the type of the result, as Spark's ANSI mode does; but integers are always 64 bits wide. A
rule refuses arguments with :class:`Mismatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.arrow_types import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    MAX_DIGITS,
    NULL,
    canonical,
    common,
    decimal,
    digits,
    is_number,
)
from recalljoin.query.built_ins import BUILT_INS
from recalljoin.query.constants import decimal_literal
from recalljoin.query.durations import finest
from recalljoin.query.evaluate import compute
from recalljoin.query.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from recalljoin.query.functions import UserFunction

Rule = Callable[[Sequence[Expression]], Expression]
_MOST_PLACES: Final = 9


class Mismatch(Exception):
    """Expressions whose types do not go together; the message says why and what to write."""


def apply(function: str, args: Sequence[Expression]) -> Expression:
    """A typed call of a built-in function; a literal when all arguments are constant."""
    return _folded(_RULES[function](args))


def apply_user(user: UserFunction, args: Sequence[Expression]) -> Expression:
    """A typed call of a registered function."""
    if user.arguments is None:
        given = [computable(arg) for arg in args]
    else:
        given = [_widened(arg, to) for arg, to in zip(args, user.arguments, strict=True)]
    return Call(f"user:{user.name.lower()}", tuple(given), user.returns, user)


def condition(expression: Expression) -> Expression:
    """``expression`` as a boolean.

    Raises
    ------
    Mismatch
        When ``expression`` is not boolean.
    """
    boolean = computable(expression)
    if boolean.type not in (BOOL, NULL):
        message = f"it is of type {expression.type}, not boolean; compare it with something"
        raise Mismatch(message)
    return coerce(boolean, BOOL)


def coerce(expression: Expression, target: pa.DataType) -> Expression:
    """``expression`` converted to ``target``; unchanged if it has that type already."""
    if expression.type == target:
        return expression
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, target)
    return _folded(Call("cast", (expression,), target))


def computable(expression: Expression) -> Expression:
    """``expression`` converted to the canonical form of its type.

    Raises
    ------
    Mismatch
        When expressions cannot compute with its type, such as a list.
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

    Raises
    ------
    Mismatch
        When no one type holds all expressions.
    """
    plain = [computable(each) for each in expressions]
    if any(pt.is_decimal(each.type) for each in plain):
        plain = [_as_decimal(each) for each in plain]
    target = NULL
    for each in plain:
        met = common(target, each.type)
        if met is None:
            raise Mismatch(_incomparable(target, each.type))
        target = met
    return [coerce(each, target) for each in plain]


def _folded(expression: Expression) -> Expression:
    """``expression``, or its value as a literal when it is constant."""
    if not isinstance(expression, Call) or expression.user is not None:
        return expression
    if not all(isinstance(arg, Literal) for arg in expression.args):
        return expression
    computed = compute(expression, _no_columns, 1)
    if computed.n_impossible:
        message = "its value cannot be computed, because of an overflow or a division by zero"
        raise Mismatch(message)
    scalar = computed.values[0]
    value = scalar.value if pt.is_temporal(scalar.type) else scalar.as_py()
    return Literal(value, scalar.type)


def _no_columns(stream: int, name: str) -> Any:
    raise AssertionError((stream, name))


def _widened(arg: Expression, target: pa.DataType) -> Expression:
    plain = computable(arg)
    wanted = canonical(target)
    if plain.type == wanted or pt.is_null(plain.type):
        return coerce(plain, target)
    if not (is_number(plain.type) and is_number(target) and wanted == FLOAT):
        message = f"it takes {target}, got {plain.type}"
        raise Mismatch(message)
    return coerce(plain, FLOAT)


def _incomparable(one: pa.DataType, other: pa.DataType) -> str:
    kinds = {one, other}
    if any(map(pt.is_duration, kinds)) and any(map(is_number, kinds)):
        way_out = "write a duration as INTERVAL '5' SECOND"
    elif pa.bool_() in kinds:
        way_out = "a boolean compares with TRUE and FALSE only"
    elif all(map(is_number, kinds)):
        way_out = f"together they need more than {MAX_DIGITS} digits, CAST one side to DOUBLE"
    else:
        way_out = "CAST one side to the type of the other"
    return f"{one} and {other} do not compare; {way_out}"


# Comparison and logic ---------------------------------------------------------------------------


def _comparison(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        one, other = unify(args)
        return Literal(None, BOOL) if one.type == NULL else Call(function, (one, other), BOOL)

    return rule


def _connective(function: str) -> Rule:
    return lambda args: Call(function, tuple(condition(arg) for arg in args), BOOL)


def _is_null(args: Sequence[Expression]) -> Expression:
    # A dictionary may hold nulls among its values, which older versions of Arrow overlook.
    decoded = [computable(arg) if pt.is_dictionary(arg.type) else arg for arg in args]
    return Call("is_null", tuple(decoded), BOOL)


def _in(args: Sequence[Expression]) -> Expression:
    unified = unify(args)
    if unified[0].type == NULL:
        return Literal(None, BOOL)
    if all(isinstance(each, Literal) for each in unified[1:]):
        return Call("in", tuple(unified), BOOL)
    value, *options = unified
    tests = tuple(apply("eq", (value, option)) for option in options)
    return tests[0] if len(tests) == 1 else Call("or", tests, BOOL)


def _extreme(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        unified = unify(args)
        type_ = unified[0].type
        return unified[0] if type_ == NULL else Call(function, tuple(unified), type_)

    return rule


# Arithmetic -------------------------------------------------------------------------------------


def _number(expression: Expression) -> Expression:
    plain = computable(expression)
    if not (is_number(plain.type) or pt.is_null(plain.type)):
        message = f"it takes a number, got {plain.type}"
        raise Mismatch(message)
    return plain


def _as_decimal(expression: Expression) -> Expression:
    """An integer as a decimal; a literal gets as many digits as it has."""
    if expression.type != INT:
        return expression
    if isinstance(expression, Literal) and expression.value is not None:
        exact = decimal_literal(Decimal(expression.value))
        assert exact is not None
        return exact
    return coerce(expression, pa.decimal128(*digits(INT)))


def _arithmetic(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = [computable(arg) for arg in args]
        if any(pt.is_temporal(arg.type) for arg in plain):
            return _temporal(function, plain)
        one, other = (_number(arg) for arg in plain)
        types = (one.type, other.type)
        if NULL in types:
            return Literal(None, one.type if other.type == NULL else other.type)
        if any(map(pt.is_decimal, types)) and not any(map(pt.is_floating, types)):
            return _decimal_arithmetic(function, _as_decimal(one), _as_decimal(other))
        type_ = common(*types)
        return Call(function, (coerce(one, type_), coerce(other, type_)), type_)

    return rule


def _decimal_arithmetic(function: str, one: Expression, other: Expression) -> Expression:
    (digits_one, scale_one), (digits_other, scale_other) = digits(one.type), digits(other.type)
    result = None
    if function == "multiply":
        result = decimal(digits_one + digits_other + 1, scale_one + scale_other)
    elif function in ("add", "subtract"):
        scale = max(scale_one, scale_other)
        whole = max(digits_one - scale_one, digits_other - scale_other)
        result = decimal(whole + scale + 1, scale)
    if result is None:
        message = f"decimals are added and multiplied up to {MAX_DIGITS} digits, and not divided"
        message += "; CAST one side to DOUBLE, or write a constant such as 25e-1"
        raise Mismatch(message)
    return Call(function, (one, other), result)


def _temporal(function: str, args: Sequence[Expression]) -> Expression:
    """Points in time and durations: the few combinations that mean something."""
    one, other = args
    if NULL in (one.type, other.type):
        known = one.type if other.type == NULL else other.type
        is_difference = function == "subtract" and pt.is_timestamp(known)
        return Literal(None, pa.duration(known.unit) if is_difference else known)
    if function == "add" and pt.is_duration(one.type) and not pt.is_duration(other.type):
        one, other = other, one
    if function in {"add", "subtract"} and pt.is_duration(other.type):
        if pt.is_timestamp(one.type):
            unit = finest({one.type.unit, other.type.unit})
            type_ = pa.timestamp(unit, one.type.tz)
            return Call(function, (coerce(one, type_), coerce(other, pa.duration(unit))), type_)
        if pt.is_duration(one.type):
            one, other = unify([one, other])
            return Call(function, (one, other), one.type)
    if function == "subtract" and common(one.type, other.type) is not None:
        one, other = unify([one, other])
        if one.type == DATE:
            one, other = (coerce(each, pa.timestamp("s")) for each in (one, other))
        if pt.is_timestamp(one.type):
            return Call("subtract", (one, other), pa.duration(one.type.unit))
    verb = {"add": "added to", "subtract": "subtracted from"}.get(function, "combined with")
    message = f"{other.type} cannot be {verb} {one.type}; write durations as INTERVAL '5' SECOND"
    raise Mismatch(message)


def _divide(args: Sequence[Expression]) -> Expression:
    one, other = (_number(arg) for arg in args)
    if any(map(pt.is_decimal, types := (one.type, other.type))) and not any(
        map(pt.is_floating, types)
    ):
        return _decimal_arithmetic("divide", one, other)
    return Call("divide", (coerce(one, FLOAT), coerce(other, FLOAT)), FLOAT)


def _magnitude(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = computable(args[0])
        if not pt.is_duration(plain.type):
            plain = _number(plain)
        return Call(function, (plain,), plain.type) if plain.type != NULL else plain

    return rule


def _floating(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        return Call(function, tuple(coerce(_number(arg), FLOAT) for arg in args), FLOAT)

    return rule


def _log(args: Sequence[Expression]) -> Expression:
    # log(x) is the natural logarithm, log(base, x) the logarithm to any base.
    return _floating("ln" if len(args) == 1 else "log")(args)


def _whole(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        plain = _number(args[0])
        if plain.type in (INT, NULL):
            return plain
        return Call(function, (_double(plain, function),), INT)

    return rule


def _round(args: Sequence[Expression]) -> Expression:
    plain = _number(args[0])
    places = args[1] if len(args) > 1 else Literal(0, INT)
    if not (
        isinstance(places, Literal)
        and places.type == INT
        and 0 <= (places.value if places.value is not None else -1) <= _MOST_PLACES
    ):
        message = f"it rounds to a constant number of places from 0 to {_MOST_PLACES}"
        raise Mismatch(message)
    if plain.type in (INT, NULL):
        return plain
    return Call("round", (_double(plain, "round"), places), FLOAT)


def _double(number: Expression, function: str) -> Expression:
    if number.type != FLOAT:
        message = f"{function} takes integers and DOUBLE here, got {number.type}; CAST it to DOUBLE"
        raise Mismatch(message)
    return number


_RULES: Final[dict[str, Rule]] = {
    **{built_in.function: _floating(built_in.function) for built_in in BUILT_INS.values()},
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply", "modulo")},
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _connective(name) for name in ("and", "or", "not", "is_true")},
    **{name: _extreme(name) for name in ("least", "greatest")},
    **{name: _magnitude(name) for name in ("abs", "negate")},
    **{name: _whole(name) for name in ("floor", "ceil")},
    "divide": _divide,
    "log": _log,
    "round": _round,
    "is_null": _is_null,
    "in": _in,
}

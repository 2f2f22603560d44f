"""Typing rules: from a function and its arguments to a typed call.

Each rule checks the argument types, converts them to what the kernel works in, and says what comes
out. A rule refuses with :class:`~recalljoin.query.coercion.Mismatch`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.arrow_types import (
    BOOL,
    INT,
    NULL,
    STRING,
    canonical,
    is_number,
)
from recalljoin.query.coercion import Mismatch, coerce, computable, fold, unify
from recalljoin.query.expressions import Call, Expression, Literal
from recalljoin.query.number_rules import NUMBER_RULES, Rule, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recalljoin.query.functions import UserFunction


def apply(function: str, args: Sequence[Expression]) -> Expression:
    """A typed call of a built-in function; its value when all arguments are constant."""
    result = RULES[function](args)
    return fold(result) if isinstance(result, Call) else result


def apply_user(user: UserFunction, args: Sequence[Expression]) -> Expression:
    """A typed call of a registered function."""
    if user.arguments is None:
        given = [computable(arg) for arg in args]
    else:
        given = [_converted(arg, to) for arg, to in zip(args, user.arguments, strict=True)]
    return Call(f"user:{user.name.lower()}", tuple(given), user.returns, user)


def cast(expression: Expression, target: pa.DataType) -> Expression:
    """``CAST(expression AS target)``."""
    source = computable(expression)
    if not _castable(source.type, target):
        message = f"{source.type} cannot be converted to {target}; CAST takes numbers, text, "
        message += "booleans, dates and timestamps where that makes sense"
        raise Mismatch(message)
    converted = coerce(source, target)
    # Its type has been chosen: a constant does not adapt any more.
    return replace(converted, written=False) if isinstance(converted, Literal) else converted


def condition(expression: Expression) -> Expression:
    """``expression`` as something that is true or not.

    Raises
    ------
    Mismatch
        When it is not boolean.
    """
    boolean = computable(expression)
    if boolean.type not in (BOOL, NULL):
        message = f"it is of type {expression.type}, not boolean; compare it with something"
        raise Mismatch(message)
    return coerce(boolean, BOOL)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    def among(*tests: Callable[[pa.DataType], bool]) -> bool:
        return all(any(test(type_) for test in tests) for type_ in (source, target))

    return bool(
        pt.is_null(source)
        or source == target
        or among(is_number, pt.is_boolean)
        or among(pt.is_date, pt.is_timestamp)
        or (source == STRING and not pt.is_duration(target))
        or (target == STRING and not (pt.is_binary(source) or pt.is_duration(source)))
    )


def _converted(arg: Expression, target: pa.DataType) -> Expression:
    plain = computable(arg)
    wanted = canonical(target)
    if not (pt.is_null(plain.type) or plain.type == wanted) and not (
        is_number(plain.type) and is_number(target)
    ):
        message = f"it takes {target}, got {plain.type}"
        raise Mismatch(message)
    return coerce(plain, target)


def _text(expression: Expression) -> Expression:
    plain = computable(expression)
    if plain.type not in (STRING, NULL):
        message = f"it takes text, got {plain.type}; CAST(... AS STRING) turns it into text"
        raise Mismatch(message)
    return coerce(plain, STRING)


# Comparison, logic and choice -------------------------------------------------------------------


def _comparison(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        one, other = unify(args)
        return Literal(None, BOOL) if one.type == NULL else Call(function, (one, other), BOOL)

    return rule


def _connective(function: str) -> Rule:
    return lambda args: Call(function, tuple(condition(arg) for arg in args), BOOL)


def _is_null(args: Sequence[Expression]) -> Expression:
    # A dictionary may hold nulls among its values, where older versions of Arrow do not look.
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


def _choice(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        unified = unify(args)
        type_ = unified[0].type
        if type_ == NULL or len(unified) == 1:
            return unified[0]
        return Call(function, tuple(unified), type_)

    return rule


def _if(args: Sequence[Expression]) -> Expression:
    test, then, otherwise = args
    then, otherwise = unify([then, otherwise])
    if then.type == NULL:
        return then
    return Call("if", (condition(test), then, otherwise), then.type)


def _nullif(args: Sequence[Expression]) -> Expression:
    value = computable(args[0])
    return _if([apply("eq", args), Literal(None, value.type), value])


# Text -------------------------------------------------------------------------------------------


def _textual(function: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        result = INT if function == "length" else STRING
        return Call(function, (_text(args[0]),), result)

    return rule


def _trim(side: str) -> Rule:
    def rule(args: Sequence[Expression]) -> Expression:
        characters = _text(args[1]) if len(args) > 1 else Literal(" ", STRING)
        if not isinstance(characters, Literal):
            message = "the characters to trim must be a constant"
            raise Mismatch(message)
        if characters.value is None:
            return Literal(None, STRING)
        return Call("trim", (_text(args[0]), characters, Literal(side, STRING)), STRING)

    return rule


def _substring(args: Sequence[Expression]) -> Expression:
    return Call("substring", (_text(args[0]), *map(whole_number, args[1:])), STRING)


def _like(args: Sequence[Expression]) -> Expression:
    return Call("like", (_text(args[0]), _text(args[1])), BOOL)


def _concat(args: Sequence[Expression]) -> Expression:
    return Call("concat", tuple(cast(arg, STRING) for arg in args), STRING)


RULES: Final[dict[str, Rule]] = {
    **NUMBER_RULES,
    **{name: _comparison(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _connective(name) for name in ("and", "or", "not")},
    **{name: _choice(name) for name in ("least", "greatest", "coalesce")},
    **{name: _textual(name) for name in ("lower", "upper", "length")},
    "is_null": _is_null,
    "in": _in,
    "if": _if,
    "nullif": _nullif,
    "trim": _trim("both"),
    "ltrim": _trim("leading"),
    "rtrim": _trim("trailing"),
    "substring": _substring,
    "like": _like,
    "concat": _concat,
}

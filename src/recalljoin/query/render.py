"""Typed expressions as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.arrow_types import canonical, family, time_unit
from recalljoin.query.durations import NANOSECONDS_PER, describe
from recalljoin.query.expressions import Call, Column, Expression, Literal
from recalljoin.query.one_stream import computed_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPERATORS: Final = {
    "or": (" OR ", 1),
    "and": (" AND ", 2),
    "eq": (" = ", 4),
    "ne": (" <> ", 4),
    "lt": (" < ", 4),
    "le": (" <= ", 4),
    "gt": (" > ", 4),
    "ge": (" >= ", 4),
    "add": (" + ", 5),
    "subtract": (" - ", 5),
    "multiply": (" * ", 6),
    "divide": (" / ", 6),
    "modulo": (" % ", 6),
}
_OR: Final = 1
_NOT: Final = 3
_ATOM: Final = 9


def render(expression: Expression, streams: Sequence[str]) -> str:
    """``expression`` as SQL, without conversions that change no value.

    Examples
    --------
    >>> a = Column(0, "a", pa.int64())
    >>> render(Call("lt", (a, Literal(5, pa.int64())), pa.bool_()), ["s1"])
    's1.a < 5'
    """
    return _render(expression, streams)[0]


def _render(expression: Expression, streams: Sequence[str]) -> tuple[str, int]:
    """Text of an expression, and how tightly its outermost operator binds."""
    if isinstance(expression, Column):
        computed = computed_text(expression.name)
        if computed is not None:
            return computed, _OR
        return f"{_name(streams[expression.stream])}.{_name(expression.name)}", _ATOM
    if isinstance(expression, Literal):
        return _literal(expression), _ATOM
    if expression.function in _OPERATORS:
        return _operator(expression, streams)
    if expression.function == "cast":
        return _cast(expression, streams)
    return _other(expression, streams)


def _name(name: str) -> str:
    return name if name.isidentifier() else '"' + name.replace('"', '""') + '"'


def _literal(literal: Literal) -> str:
    value: Any = literal.value
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if pt.is_duration(literal.type):
        length = describe(abs(value) * NANOSECONDS_PER[time_unit(literal.type)])
        return f"INTERVAL '{'-' * (value < 0)}{length}'"
    if pt.is_temporal(literal.type):
        word = "DATE" if pt.is_date(literal.type) else "TIMESTAMP"
        return f"{word} '{pa.scalar(value, literal.type).cast(pa.string()).as_py()}'"
    return str(value)


def _operator(call: Call, streams: Sequence[str]) -> tuple[str, int]:
    sign, strength = _OPERATORS[call.function]
    parts = []
    for position, arg in enumerate(call.args):
        text, inner = _render(arg, streams)
        # a - (b - c): operators of one strength group from the left; comparisons do not chain.
        loose = inner < strength or (inner == strength and (position > 0 or strength == 4))
        parts.append(f"({text})" if loose else text)
    return sign.join(parts), strength


def _cast(call: Call, streams: Sequence[str]) -> tuple[str, int]:
    inner = call.args[0]
    plain = canonical(inner.type)
    if plain is not None and family(plain) == family(call.type):
        return _render(inner, streams)
    return f"CAST({_render(inner, streams)[0]} AS {call.type})", _ATOM


def _other(call: Call, streams: Sequence[str]) -> tuple[str, int]:
    args = [_render(arg, streams) for arg in call.args]
    texts = [text for text, _strength in args]
    match call.function:
        case "not":
            text, strength = args[0]
            return f"NOT {text if strength > _NOT else f'({text})'}", _NOT
        case "negate":
            text, strength = args[0]
            return f"-{text if strength == _ATOM else f'({text})'}", _ATOM - 1
        case "is_null":
            text, strength = args[0]
            return f"{text if strength > 4 else f'({text})'} IS NULL", 4
        case "is_true":
            text, strength = args[0]
            return f"{text if strength > 4 else f'({text})'} IS TRUE", 4
        case "in":
            text, strength = args[0]
            left = text if strength > 4 else f"({text})"
            return f"{left} IN ({', '.join(texts[1:])})", 4
        case "field":
            name = call.args[1]
            assert isinstance(name, Literal)
            return f"{texts[0]}.{_name(name.value)}", _ATOM
        case _:
            name_shown = call.user.name if call.user else call.function
            return f"{name_shown}({', '.join(texts)})", _ATOM

"""Arithmetic and numeric functions.

Integers are 64 bits wide and give null where a result would not fit. Division is floating point;
dividing by zero, or taking the remainder of it, gives null. Times and durations are computed as
the integers that they are.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.arrow_types import MAX_DIGITS
from recalljoin.query.kernels.arrays import (
    Kernel,
    Value,
    as_array,
    is_scalar,
    null_where,
    null_where_impossible,
    null_with,
    numbers_of,
    rows,
)
from recalljoin.query.kernels.rounding import round_half_away

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recalljoin.query.expressions import Call

_EXACT: Final = Context(prec=2 * MAX_DIGITS)


def _arithmetic(plain: Callable[..., Any], checked: Callable[..., Any]) -> Kernel:
    def kernel(call: Call, args: Sequence[Value]) -> Any:
        if pt.is_floating(call.type):
            return plain(*args)
        if pt.is_temporal(call.type):
            ticks = null_where_impossible(checked, *(_ticks(arg) for arg in args))
            return ticks.view(call.type)
        result = null_where_impossible(checked, *args)
        return result if result.type == call.type else result.cast(call.type)

    return kernel


def _ticks(value: Value) -> Value:
    """Times and durations as integers in their unit; the units agree already."""
    if not pt.is_temporal(value.type):
        return value
    return value.cast(pa.int64()) if is_scalar(value) else value.view(pa.int64())


def _divide(_call: Call, args: Sequence[Value]) -> Any:
    dividend, divisor = args
    return null_where(pc.equal(divisor, 0.0), pc.divide(dividend, divisor))


def _modulo(call: Call, args: Sequence[Value]) -> Any:
    if pt.is_decimal(call.type):
        return _decimal_modulo(call, args)
    dividend, divisor = (numbers_of(arg) for arg in args)
    by_zero = np.equal(divisor, 0)
    dtype = np.float64 if pt.is_floating(call.type) else np.int64
    with np.errstate(invalid="ignore"):
        remainder = np.fmod(dividend, np.where(by_zero, 1, divisor))
    result = null_with(remainder.astype(dtype, copy=False), args)
    return null_where(pc.equal(args[1], pa.scalar(0, args[1].type)), result)


def _decimal_modulo(call: Call, args: Sequence[Value]) -> Any:
    length = rows(args)
    pairs = zip(*(as_array(arg, length).to_pylist() for arg in args), strict=True)
    remainders = [
        None if a is None or not b else _exact_remainder(a, b, call.type.scale) for a, b in pairs
    ]
    return pa.array(remainders, call.type)


def _exact_remainder(dividend: Decimal, divisor: Decimal, scale: int) -> Decimal:
    # In whole units of the last digit, because decimals in Python round to 28 digits.
    one, other = (int(each.scaleb(scale, _EXACT)) for each in (dividend, divisor))
    remainder = abs(one) % abs(other)
    return Decimal(-remainder if one < 0 else remainder).scaleb(-scale, _EXACT)


def _power(_call: Call, args: Sequence[Value]) -> Any:
    return pc.power(*args)


def _ln(_call: Call, args: Sequence[Value]) -> Any:
    return null_where(pc.less_equal(args[0], 0.0), pc.ln(args[0]))


def _sign(call: Call, args: Sequence[Value]) -> Any:
    return pc.sign(args[0]).cast(call.type)


def _unary(function: Callable[..., Any]) -> Kernel:
    return lambda _call, args: null_where_impossible(function, args[0])


def _whole(function: Callable[..., Any]) -> Kernel:
    # An integer is its own floor and ceiling; Arrow would turn it into floating point.
    return lambda _call, args: args[0] if pt.is_integer(args[0].type) else function(args[0])


ARITHMETIC_KERNELS: dict[str, Kernel] = {
    "add": _arithmetic(pc.add, pc.add_checked),
    "subtract": _arithmetic(pc.subtract, pc.subtract_checked),
    "multiply": _arithmetic(pc.multiply, pc.multiply_checked),
    "negate": _arithmetic(pc.negate, pc.negate_checked),
    "abs": _arithmetic(pc.abs, pc.abs_checked),
    "divide": _divide,
    "modulo": _modulo,
    "power": _power,
    "sqrt": _unary(pc.sqrt),
    "exp": _unary(pc.exp),
    "ln": _ln,
    "sign": _sign,
    "round": lambda _call, args: round_half_away(args[0], args[1].as_py()),
    "floor": _whole(pc.floor),
    "ceil": _whole(pc.ceil),
}

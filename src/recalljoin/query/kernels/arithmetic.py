"""Arithmetic.

Integers are 64 bits wide, and times and durations are computed as the integers that they are. A
result that does not fit cannot be computed, and neither can a quotient or remainder by zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.kernels.arrays import (
    Computed,
    Kernel,
    Value,
    finished,
    is_scalar,
    numbers_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recalljoin.query.expressions import Call

_SMALLEST: Final = np.int64(-(2**63))
_LARGEST: Final = 2**63 - 1


def _sum(one: Any, other: Any) -> tuple[Any, Any]:
    total = one + other
    return total, ((one ^ total) & (other ^ total)) < 0


def _difference(one: Any, other: Any) -> tuple[Any, Any]:
    left = one - other
    return left, ((one ^ other) & (one ^ left)) < 0


def _product(one: Any, other: Any) -> tuple[Any, Any]:
    product = one * other
    if _magnitude(one) * _magnitude(other) <= _LARGEST:
        return product, None
    divisor = np.where(one == 0, np.int64(1), one)
    wrong = (product // divisor != other) & (one != 0)
    return product, wrong | ((one == -1) & (other == _SMALLEST))


def _magnitude(numbers: Any) -> int:
    array = np.atleast_1d(numbers)
    return max(abs(int(array.min())), abs(int(array.max()))) if len(array) else 0


def _arithmetic(
    plain: Callable[..., Any], exact: Callable[..., Any], decimal: Callable[..., Any]
) -> Kernel:
    def kernel(call: Call, args: Sequence[Value]) -> Computed:
        if pt.is_decimal(call.type):
            # The decimal type was chosen so that every result fits.
            return Computed(decimal(*args))
        if pt.is_floating(call.type):
            return finished(_floats(plain, args), call.type, args)
        ticks = [_ticks(arg) for arg in args]
        with np.errstate(over="ignore"):
            result, wrong = exact(*ticks)
        return finished(result, call.type, args, wrong)

    return kernel


def _ticks(value: Value) -> Any:
    """Values as integers; times and durations count in their unit, and the units agree."""
    if pt.is_temporal(value.type):
        value = value.cast(pa.int64()) if is_scalar(value) else value.view(pa.int64())
    numbers = numbers_of(value)
    return np.int64(numbers) if is_scalar(value) else numbers


def _floats(function: Callable[..., Any], args: Sequence[Value]) -> NDArray[Any]:
    dtype = np.float32 if pt.is_float32(args[0].type) else np.float64
    numbers = [np.asarray(numbers_of(arg), dtype=dtype) for arg in args]
    with np.errstate(all="ignore"):
        result: NDArray[Any] = function(*numbers)
    return result


def _divide(call: Call, args: Sequence[Value]) -> Computed:
    result = _floats(np.divide, args)
    return finished(result, call.type, args, _is_zero(args[1], result))


def _modulo(call: Call, args: Sequence[Value]) -> Computed:
    if pt.is_floating(call.type):
        result = _floats(np.fmod, args)
    else:
        one, other = (_ticks(arg) for arg in args)
        # Dividing by minus one overflows in hardware; the remainder by one is the same.
        result = np.fmod(one, np.where((other == 0) | (other == -1), np.int64(1), other))
    return finished(result, call.type, args, _is_zero(args[1], result))


def _is_zero(divisor: Value, like: NDArray[Any]) -> NDArray[np.bool_]:
    return np.broadcast_to(np.equal(numbers_of(divisor), 0), like.shape)


def _unary(plain: Callable[..., Any], decimal: Callable[..., Any]) -> Kernel:
    def kernel(call: Call, args: Sequence[Value]) -> Computed:
        if pt.is_decimal(call.type):
            return Computed(decimal(args[0]))
        if pt.is_floating(call.type):
            return finished(_floats(plain, args), call.type, args)
        ticks = _ticks(args[0])
        return finished(plain(ticks), call.type, args, ticks == _SMALLEST)

    return kernel


ARITHMETIC_KERNELS: dict[str, Kernel] = {
    "add": _arithmetic(np.add, _sum, pc.add),
    "subtract": _arithmetic(np.subtract, _difference, pc.subtract),
    "multiply": _arithmetic(np.multiply, _product, pc.multiply),
    "negate": _unary(np.negative, pc.negate),
    "abs": _unary(np.abs, pc.abs),
    "divide": _divide,
    "modulo": _modulo,
}

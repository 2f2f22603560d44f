"""Mathematical functions, in double precision and by Java's conventions.

A logarithm of zero or less is null. A root of a negative number and the arc sine of 2 are NaN.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from recalljoin.query.kernels.arrays import Computed, Kernel, Value, finished, numbers_of
from recalljoin.query.kernels.logic import less

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recalljoin.query.expressions import Call

_TWO_63: Final = 2.0**63
_EXACT: Final = 2**52
"""Below this number, doubles can have a fraction."""


def _function(function: Callable[..., Any], *, above: float | None = None) -> Kernel:
    """A function of doubles; null unless all arguments are ``above`` a bound, if one is given."""

    def kernel(call: Call, args: Sequence[Value]) -> Computed:
        numbers = [np.asarray(numbers_of(arg), dtype=np.float64) for arg in args]
        with np.errstate(all="ignore"):
            result = function(*numbers)
        outside = None
        if above is not None:
            outside = reduce(np.logical_or, [number <= above for number in numbers])
        return finished(result, call.type, args, null=outside)

    return kernel


def _power(base: NDArray[np.float64], exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    # C says that 1 to any power is 1; Java makes an exception of NaN and infinity.
    undefined = (np.abs(base) == 1) & ~np.isfinite(exponent)
    return np.where(undefined, np.nan, np.power(base, exponent))


def _log(base: NDArray[np.float64], number: NDArray[np.float64]) -> Any:
    return np.log(number) / np.log(base)


def _atan2(y: NDArray[np.float64], x: NDArray[np.float64]) -> Any:
    # Negative zeros are removed, as they would turn the angle by half a circle.
    return np.arctan2(y + 0.0, x + 0.0)


def _whole(function: Callable[..., Any]) -> Kernel:
    """A function that gives integers; NaN and results beyond 64 bits cannot be computed."""

    def kernel(call: Call, args: Sequence[Value]) -> Computed:
        numbers = function(numbers_of(args[0]))
        inside = (numbers >= -_TWO_63) & (numbers < _TWO_63)
        return finished(np.where(inside, numbers, 0.0).astype(np.int64), call.type, args, ~inside)

    return kernel


def _round(call: Call, args: Sequence[Value]) -> Computed:
    """Round half away from zero, on the shortest decimal that reads as the number."""
    numbers, scale = numbers_of(args[0]), 10 ** args[1].as_py()
    size = np.abs(numbers)
    with np.errstate(all="ignore"):
        near = np.rint(size * scale)
        # Doubles of few digits are ordered like their decimals, so that comparing them is exact.
        near += size >= (10 * near + 5) / (10 * scale)
        near -= size < (10 * near - 5) / (10 * scale)
        result = np.copysign(near / scale, numbers)
        rare = (size * scale >= _EXACT / 100) & (size < _EXACT)
    if rare.any():
        result[rare] = [_rounded(each, args[1].as_py()) for each in numbers[rare]]
    return finished(np.where(size < _EXACT, result, numbers), call.type, args)


def _rounded(number: float, places: int) -> float:
    return float(Decimal(repr(float(number))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def _extreme(is_better: Callable[[Value, Value], Any]) -> Kernel:
    """The best argument on each row; nulls are passed over."""

    def better(one: Value, other: Value) -> Any:
        keep_one = pc.or_kleene(pc.is_null(other), pc.invert(is_better(other, one)))
        return pc.if_else(pc.fill_null(keep_one, False), one, other)

    return lambda _call, args: Computed(reduce(better, args))


NUMBER_KERNELS: dict[str, Kernel] = {
    "acos": _function(np.arccos),
    "asin": _function(np.arcsin),
    "atan": _function(np.arctan),
    "atan2": _function(_atan2),
    "cbrt": _function(np.cbrt),
    "ceil": _whole(np.ceil),
    "cos": _function(np.cos),
    "cosh": _function(np.cosh),
    "degrees": _function(np.degrees),
    "exp": _function(np.exp),
    "expm1": _function(np.expm1),
    "floor": _whole(np.floor),
    "greatest": _extreme(lambda one, other: less(other, one)),
    "hypot": _function(np.hypot),
    "least": _extreme(less),
    "ln": _function(np.log, above=0),
    "log": _function(_log, above=0),
    "log10": _function(np.log10, above=0),
    "log1p": _function(np.log1p, above=-1),
    "log2": _function(np.log2, above=0),
    "power": _function(_power),
    "radians": _function(np.radians),
    "round": _round,
    "sign": _function(np.sign),
    "sin": _function(np.sin),
    "sinh": _function(np.sinh),
    "sqrt": _function(np.sqrt),
    "tan": _function(np.tan),
    "tanh": _function(np.tanh),
}

"""Array steps that several kernels share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recalljoin.query.expressions import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value: TypeAlias = Any  # pa.Array | pa.Scalar
"""An evaluated argument: one value per row, or one for all rows."""

Kernel = Callable[[Call, Sequence[Any]], Any]
"""From a call and its evaluated arguments to an array."""


def is_scalar(value: Value) -> bool:
    """Whether one value stands for all rows."""
    return isinstance(value, pa.Scalar)


def rows(arguments: Sequence[Value]) -> int:
    """Number of rows, told by whichever argument is an array."""
    return next(len(argument) for argument in arguments if not is_scalar(argument))


def as_array(value: Value, length: int) -> pa.Array:
    """``value`` with one entry for each of ``length`` rows."""
    if not is_scalar(value):
        return value
    return pa.nulls(length, value.type) if not value.is_valid else pa.repeat(value, length)


def numbers_of(value: Value) -> Any:
    """The numbers as numpy sees them; anything at all where a value is null."""
    if is_scalar(value):
        return value.as_py() if value.is_valid else 0
    if value.null_count:
        value = pc.fill_null(value, 0)
    return value.to_numpy(zero_copy_only=False)


def null_where(mask: Value, array: Value) -> Any:
    """``array`` with nulls where ``mask`` is true, and where ``array`` has them already."""
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(None, array.type), array)


def null_with(result: NDArray[Any], arguments: Sequence[Value]) -> Any:
    """A numpy result as an array, null wherever an argument is."""
    array = pa.array(result)
    for argument in arguments:
        if is_scalar(argument):
            if not argument.is_valid:
                return pa.nulls(len(array), array.type)
        elif argument.null_count:
            array = null_where(pc.is_null(argument), array)
    return array


def null_where_impossible(function: Callable[..., Any], *arguments: Value) -> Any:
    """``function`` of the arguments, null on those rows for which Arrow refuses to compute it.

    Arrow refuses a whole array when one row overflows or cannot be converted. Such rows are rare,
    so they are found by halving: the cost is one ordinary call plus a few per row refused.
    """
    try:
        return function(*arguments)
    except pa.ArrowInvalid:
        length = rows(arguments)
        if length <= 1:
            # Of an empty array the function gives its type without meeting any value.
            return pa.nulls(length, function(*_sliced(arguments, 0, 0)).type)
        half = length // 2
        left = null_where_impossible(function, *_sliced(arguments, 0, half))
        right = null_where_impossible(function, *_sliced(arguments, half, length - half))
        return pa.concat_arrays([left, right])


def has_nan(value: Value) -> bool:
    """Whether a floating-point value may be NaN; wrong only on the side of yes."""
    return bool(np.isnan(numbers_of(value)).any())


def _sliced(arguments: Sequence[Value], start: int, length: int) -> list[Value]:
    return [each if is_scalar(each) else each.slice(start, length) for each in arguments]

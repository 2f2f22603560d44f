"""Calls of the user's own functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.errors import FunctionError
from recalljoin.query.arrow_types import canonical, family, is_number
from recalljoin.query.kernels.arrays import Computed, Value, as_array
from recalljoin.query.kernels.widening import to_double

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.expressions import Call
    from recalljoin.query.functions import UserFunction


def call_user_function(call: Call, args: Sequence[Value], length: int) -> Computed:
    """The function's results for ``length`` rows, as an array of the type it declares.

    Raises
    ------
    FunctionError
        When the function raises, or returns another number of values or another type.
    """
    assert call.user is not None
    user = call.user
    arrays = [as_array(arg, length) for arg in args]
    if user.nulls == "pass":
        return Computed(_per_row(user, arrays, length))
    complete = _complete_rows(arrays)
    if complete is None:
        return Computed(_on_complete(user, arrays, length))
    dense = [array.filter(complete) for array in arrays]
    results = _on_complete(user, dense, pc.sum(complete).as_py() or 0)
    # Each row without a null argument takes the next result; a null index gives null.
    places = np.cumsum(complete.to_numpy(zero_copy_only=False)) - 1
    missing = ~complete.to_numpy(zero_copy_only=False)
    return Computed(results.take(pa.array(places, mask=missing)))


def _complete_rows(arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Which rows have no null argument; None when no row has a null argument."""
    complete = None
    for array in arrays:
        if array.null_count:
            valid = pc.is_valid(array)
            complete = valid if complete is None else pc.and_(complete, valid)
    return complete


def _on_complete(user: UserFunction, arrays: Sequence[pa.Array], length: int) -> Any:
    if not length:
        return pa.nulls(0, user.returns)
    if user.scalar:
        return _per_row(user, arrays, length)
    given = [array.to_numpy(zero_copy_only=False) for array in arrays]
    try:
        result = user.function(*given)
    except (Exception, SystemExit) as error:
        raise FunctionError(_failure(user, error)) from error
    return _checked(user, result, length)


def _per_row(user: UserFunction, arrays: Sequence[pa.Array], length: int) -> Any:
    table = zip(*(array.to_pylist() for array in arrays), strict=True) if arrays else [()] * length
    try:
        values = [user.function(*row) for row in table]
    except (Exception, SystemExit) as error:
        raise FunctionError(_failure(user, error)) from error
    return _checked(user, values, length)


def _checked(user: UserFunction, result: Any, length: int) -> Any:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array | list):
        mask = np.ma.getmaskarray(result) if isinstance(result, np.ma.MaskedArray) else None
        result = np.asarray(result)
        if result.ndim == 1:
            # What Arrow has no type for, such as complex numbers, is refused like any other value.
            known = result.dtype != object and result.dtype.kind != "c"
            result = pa.array(result, mask=mask) if known else result.tolist()
    if not isinstance(result, pa.Array | list) or len(result) != length:
        n_dimensions = getattr(result, "ndim", 1)
        got = f"an array of {n_dimensions} dimensions"
        if n_dimensions < 2:
            got = f"{len(result)} values" if n_dimensions else "one value"
        fault = (
            f"function `{user.name}` returned {got} for {length} rows; "
            "a vectorised function returns one array of that length, "
            "register it with scalar=True if it takes one row at a time"
        )
        raise FunctionError(fault)
    return _typed(user, result)


def _typed(user: UserFunction, result: Any) -> Any:
    try:
        if isinstance(result, list):
            return pa.array(result, user.returns)
        if is_number(result.type) and pt.is_floating(user.returns):
            # Numbers may be rounded to floating point; any other conversion must be exact.
            doubles = to_double(result) if pt.is_decimal128(result.type) else result
            return doubles.cast(user.returns, safe=False)
        if not _is_kind_of(result.type, user.returns):
            raise pa.ArrowTypeError(result.type)
        return result.cast(user.returns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        fault = (
            f"function `{user.name}` returned values that are not {user.returns}: {error}; "
            "register it with the type that it returns"
        )
        raise FunctionError(fault) from error


def _is_kind_of(given: pa.DataType, wanted: pa.DataType) -> bool:
    one, other = canonical(given), canonical(wanted)
    return is_number(given) == is_number(wanted) and (
        is_number(given) or (one is not None and family(one) == family(other))
    )


def _failure(user: UserFunction, error: BaseException) -> str:
    return f"function `{user.name}` failed: {type(error).__name__}: {error}"

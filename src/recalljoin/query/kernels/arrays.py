"""Array steps that several kernels share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recalljoin.query.expressions import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value: TypeAlias = Any  # pa.Array | pa.Scalar
"""An evaluated argument: one value per row, or one for all rows."""


class Computed(NamedTuple):
    """Values, and the rows whose value cannot be computed, where the values are null."""

    values: Value
    impossible: NDArray[np.bool_] | None = None

    @property
    def n_impossible(self) -> int:
        """How many values cannot be computed."""
        return 0 if self.impossible is None else int(self.impossible.sum())


Kernel = Callable[[Call, Sequence[Any]], Computed]
"""From a call and its evaluated arguments to its values."""


def is_scalar(value: Value) -> bool:
    """Whether one value stands for all rows."""
    return isinstance(value, pa.Scalar)


def as_array(value: Value, length: int) -> pa.Array:
    """``value`` with one entry for each of ``length`` rows."""
    if not is_scalar(value):
        return value
    return pa.nulls(length, value.type) if not value.is_valid else pa.repeat(value, length)


def numbers_of(value: Value) -> Any:
    """The numbers as a numpy array; the number for a null means nothing."""
    if is_scalar(value):
        return value.as_py() if value.is_valid else 0
    if value.null_count:
        value = pc.fill_null(value, 0)
    return value.to_numpy(zero_copy_only=False)


def null_where(mask: Value, array: Value) -> Any:
    """``array`` with nulls where ``mask`` is true, and where ``array`` has them already."""
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(None, array.type), array)


def known_rows(arguments: Sequence[Value]) -> NDArray[np.bool_] | None:
    """The rows on which no argument is null; None for all."""
    known: NDArray[np.bool_] | None = None
    for argument in arguments:
        if is_scalar(argument):
            if not argument.is_valid:
                return np.zeros(1, dtype=np.bool_)
        elif argument.null_count:
            valid = np.asarray(argument.is_valid())
            known = valid if known is None else known & valid
    return known


def finished(
    result: NDArray[Any],
    type_: pa.DataType,
    arguments: Sequence[Value],
    impossible: NDArray[np.bool_] | None = None,
    null: NDArray[np.bool_] | None = None,
) -> Computed:
    """A numpy result as an array of a type, null wherever an argument is.

    Parameters
    ----------
    result
        One value for each row.
    type_
        Type of the array.
    arguments
        The arguments of the call.
    impossible
        Rows whose value cannot be computed; a row with a null argument is null all the same.
    null
        Further rows that are null.
    """
    known = known_rows(arguments)
    missing = null if known is None else (~known if null is None else ~known | null)
    if impossible is not None:
        impossible = impossible if known is None else impossible & known
        if impossible.any():
            missing = impossible if missing is None else missing | impossible
        else:
            impossible = None
    if missing is not None:
        missing = np.broadcast_to(missing, result.shape)
    return Computed(pa.array(result, type_, mask=missing), impossible)


def has_nan(value: Value) -> bool:
    """Whether a floating-point value may be NaN; True may be wrong, False never is."""
    return bool(np.isnan(numbers_of(value)).any())

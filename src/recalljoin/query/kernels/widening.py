"""Conversions to a type that holds every value, and fields of structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.durations import NANOSECONDS_PER
from recalljoin.query.kernels.arrays import Computed, Kernel, Value, as_array, finished, numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.expressions import Call

_EXACT_INTEGERS: Final = 2**53
_EXACT_POWERS: Final = 22
"""10 to this power is the largest power of ten that is exact as a double."""


def plain(array: pa.Array) -> pa.Array:
    """The same values as a plain array: few kernels take dictionaries, extensions or views."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pt.is_dictionary(array.type):
        return plain(array.dictionary).take(array.indices)
    if pt.is_string_view(array.type):
        return array.cast(pa.string())
    if pt.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def to_double(array: pa.Array) -> Any:
    """Decimals as the nearest doubles; Arrow's conversion is off in the last digit."""
    if 0 <= array.type.scale <= _EXACT_POWERS:
        halves = np.frombuffer(array.buffers()[1] or b"", np.int64).reshape(-1, 2)
        low, high = halves[array.offset : array.offset + len(array)].T
        if ((high == low >> 63) & (np.abs(low) < _EXACT_INTEGERS)).all():
            # Dividend and divisor are exact, so that the division rounds once.
            return finished(low / 10.0**array.type.scale, pa.float64(), [array]).values
    return array.cast(pa.string()).cast(pa.float64())


def _cast(call: Call, args: Sequence[Value]) -> Computed:
    array, target = plain(args[0]), call.type
    if array.type == target:
        return Computed(array)
    if pt.is_decimal128(array.type) and pt.is_floating(target):
        return Computed(to_double(array).cast(target))
    if pt.is_integer(array.type) and pt.is_decimal(target):
        array = array.cast(pa.decimal128(20, 0))
    # An integer rounds to the nearest floating-point number, as in all other kernels.
    options = pc.CastOptions(target, allow_float_truncate=True)
    try:
        return Computed(pc.cast(array, options=options))
    except pa.ArrowInvalid:
        return _finer(array, target)


def _finer(array: pa.Array, target: pa.DataType) -> Computed:
    """Times and durations in a finer unit; values beyond 64 bits cannot be computed."""
    factor = NANOSECONDS_PER[array.type.unit] // NANOSECONDS_PER[target.unit]
    ticks = numbers_of(array.view(pa.int64()))
    outside = (ticks > (2**63 - 1) // factor) | (ticks < -(2**63 - 1) // factor)
    return finished(np.where(outside, 0, ticks) * factor, target, [array], outside)


def _field(call: Call, args: Sequence[Value]) -> Computed:
    struct, name = args
    struct = plain(as_array(struct, 1))
    if pt.is_null(struct.type):
        return Computed(pa.nulls(len(struct), call.type))
    return Computed(pc.struct_field(struct, [struct.type.get_field_index(name.as_py())]))


WIDENING_KERNELS: dict[str, Kernel] = {"cast": _cast, "field": _field}

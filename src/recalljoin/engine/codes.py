"""Keys as integers where they fit 64 bits, and as bytes where they do not.

Routing tasks hash keys by these codes; so this module loads no kernels.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s


def is_own_code(kind: pa.DataType) -> bool:
    """Whether values of a type fit 64 bits, and so are their own codes."""
    return bool(
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_temporal(kind)
        or pt.is_null(kind)
        or (pt.is_decimal128(kind) and kind.precision <= 18)
    )


def own_codes(values: pa.Array) -> Int64s:
    """The codes of such values; the code of a null means nothing."""
    kind = values.type
    if pt.is_null(kind):
        return np.zeros(len(values), dtype=np.int64)
    if pt.is_floating(kind):
        numbers = np.array(values.cast(pa.float64()).fill_null(0.0), dtype=np.float64)
        # One zero and one NaN: equal values must have equal bits.
        numbers += 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.int64)
    if pt.is_decimal128(kind):
        # Up to 18 digits the unscaled value is the lower half of the 128 bits.
        filled = pc.fill_null(values, pa.scalar(Decimal(0), kind))
        halves = np.frombuffer(filled.buffers()[1], dtype=np.int64)
        lower: Int64s = halves[2 * filled.offset : 2 * (filled.offset + len(filled)) : 2].copy()
        return lower
    if pt.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pt.is_date32(kind) or pt.is_time32(kind):
        values = values.cast(pa.int32())
    elif pt.is_temporal(kind):
        values = values.cast(pa.int64())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    codes: Int64s = (
        numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64)
    )
    return codes


def as_bytes(values: pa.Array) -> pa.Array:
    """The bytes of values of any other type; equal values have equal bytes."""
    if pt.is_decimal(values.type):
        width = values.type.byte_width
        buffers = [None, values.buffers()[1]]
        fixed = pa.Array.from_buffers(pa.binary(width), len(values), buffers, offset=values.offset)
        return fixed.cast(pa.large_binary())
    if pt.is_string(values.type) or pt.is_large_string(values.type):
        return values.cast(pa.large_string()).cast(pa.large_binary())
    return values.cast(pa.large_binary())

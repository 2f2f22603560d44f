"""Rounding to a number of digits, half away from zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.kernels.arrays import (
    null_where,
    null_where_impossible,
    null_with,
    numbers_of,
)

_INT_DIGITS: Final = 18
"""Largest power of ten among 64-bit integers."""
_FLOAT_DIGITS: Final = 308
"""Largest power of ten among floating-point numbers."""
_NO_FRACTION: Final = 2.0**52
"""From here on floating-point numbers are whole."""


def round_half_away(array: pa.Array, digits: int) -> Any:
    """``array`` rounded to ``digits`` after the point, or before it when negative.

    Integers and decimals are exact, and null where the result does not fit. A floating-point
    number is scaled, rounded and scaled back: 1.005 is a bit less than it says, and gives 1.0.
    """
    if pt.is_floating(array.type):
        return _round_floats(array, digits)
    if pt.is_decimal(array.type):
        # One digit more than the values have was added for the carry.
        whole_digits = array.type.precision - 1 - array.type.scale
        digits = min(digits, array.type.scale)
        vanishes = -digits > whole_digits
    else:
        digits = min(digits, 0)
        vanishes = -digits > _INT_DIGITS
    if vanishes:
        zero = pa.scalar(Decimal(0) if pt.is_decimal(array.type) else 0, array.type)
        zeros = pc.if_else(pc.is_valid(array), zero, array)
        if -digits == _INT_DIGITS + 1 and pt.is_integer(array.type):
            # Half of 10^19 rounds up to what 64 bits do not hold.
            half = 5 * 10**_INT_DIGITS
            zeros = null_where(
                pc.or_(pc.less_equal(array, -half), pc.greater_equal(array, half)), zeros
            )
        return zeros

    def rounded(part: pa.Array) -> Any:
        return pc.round(part, ndigits=digits, round_mode="half_towards_infinity")

    return null_where_impossible(rounded, array)


def _round_floats(array: pa.Array, digits: int) -> Any:
    # Arrow's own rounding is off for large numbers, and refuses some altogether.
    values = numbers_of(array)
    scale = 10.0 ** min(abs(digits), _FLOAT_DIGITS)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(values) * scale if digits >= 0 else np.abs(values) / scale
        whole = np.floor(scaled)
        whole += scaled - whole >= 0.5
        result = np.copysign(whole / scale if digits >= 0 else whole * scale, values)
    if digits >= 0:
        result = np.where(scaled < _NO_FRACTION, result, values)
    return null_with(result, [array])

"""Conversions between types; a value that the target cannot hold becomes null.

Numbers lose digits the way people expect: to an integer by dropping the fraction, to a decimal by
rounding half away from zero. A timestamp without zone is read as UTC when a zone is asked for.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.arrow_types import MAX_DIGITS, is_zoned
from recalljoin.query.kernels.arrays import (
    Kernel,
    Value,
    is_scalar,
    null_where,
    null_where_impossible,
    null_with,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.expressions import Call

_TWO_63: Final = float(2**63)
_EXACT_INTEGERS: Final = 2**53
_EXACT_POWERS: Final = 22
"""Largest power of ten that is a floating-point number."""
_ZONE: Final = r"(?:[zZ]|[+-]\d{2}(?::?\d{2})?)"
_DATE_TEXT: Final = r"\d{4}-\d{2}-\d{2}"
_TIME_TEXT: Final = r"(?:[ T]\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?)"
_NUMBER_TEXT: Final = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_SPECIAL: Final = r"-?(?i:inf|infinity|nan)"


def convert(array: pa.Array, target: pa.DataType) -> Any:
    """``array`` as ``target``; see the module for what happens to values that do not fit."""
    array = _plain(array)
    source = array.type
    if source == target:
        return array
    if pt.is_string(source) or pt.is_large_string(source):
        return _from_text(array, target)
    if pt.is_floating(source) and pt.is_integer(target):
        return _to_whole(array, target)
    if pt.is_decimal(target):
        return _to_decimal(array, target)
    if pt.is_decimal(source) and pt.is_floating(target):
        return _to_floating(array).cast(target)
    if pt.is_decimal(source) and pt.is_boolean(target):
        return pc.not_equal(array, pa.scalar(Decimal(0), source))
    if pt.is_date(source) and is_zoned(target):
        # Midnight in the zone; where clocks skip it, the first moment after.
        midnight = array.cast(pa.timestamp(target.unit))
        return pc.assume_timezone(midnight, target.tz, ambiguous="earliest", nonexistent="latest")
    options = pc.CastOptions(
        target,
        # A fraction or a finer time is cut off; a value out of range is null.
        allow_time_truncate=True,
        allow_decimal_truncate=True,
        # Only reached from integers, which may round to the nearest floating-point number.
        allow_float_truncate=True,
    )
    return null_where_impossible(lambda each: pc.cast(each, options=options), array)


def _plain(array: pa.Array) -> pa.Array:
    """Without dictionary, run ends, extension or view: kernels know few of those."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pt.is_dictionary(array.type):
        return _plain(array.dictionary).take(array.indices)
    if pt.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    if pt.is_string_view(array.type):
        return array.cast(pa.string())
    if pt.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def _from_text(array: pa.Array, target: pa.DataType) -> Any:
    return _to_instant(array, target) if is_zoned(target) else _read(array, target)


def _read(array: pa.Array, target: pa.DataType) -> Any:
    """Text that does not look like the target is null at once, the rest is tried."""
    pattern = _looks_like(target)
    if pattern is None:
        return null_where_impossible(lambda each: each.cast(target), array)
    # Arrow reads neither blanks nor a plus sign.
    trimmed = pc.replace_substring_regex(pc.ascii_trim_whitespace(array), r"^\+", "")
    fits = pc.match_substring_regex(trimmed, f"^(?:{pattern})$")
    candidates = null_where(pc.invert(fits), trimmed)
    if pt.is_decimal(target):
        # Read wider than needed, because Arrow refuses to drop digits while reading.
        scale = min(target.scale + 20, MAX_DIGITS)
        wide = pa.decimal256(MAX_DIGITS, scale)
        return _to_decimal(null_where_impossible(lambda each: each.cast(wide), candidates), target)
    return null_where_impossible(lambda each: each.cast(target), candidates)


def _looks_like(target: pa.DataType) -> str | None:
    if pt.is_integer(target):
        return r"-?\d+" if pt.is_signed_integer(target) else r"\d+"
    if pt.is_floating(target):
        return f"{_NUMBER_TEXT}|{_SPECIAL}"
    if pt.is_decimal(target):
        return _NUMBER_TEXT
    if pt.is_date(target):
        return _DATE_TEXT
    if pt.is_timestamp(target):
        return f"{_DATE_TEXT}{_TIME_TEXT}" + (_ZONE if is_zoned(target) else "?")
    return None


def _to_instant(array: pa.Array, target: pa.DataType) -> Any:
    """Text with an offset is the instant it names; without, it is read as UTC."""
    offset = _read(array, target)
    if offset.null_count == array.null_count:
        return offset
    return pc.coalesce(offset, _read(array, pa.timestamp(target.unit)).cast(target))


def _to_whole(array: pa.Array, target: pa.DataType) -> Any:
    array = pc.trunc(array.cast(pa.float64()))
    outside = pc.or_(pc.less(array, -_TWO_63), pc.greater_equal(array, _TWO_63))
    outside = pc.or_(outside, pc.is_nan(array))
    whole = null_where(outside, array).cast(pa.int64())
    return whole if target == pa.int64() else convert(whole, target)


def _to_decimal(array: pa.Array, target: pa.DataType) -> Any:
    if pt.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pt.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if pt.is_decimal(array.type):
        if array.type.scale > target.scale:
            array = _rounded(array, target.scale)
        if pt.is_decimal256(target) or pt.is_decimal256(array.type):
            array = array.cast(pa.decimal256(MAX_DIGITS, array.type.scale))

    def cast(each: pa.Array) -> Any:
        return each.cast(target)

    return null_where_impossible(cast, array)


def _to_floating(array: pa.Array) -> Any:
    """The nearest floating-point number; Arrow's own conversion is off in the last digit."""
    if pt.is_decimal128(array.type) and 0 <= array.type.scale <= _EXACT_POWERS:
        halves = np.frombuffer(array.buffers()[1] or b"", np.int64).reshape(-1, 2)
        low, high = halves[array.offset : array.offset + len(array)].T
        if ((high == low >> 63) & (np.abs(low) < _EXACT_INTEGERS)).all():
            # Both numbers are exact, so that one division rounds once.
            return null_with(low / 10.0**array.type.scale, [array])
    return array.cast(pa.string()).cast(pa.float64())


def _rounded(array: pa.Array, scale: int) -> Any:
    digits = min(array.type.precision + 1, MAX_DIGITS)
    wide = array.cast(pa.decimal256(digits, array.type.scale))

    def rounded(each: pa.Array) -> Any:
        return pc.round(each, ndigits=scale, round_mode="half_towards_infinity")

    return null_where_impossible(rounded, wide)


def _cast(call: Call, args: Sequence[Value]) -> Any:
    return convert(args[0], call.type)


def _field(call: Call, args: Sequence[Value]) -> Any:
    struct, name = args
    if is_scalar(struct):
        return pa.nulls(1, call.type)
    struct = _plain(struct)
    return pc.struct_field(struct, [struct.type.get_field_index(name.as_py())])


CONVERSION_KERNELS: dict[str, Kernel] = {"cast": _cast, "field": _field}

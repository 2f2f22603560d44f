"""Event times as integers, and the times that stand for "not yet" and "no more".

All other times are within ``MAX_TIME`` of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s

NEVER = np.iinfo(np.int64).min
"""Minus infinity: the value of every clock before anything has arrived."""
FOREVER = np.iinfo(np.int64).max
"""Plus infinity: the watermark after the end of input."""

# Why a row is refused.
NULL_TIME = "null time"
TIME_OUT_OF_RANGE = "time out of range"
NULL_ARRIVAL = "null arrival"
FAR_AHEAD = "time far ahead of its stream"

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of a unit make a second."""


def times_of(
    column: pa.ChunkedArray | pa.Array, unit: str, time_unit: str
) -> tuple[Int64s, NDArray[np.bool_]]:
    """Times as integers in ``unit``, and which times are not null.

    A time too large for the unit becomes the smallest integer, which is out of range.

    Parameters
    ----------
    column
        Timestamps, or integers.
    unit
        What the query counts in: as fine as the column, or finer.
    time_unit
        What integers in the column count in.
    """
    kind = column.type
    known = np.asarray(column.is_valid())
    values = column
    own = kind.unit if pt.is_timestamp(kind) else time_unit
    factor = PER_SECOND[unit] // PER_SECOND[own]
    if pt.is_timestamp(kind):
        values = column.cast(pa.int64())
    elif pt.is_uint64(kind):
        values = pc.if_else(pc.less_equal(column, pa.scalar(MAX_TIME, pa.uint64())), column, None)
    # Arrow copies the column even where there is no null to be filled.
    filled = values.fill_null(0) if values.null_count else values
    numbers = filled.cast(pa.int64()).to_numpy()
    if pt.is_uint64(kind):
        numbers = np.where(
            np.asarray(values.is_valid()) | ~known, numbers, np.iinfo(np.int64).min + 1
        )
    if factor > 1:
        limit = MAX_TIME // factor
        fits = (numbers >= -limit) & (numbers <= limit)
        numbers = np.where(fits, numbers, 0) * factor
        numbers[~fits] = np.iinfo(np.int64).min + 1
    return np.asarray(numbers, dtype=np.int64), known

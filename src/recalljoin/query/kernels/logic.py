"""Comparison and three-valued logic.

Floating-point numbers are ordered as in Spark: NaN equals NaN and is larger than every other
number, and -0.0 equals 0.0.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from recalljoin.query.kernels.arrays import Computed, Kernel, Value, has_nan, null_where

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recalljoin.query.expressions import Call


def equal(one: Value, other: Value) -> Any:
    """Whether two values of one type are equal; null if either value is null."""
    result = pc.equal(one, other)
    if _may_be_nan(one, other):
        result = pc.or_(result, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    return result


def less(one: Value, other: Value) -> Any:
    """Whether the first of two values of one type is the smaller; null if either is null."""
    result = pc.less(one, other)
    if _may_be_nan(one, other):
        result = pc.or_(result, pc.and_(pc.invert(pc.is_nan(one)), pc.is_nan(other)))
    return result


def _may_be_nan(one: Value, other: Value) -> bool:
    return pt.is_floating(one.type) and (has_nan(one) or has_nan(other))


def _comparison(compare: Callable[[Value, Value], Any], *, inverted: bool = False) -> Kernel:
    def kernel(_call: Call, args: Sequence[Value]) -> Computed:
        result = compare(*args)
        return Computed(pc.invert(result) if inverted else result)

    return kernel


def _greater(one: Value, other: Value) -> Any:
    return less(other, one)


def _in(call: Call, args: Sequence[Value]) -> Computed:
    value, literals = args[0], args[1:]
    known = pa.array([each.as_py() for each in literals if each.is_valid], value.type)
    if pt.is_floating(value.type):
        # Arrow finds members by their bits; adding zero turns -0.0 into 0.0.
        value, known = pc.add(value, 0.0), pc.add(known, 0.0)
    found = null_where(pc.is_null(value), pc.is_in(value, value_set=known))
    if len(known) == len(literals):
        return Computed(found)
    # x IN (1, NULL) is true for 1 and unknown for everything else.
    return Computed(pc.if_else(pc.fill_null(found, False), found, pa.scalar(None, call.type)))


LOGIC_KERNELS: dict[str, Kernel] = {
    "eq": _comparison(equal),
    "ne": _comparison(equal, inverted=True),
    "lt": _comparison(less),
    "ge": _comparison(less, inverted=True),
    "gt": _comparison(_greater),
    "le": _comparison(_greater, inverted=True),
    "and": lambda _call, args: Computed(reduce(pc.and_kleene, args)),
    "or": lambda _call, args: Computed(reduce(pc.or_kleene, args)),
    "not": lambda _call, args: Computed(pc.invert(args[0])),
    "is_null": lambda _call, args: Computed(pc.is_null(args[0])),
    "is_true": lambda _call, args: Computed(pc.fill_null(args[0], False)),
    "in": _in,
}

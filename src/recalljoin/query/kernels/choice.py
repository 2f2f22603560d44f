"""Functions that pick one of their arguments."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from recalljoin.query.kernels.arrays import Kernel, Value, is_scalar
from recalljoin.query.kernels.logic import less

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recalljoin.query.expressions import Call


def _extreme(is_better: Callable[[Value, Value], Any]) -> Kernel:
    """The best argument on each row; nulls are passed over, as in Spark."""

    def better(one: Value, other: Value) -> Any:
        keep_one = pc.or_kleene(pc.is_null(other), pc.invert(is_better(other, one)))
        return pc.if_else(pc.fill_null(keep_one, False), one, other)

    return lambda _call, args: reduce(better, args)


def _if(_call: Call, args: Sequence[Value]) -> Any:
    condition, then, otherwise = args
    chosen = pc.fill_null(condition, False)
    if is_scalar(chosen):
        # Arrow broadcasts a scalar condition against arrays, not against two scalars.
        chosen = pa.repeat(chosen, next(len(arg) for arg in args if not is_scalar(arg)))
    return pc.if_else(chosen, then, otherwise)


CHOICE_KERNELS: dict[str, Kernel] = {
    "least": _extreme(less),
    "greatest": _extreme(lambda one, other: less(other, one)),
    "coalesce": lambda _call, args: pc.coalesce(*args),
    "if": _if,
}

"""Evaluation of typed expressions, a whole array at a time.

SQL's three-valued logic throughout: a null operand gives null, except that ``false AND null`` is
false, ``true OR null`` is true, and ``IS NULL``, ``COALESCE``, ``LEAST``, ``GREATEST``, ``IF`` and
``CASE`` look at nulls themselves. No arithmetic raises: overflow, division by zero and impossible
conversions give null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from recalljoin.query.expressions import Call, Column, Expression, Literal
from recalljoin.query.kernels import KERNELS, Value, call_user_function
from recalljoin.query.kernels.arrays import as_array, is_scalar

ColumnSource = Callable[[int, str], Any]
"""From a stream's index and a column's name to that column's values."""

_LOOKS_AT_NULLS = frozenset({"and", "or", "is_null", "coalesce", "least", "greatest", "if", "cast"})


def evaluate(expression: Expression, column: ColumnSource, length: int) -> pa.Array:
    """Values of ``expression`` on ``length`` rows.

    Parameters
    ----------
    expression
        A bound expression.
    column
        Gives the values of a column of a stream, one per row; called once for each column.
    length
        Number of rows.

    Returns
    -------
    pyarrow.Array
        ``length`` values of type ``expression.type``.

    Examples
    --------
    >>> price = Column(0, "price", pa.int64())
    >>> dear = Call("gt", (price, Literal(10, pa.int64())), pa.bool_())
    >>> evaluate(dear, lambda stream, name: pa.array([5, 20, None]), 3).to_pylist()
    [False, True, None]
    """
    return as_array(_Evaluation(column, length).value(expression), length)


class _Evaluation:
    """One pass over a tree; each column is fetched once however often it occurs."""

    def __init__(self, column: ColumnSource, length: int) -> None:
        self._column = column
        self._length = length
        self._fetched: dict[tuple[int, str], pa.Array] = {}

    def value(self, expression: Expression) -> Value:
        if isinstance(expression, Literal):
            return pa.scalar(expression.value, expression.type)
        if isinstance(expression, Column):
            return self._fetch(expression)
        args = [self.value(arg) for arg in expression.args]
        if args and all(is_scalar(arg) for arg in args):
            # Constant: computed for one row, which then stands for all.
            return _apply(expression, [as_array(args[0], 1), *args[1:]], 1)[0]
        return _apply(expression, args, self._length)

    def _fetch(self, column: Column) -> pa.Array:
        key = (column.stream, column.name)
        if key not in self._fetched:
            values = self._column(*key)
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            self._fetched[key] = values
        return self._fetched[key]


def _apply(call: Call, args: list[Value], length: int) -> Any:
    if call.user is not None:
        return call_user_function(call, args, length)
    if call.function not in _LOOKS_AT_NULLS and any(pt.is_null(arg.type) for arg in args):
        # Arrow has few kernels for columns that hold nothing but nulls.
        return pa.nulls(length, call.type)
    return KERNELS[call.function](call, args)

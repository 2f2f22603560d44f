"""Evaluation of typed expressions, a whole array at a time.

Evaluation follows SQL's three-valued logic: a null operand gives null, except that ``false AND
null`` is false, ``true OR null`` is true, and ``IS NULL``, ``IS TRUE``, ``LEAST`` and ``GREATEST``
have rules of their own for nulls. Where Spark would raise an error, because of an overflow or a
division by zero, a value is *impossible*. Everything computed from an impossible value is
impossible as well, except that ``false AND impossible`` is false and ``true OR impossible`` is
true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from recalljoin.query.expressions import Column, Expression, Literal
from recalljoin.query.kernels import KERNELS, Computed, call_user_function
from recalljoin.query.kernels.arrays import as_array, is_scalar, null_where

ColumnSource = Callable[[int, str], Any]
"""From a stream's index and a column's name to that column's values."""


def evaluate(expression: Expression, column: ColumnSource, length: int) -> pa.Array:
    """Values of ``expression`` on ``length`` rows, null where they are impossible.

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
    >>> from recalljoin.query.expressions import Call
    >>> price = Column(0, "price", pa.int64())
    >>> dear = Call("gt", (price, Literal(10, pa.int64())), pa.bool_())
    >>> evaluate(dear, lambda stream, name: pa.array([5, 20, None]), 3).to_pylist()
    [False, True, None]
    """
    return compute(expression, column, length).values


def compute(expression: Expression, column: ColumnSource, length: int) -> Computed:
    """The values as in :func:`evaluate`, and the rows whose value is impossible."""
    values, impossible = _Evaluation(column, length).value(expression)
    return Computed(as_array(values, length), impossible)


class _Evaluation:
    """One pass over a tree, in which each column is fetched once however often it occurs."""

    def __init__(self, column: ColumnSource, length: int) -> None:
        self._column = column
        self._length = length
        self._fetched: dict[tuple[int, str], pa.Array] = {}

    def value(self, expression: Expression) -> Computed:
        if isinstance(expression, Literal):
            return Computed(pa.scalar(expression.value, expression.type))
        if isinstance(expression, Column):
            return Computed(self._fetch(expression))
        args = [self.value(arg) for arg in expression.args]
        values = [arg.values for arg in args]
        if values and all(is_scalar(value) for value in values):
            values[0] = as_array(values[0], self._length)
        if expression.user is not None:
            result = call_user_function(expression, values, self._length)
        else:
            result = KERNELS[expression.function](expression, values)
        masks = [arg.impossible for arg in args if arg.impossible is not None]
        if not masks:
            return result
        impossible = reduce(np.logical_or, masks)
        if expression.function in ("and", "or"):
            return Computed(result.values, impossible & np.asarray(result.values.is_null()))
        if result.impossible is not None:
            impossible = impossible | result.impossible
        return Computed(null_where(pa.array(impossible), result.values), impossible)

    def _fetch(self, column: Column) -> pa.Array:
        key = (column.stream, column.name)
        if key not in self._fetched:
            values = self._column(*key)
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            self._fetched[key] = values
        return self._fetched[key]

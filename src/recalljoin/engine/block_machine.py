"""A machine for numeric conditions, which runs a program on blocks of candidates.

A program is a list of instructions on float64 registers, made by
:mod:`~recalljoin.engine.program`. Each instruction is a plain loop over a block of candidates that
stays in the cache, which makes the cost of decoding instructions vanish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s

BLOCK = 1024
"""Candidates per block: a few registers of this length fit the first-level cache."""

(ADD, SUBTRACT, SUBTRACT_FROM, MULTIPLY, DIVIDE, EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER,
 GREATER_EQUAL, BOTH, ABSOLUTE, ROOT, SINGLE, NOT) = range(16)  # fmt: skip
# Where an operand is: a register, a column of the tuples scanned, or a place among the scalars.
REGISTER, COLUMN, SCALAR = range(3)


class Code(NamedTuple):
    """A program's arrays, for one way of reading its leaves."""

    vector: Int64s
    """``[i]``: operation, target register, kind and number of two operands; over a block."""
    scalar: Int64s
    """``[i]``: operation, and target and operands among the scalars; once per partial result."""
    scalars: Float64s
    loads: Int64s
    """``[i]``: place among the scalars, stream, value column; filled once per partial result."""
    gathers: Int64s
    """``[i]``: register, stream, value column; filled per block when candidates are not scanned."""
    result: int
    """Register with the outcome, 0 where false."""
    registers: Float64s


@compiled
def prepare(code: Code, members: Int64s, at: int, values: Float64s) -> None:
    """Fill the scalars for one partial result: the leaves of its tuples, then computed scalars."""
    scalars = code.scalars
    for i in range(len(code.loads)):
        scalars[code.loads[i, 0]] = values[code.loads[i, 2], members[code.loads[i, 1], at]]
    for i in range(len(code.scalar)):
        operation, target = code.scalar[i, 0], code.scalar[i, 1]
        one = scalars[code.scalar[i, 2] : code.scalar[i, 2] + 1]
        other = scalars[code.scalar[i, 3]]
        _apply_scalar(operation, one, other, scalars[target : target + 1])


@compiled
def run_block(code: Code, values: Float64s, first: int, n: int) -> Float64s:
    """Run the program on ``n`` candidates; a scanning program reads records from ``first`` on."""
    registers, scalars = code.registers, code.scalars
    for i in range(len(code.vector)):
        operation, target = code.vector[i, 0], code.vector[i, 1]
        kind, number = code.vector[i, 2], code.vector[i, 3]
        if kind == COLUMN:
            one = values[number, first : first + n]
        else:
            one = registers[number, :n]
        kind, number = code.vector[i, 4], code.vector[i, 5]
        out = registers[target, :n]
        if kind == SCALAR:
            _apply_scalar(operation, one, scalars[number], out)
        elif kind == COLUMN:
            _apply(operation, one, values[number, first : first + n], out)
        else:
            _apply(operation, one, registers[number, :n], out)
    return registers[code.result, :n]


@compiled
def gather(code: Code, members: Int64s, begin: int, n: int, values: Float64s) -> None:
    """Fill the registers of the leaves for the candidates from ``begin`` on."""
    for i in range(len(code.gathers)):
        register, stream, column = code.gathers[i]
        for j in range(n):
            code.registers[register, j] = values[column, members[stream, begin + j]]


@compiled
def _apply(operation: int, one: Float64s, other: Float64s, out: Float64s) -> None:
    n = len(out)
    if operation == ADD:
        for j in range(n):
            out[j] = one[j] + other[j]
    elif operation == SUBTRACT:
        for j in range(n):
            out[j] = one[j] - other[j]
    elif operation == SUBTRACT_FROM:
        for j in range(n):
            out[j] = other[j] - one[j]
    elif operation in (MULTIPLY, BOTH):
        for j in range(n):
            out[j] = one[j] * other[j]
    elif operation in (LESS, GREATER):
        for j in range(n):
            x, y = (one[j], other[j]) if operation == LESS else (other[j], one[j])
            out[j] = 1.0 if x < y or (np.isnan(y) and not np.isnan(x)) else 0.0
    elif operation in (LESS_EQUAL, GREATER_EQUAL):
        for j in range(n):
            x, y = (one[j], other[j]) if operation == LESS_EQUAL else (other[j], one[j])
            out[j] = 1.0 if x <= y or np.isnan(y) else 0.0
    elif operation in (EQUAL, UNEQUAL):
        for j in range(n):
            same = one[j] == other[j] or (np.isnan(one[j]) and np.isnan(other[j]))
            out[j] = 1.0 if same == (operation == EQUAL) else 0.0
    else:
        _apply_unary(operation, one, out)


@compiled
def _apply_scalar(operation: int, one: Float64s, other: float, out: Float64s) -> None:
    n = len(out)
    if operation == ADD:
        for j in range(n):
            out[j] = one[j] + other
    elif operation == SUBTRACT:
        for j in range(n):
            out[j] = one[j] - other
    elif operation == SUBTRACT_FROM:
        for j in range(n):
            out[j] = other - one[j]
    elif operation in (MULTIPLY, BOTH):
        for j in range(n):
            out[j] = one[j] * other
    elif operation == DIVIDE:
        for j in range(n):
            out[j] = one[j] / other
    elif np.isnan(other) or operation in (EQUAL, UNEQUAL):
        # Rare with a scalar, so the scalar is simply repeated for a whole block.
        filled = np.full(n, other)
        _apply(operation, one, filled, out)
    # NaN counts as the largest value. These four forms need no second test for it.
    elif operation == LESS:
        for j in range(n):
            out[j] = 1.0 if one[j] < other else 0.0
    elif operation == LESS_EQUAL:
        for j in range(n):
            out[j] = 1.0 if one[j] <= other else 0.0
    elif operation == GREATER:
        for j in range(n):
            out[j] = 0.0 if one[j] <= other else 1.0
    elif operation == GREATER_EQUAL:
        for j in range(n):
            out[j] = 0.0 if one[j] < other else 1.0
    else:
        _apply_unary(operation, one, out)


@compiled
def _apply_unary(operation: int, one: Float64s, out: Float64s) -> None:
    n = len(out)
    if operation == ABSOLUTE:
        for j in range(n):
            out[j] = abs(one[j])
    elif operation == ROOT:
        for j in range(n):
            out[j] = np.sqrt(one[j])
    elif operation == SINGLE:
        for j in range(n):
            out[j] = np.float32(one[j])
    elif operation == NOT:
        for j in range(n):
            out[j] = 1.0 if one[j] == 0.0 else 0.0

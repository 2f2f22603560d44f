"""Numeric conditions as small programs.

A condition such as ``power(a.x - b.x, 2) + power(a.y - b.y, 2) < 25`` is checked on hundreds of
millions of candidates a second. It is translated here, once and without generating code, into
instructions for the block machine (:mod:`~recalljoin.engine.block_machine`).

What a program can do is deliberately narrow. For any other condition :func:`translate` returns
None, and the condition is evaluated on Arrow columns.

* The leaves of a program are constants and numeric expressions over one stream, which are computed
  once per tuple and not per candidate. All operations give null for null, which rules out AND and
  OR. A tuple with a null leaf therefore satisfies no conjunct that uses the leaf, and nulls never
  reach a program.
* Integers are exact in float64 up to 2**53. :attr:`Program.limit` bounds the leaves so that no
  intermediate result can leave that range; tuples beyond the limit must not be given to a program.
* Numbers of single precision are computed as doubles and rounded after each step.
* NaN equals itself and is larger than any number, as everywhere in the project.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.block_machine import (
    ABSOLUTE,
    ADD,
    BLOCK,
    BOTH,
    COLUMN,
    DIVIDE,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MULTIPLY,
    NOT,
    REGISTER,
    ROOT,
    SCALAR,
    SINGLE,
    SUBTRACT,
    SUBTRACT_FROM,
    UNEQUAL,
    Code,
)
from recalljoin.query.expressions import Call, Expression, Literal

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

EXACT = 2.0**53
_DOUBLE_DIGITS = 15
"""Different decimals of up to this many digits have different nearest doubles."""

_BINARY = {
    "add": ADD, "subtract": SUBTRACT, "multiply": MULTIPLY, "eq": EQUAL, "ne": UNEQUAL,
    "lt": LESS, "le": LESS_EQUAL, "gt": GREATER, "ge": GREATER_EQUAL,
}  # fmt: skip
_MIRRORED = {
    SUBTRACT: SUBTRACT_FROM, LESS: GREATER, LESS_EQUAL: GREATER_EQUAL, GREATER: LESS,
    GREATER_EQUAL: LESS_EQUAL,
}  # fmt: skip
_UNARY = {"abs": ABSOLUTE, "sqrt": ROOT, "not": NOT}


@dataclass(frozen=True)
class Leaf:
    """A numeric expression over one stream, the ``column``-th of that stream's value columns."""

    stream: int
    column: int


@dataclass
class Leaves:
    """The distinct leaves of all programs of a query, numbered per stream."""

    expressions: dict[int, list[Expression]] = field(default_factory=dict)

    def add(self, expression: Expression) -> Leaf:
        """The leaf of an expression over one stream."""
        (stream,) = expression.streams
        known = self.expressions.setdefault(stream, [])
        if expression not in known:
            known.append(expression)
        return Leaf(stream, known.index(expression))

    @property
    def n_columns(self) -> int:
        """Value columns needed by the stream with the most leaves."""
        return max((len(known) for known in self.expressions.values()), default=0)


@dataclass(frozen=True)
class Node:
    """A condition in the program's own terms: a leaf, a constant or an operation."""

    operation: int | None = None
    args: tuple[Node, ...] = ()
    leaf: Leaf | None = None
    constant: float = 0.0

    @property
    def streams(self) -> frozenset[int]:
        """Streams that the condition depends on."""
        if self.leaf is not None:
            return frozenset((self.leaf.stream,))
        return frozenset().union(*(arg.streams for arg in self.args))


@dataclass(frozen=True)
class Program:
    """One condition on ``streams`` that must be true for a result."""

    node: Node
    streams: frozenset[int]
    limit: float
    """Largest absolute integer a leaf may have."""

    def scanning(self, stream: int) -> Code:
        """The code for candidates that are consecutive tuples of ``stream``."""
        return _Assembler(stream).assemble(self.node)

    def gathering(self) -> Code:
        """The code for candidates listed one by one."""
        return _Assembler(None).assemble(self.node)


def both(programs: list[Program]) -> Program:
    """One program that is true where all the given programs are."""
    node = programs[0].node
    for program in programs[1:]:
        node = Node(BOTH, (node, program.node))
    streams = frozenset().union(*(program.streams for program in programs))
    return Program(node, streams, min(program.limit for program in programs))


def translate(condition: Expression, leaves: Leaves) -> Program | None:
    """The program of a boolean condition, or None if a program cannot express it."""
    found = Leaves({stream: list(known) for stream, known in leaves.expressions.items()})
    node = _node_of(condition, found)
    if node is None or node.leaf is not None or node.operation is None:
        return None
    limit = EXACT
    while limit >= 1 and _bound(condition, limit) > EXACT:
        limit /= 2
    if limit < 1:
        return None
    leaves.expressions = found.expressions
    return Program(node, condition.streams, limit)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _node_of(expression: Expression, leaves: Leaves) -> Node | None:
    if not _is_numeric(expression.type):
        return None
    if isinstance(expression, Literal):
        known = expression.value is not None and abs(float(expression.value)) <= EXACT
        return Node(constant=float(expression.value)) if known else None
    if len(expression.streams) == 1:
        return Node(leaf=leaves.add(expression))
    assert isinstance(expression, Call)
    name, args = expression.function, expression.args
    if name == "cast" and _is_numeric(args[0].type) and not pa.types.is_boolean(expression.type):
        # Widening only: the binder casts operands to their common type.
        widens = pa.types.is_float64(expression.type) or pa.types.is_int64(expression.type)
        keeps = pa.types.is_integer(args[0].type) or pa.types.is_float64(expression.type)
        return _node_of(args[0], leaves) if widens and keeps else None
    if name == "power" and isinstance(args[1], Literal) and args[1].value == 2:
        base = _node_of(args[0], leaves)
        return Node(MULTIPLY, (base, base)) if base is not None else None
    if name == "divide" and isinstance(args[1], Literal) and args[1].value not in (None, 0):
        operands = [_node_of(arg, leaves) for arg in args]
        return _operation(DIVIDE, operands)
    if name == "negate":
        return _operation(SUBTRACT, [Node(constant=0.0), _node_of(args[0], leaves)])
    if name in _UNARY:
        return _operation(_UNARY[name], [_node_of(args[0], leaves)])
    if name in _BINARY:
        operands = [_node_of(_as_number(arg), leaves) for arg in args]
        node = _operation(_BINARY[name], operands)
        rounds = node is not None and pa.types.is_float32(expression.type)
        # Rounding the double to single precision gives what single precision would have given.
        return Node(SINGLE, (node,)) if rounds and node is not None else node
    return None


def _as_number(operand: Expression) -> Expression:
    """One side of a comparison of decimals, as a number that compares alike where possible.

    Integers and decimals of few digits are ordered like the doubles nearest to them.
    """
    if not pa.types.is_decimal(operand.type):
        return operand
    if isinstance(operand, Literal):
        few = operand.value is not None and len(operand.value.as_tuple().digits) <= _DOUBLE_DIGITS
        return Literal(float(operand.value), pa.float64()) if few else operand
    inner: Expression = operand
    while isinstance(inner, Call) and inner.function == "cast":
        (inner,) = inner.args
    return inner if pa.types.is_integer(inner.type) else operand


def _operation(operation: int, args: list[Node | None]) -> Node | None:
    known = tuple(arg for arg in args if arg is not None)
    return Node(operation, known) if len(known) == len(args) else None


def _bound(expression: Expression, limit: float) -> float:
    """Largest absolute value of any integer in the expression if its leaves are below ``limit``.

    Floating-point parts are not bounded, as float64 rounds them wherever they are computed.
    """
    if isinstance(expression, Literal):
        return abs(float(expression.value))
    if len(expression.streams) == 1 or not isinstance(expression, Call):
        return limit
    bounds = [_bound(arg, limit) for arg in expression.args]
    worst = max(bounds)
    if pa.types.is_integer(expression.type):
        if expression.function in ("add", "subtract"):
            return sum(bounds)
        if expression.function == "multiply":
            return float(np.prod(bounds))
    if expression.function == "power" and pa.types.is_integer(expression.args[0].type):
        return worst * worst
    return worst


class _Assembler:
    """Turns a node into code that computes equal parts once and reuses registers."""

    def __init__(self, scanned: int | None) -> None:
        self.scanned = scanned
        self.vector: list[tuple[int, ...]] = []
        self.scalar: list[tuple[int, ...]] = []
        self.scalars: list[float] = []
        self.loads: list[tuple[int, ...]] = []
        self.gathers: list[tuple[int, ...]] = []
        self.place: dict[Node, tuple[int, int]] = {}
        self.uses: dict[Node, int] = {}
        self.free: list[int] = []
        self.n_registers = 0

    def assemble(self, node: Node) -> Code:
        self._count_uses(node)
        _, result = self._emit(node)
        return Code(
            vector=_table(self.vector, 6),
            scalar=_table(self.scalar, 4),
            scalars=np.array([*self.scalars, 0.0]),
            loads=_table(self.loads, 3),
            gathers=_table(self.gathers, 3),
            result=result,
            registers=np.zeros((max(1, self.n_registers), BLOCK)),
        )

    def _count_uses(self, node: Node) -> None:
        self.uses[node] = self.uses.get(node, 0) + 1
        if self.uses[node] == 1:
            for arg in node.args:
                self._count_uses(arg)

    def _emit(self, node: Node) -> tuple[int, int]:
        if node not in self.place:
            self.place[node] = self._compute(node)
        return self.place[node]

    def _release(self, node: Node) -> None:
        self.uses[node] -= 1
        kind, number = self.place[node]
        if self.uses[node] == 0 and kind == REGISTER:
            self.free.append(number)

    def _compute(self, node: Node) -> tuple[int, int]:
        if node.leaf is not None:
            if self.scanned is None:
                # All leaves are gathered before the first instruction, so no leaf may use a
                # register that an instruction has given up.
                register = self._new_register()
                self.gathers.append((register, node.leaf.stream, node.leaf.column))
                return REGISTER, register
            if node.leaf.stream == self.scanned:
                return COLUMN, node.leaf.column
            place = self._scalar(0.0)
            self.loads.append((place, node.leaf.stream, node.leaf.column))
            return SCALAR, place
        if node.operation is None:
            return SCALAR, self._scalar(node.constant)
        places = [self._emit(arg) for arg in node.args]
        # All operands stand before any register is given up, except to this operation's result.
        for arg in node.args:
            self._release(arg)
        operation = node.operation
        if all(kind == SCALAR for kind, _ in places):
            place = self._scalar(0.0)
            self.scalar.append((operation, place, places[0][1], places[-1][1]))
            return SCALAR, place
        if places[0][0] == SCALAR:
            # Only the second operand may be a scalar.
            places.reverse()
            operation = _MIRRORED.get(operation, operation)
        register = self._register()
        self.vector.append((operation, register, *places[0], *places[-1]))
        return REGISTER, register

    def _register(self) -> int:
        return self.free.pop() if self.free else self._new_register()

    def _new_register(self) -> int:
        self.n_registers += 1
        return self.n_registers - 1

    def _scalar(self, value: float) -> int:
        self.scalars.append(value)
        return len(self.scalars) - 1


def _table(rows: list[tuple[int, ...]], width: int) -> Int64s:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)

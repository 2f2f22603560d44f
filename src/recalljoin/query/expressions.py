"""The typed expression tree: what a condition or an output column becomes once it is bound.

There are three kinds of nodes, all frozen. Conversions are explicit: the arguments of a comparison
or of arithmetic have one common type, with ``cast`` calls where the user's columns had another. An
evaluator or compiler that walks the tree therefore meets few types: ``bool``, ``int64``,
``float``, ``double``, decimals, ``string``, ``binary``, ``date32``, timestamps, durations,
``time64[ns]`` and ``null``. Only a bare :class:`Column` keeps the type it has in its schema.

Functions by name (``...`` marks any number of arguments):

================================================  =================================================
``add subtract multiply divide modulo negate``    arithmetic
``eq ne lt le gt ge``                             comparison
``and ... or ... not is_null is_true``            logic, three-valued; two or more conditions
``in x literal ...``                              membership in a list of literals
``abs round floor ceil least ... greatest ...``   numbers; ``round x digits``
``sqrt power exp ln log10 sin atan2 ...``         numbers in double precision
``cast x``                                        to the call's own type, which holds every value
``field x name``                                  a field of a struct
``user:NAME ...``                                 a registered function, see :attr:`Call.user`
================================================  =================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from recalljoin.query.functions import UserFunction

_NO_STREAM: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Column:
    """A column of one stream, with the type it has there."""

    stream: int
    name: str
    type: pa.DataType

    @property
    def streams(self) -> frozenset[int]:
        """The one stream that the column belongs to."""
        return frozenset((self.stream,))


@dataclass(frozen=True)
class Literal:
    """A constant.

    ``value`` is a plain Python value, None for null. Dates, timestamps, durations and times hold
    the integer that Arrow stores for them, in the unit of ``type``.
    """

    value: Any
    type: pa.DataType

    @property
    def streams(self) -> frozenset[int]:
        """No stream."""
        return _NO_STREAM


@dataclass(frozen=True)
class Call:
    """A function applied to expressions; see the module's table for the names."""

    function: str
    args: tuple[Expression, ...]
    type: pa.DataType
    user: UserFunction | None = None
    """What to call when ``function`` is ``user:NAME``."""

    @cached_property
    def streams(self) -> frozenset[int]:
        """All streams that occur in the arguments."""
        return _NO_STREAM.union(*(arg.streams for arg in self.args))


Expression = Column | Literal | Call


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, parents before children, left to right."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Call):
            pending.extend(reversed(node.args))


def columns(expression: Expression) -> tuple[Column, ...]:
    """The distinct columns an expression reads, in order of first appearance."""
    found = (node for node in walk(expression) if isinstance(node, Column))
    return tuple(dict.fromkeys(found))

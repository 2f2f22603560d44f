"""The condition, taken apart: classes of equal attributes, and the residual.

A join can look up tuples by an equality between an expression of one stream and an expression of
another. Chains of such equalities make classes. The residual is checked on candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recalljoin.query.arrow_types import MAX_DIGITS, NULL, canonical, common, family
from recalljoin.query.bound_query import Conjunct, EqualityClass
from recalljoin.query.expressions import Call, Expression, Literal
from recalljoin.query.rules import Mismatch, apply, coerce

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

_Node = tuple[Expression, str]
"""An expression and the family of types in which it is compared."""


def split(
    parts: Sequence[Expression],
) -> tuple[tuple[EqualityClass, ...], tuple[Conjunct, ...]]:
    """Classes of equal attributes and residual conjuncts of a conjunction.

    Parameters
    ----------
    parts
        Boolean expressions that must all be true.

    Raises
    ------
    Mismatch
        When no type holds all members of a class.

    Notes
    -----
    A member of a class is an expression together with the family of types it is compared in. An
    integer that equals one expression as an integer and another as floating point is therefore in
    two classes.
    """
    equalities, rest = _sort_out(parts)
    groups = _connected(equalities)
    classes = []
    for group in groups:
        found, duplicates = _class_of(group)
        classes.append(found)
        rest.extend(duplicates)
    conjuncts = tuple(Conjunct(part.streams, part) for part in dict.fromkeys(rest))
    return tuple(classes), conjuncts


def without_and(parts: Iterable[Expression]) -> list[Expression]:
    """The parts with every AND taken apart, and without parts that are always true."""
    found = []
    pending = list(reversed(list(parts)))
    while pending:
        part = pending.pop()
        if isinstance(part, Call) and part.function == "and":
            pending.extend(reversed(part.args))
        elif not (isinstance(part, Literal) and part.value is True):
            found.append(part)
    return found


def _sort_out(
    parts: Iterable[Expression],
) -> tuple[list[tuple[Expression, Expression]], list[Expression]]:
    equalities: list[tuple[Expression, Expression]] = []
    rest: list[Expression] = []
    for part in without_and(parts):
        if isinstance(part, Call) and _links_two_streams(part):
            equalities.append((part.args[0], part.args[1]))
        else:
            rest.append(part)
    return equalities, rest


def _links_two_streams(part: Call) -> bool:
    if part.function != "eq":
        return False
    one, other = (arg.streams for arg in part.args)
    return len(one) == 1 and len(other) == 1 and one != other


def _connected(equalities: Sequence[tuple[Expression, Expression]]) -> list[list[_Node]]:
    """Groups of expressions linked by equalities, in order of appearance (union-find)."""
    leader: dict[_Node, _Node] = {}

    def find(node: _Node) -> _Node:
        leader.setdefault(node, node)
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for one, other in equalities:
        # Both sides have been brought to one type already, and the family of that type counts. An
        # exact conversion is left off, so that the class can choose the type of its members.
        kind = family(one.type)
        first, second = find((_uncast(one, kind), kind)), find((_uncast(other, kind), kind))
        if first != second:
            leader[second] = first
    groups: dict[_Node, list[_Node]] = {}
    for node in leader:
        groups.setdefault(find(node), []).append(node)
    return list(groups.values())


def _uncast(expression: Expression, kind: str) -> Expression:
    """``expression`` without the conversions that keep every value as it is."""
    while (
        isinstance(expression, Call)
        and expression.function == "cast"
        and family(expression.args[0].type) == kind
        and _holds_all(expression.type, expression.args[0].type)
    ):
        expression = expression.args[0]
    return expression


def _holds_all(target: pa.DataType, source: pa.DataType) -> bool:
    plain = canonical(source)
    return plain is not None and target == canonical(target) and target == common(plain, target)


def _class_of(group: Sequence[_Node]) -> tuple[EqualityClass, list[Expression]]:
    """The class of a group, and equalities for further members of a stream it already has."""
    members: dict[int, Expression] = {}
    duplicates = []
    for expression, _kind in group:
        (stream,) = expression.streams
        if stream in members:
            duplicates.append(apply("eq", (members[stream], expression)))
        else:
            members[stream] = expression
    type_ = NULL
    for member in members.values():
        type_ = common(type_, canonical(member.type))
        if type_ is None:
            message = (
                f"the attributes that must be equal need more than {MAX_DIGITS} digits together; "
                "CAST the decimals among them to fewer digits"
            )
            raise Mismatch(message)
    typed = {stream: coerce(members[stream], type_) for stream in sorted(members)}
    return EqualityClass(typed, type_), duplicates

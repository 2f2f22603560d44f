"""What concerns one stream alone, for Spark to compute.

The largest parts of a condition that read one stream become columns of that stream. Spark computes
these columns before the tuples are routed, with all of its functions. The name of a computed column
is an equals sign and the text of the part: ``=lower(a.name)``. Dots and backticks in the name are
replaced by characters that look alike, because PySpark would read a dotted name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from recalljoin.query.built_ins import AGGREGATES, CHANGING, GENERATORS
from recalljoin.query.expressions import Call, Column, Expression, Literal
from recalljoin.query.scope import UnknownName
from recalljoin.query.trees import names_of, spark_sql_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from recalljoin.query.functions import Functions
    from recalljoin.query.scope import Scope

_MARK: Final = "="
_TAKEN, _ALIKE = ".`", "\u2024\u2035"
_NOT_OF_A_ROW: Final = AGGREGATES | CHANGING | GENERATORS
_CONSTANT: Final = (exp.Literal, exp.Interval, exp.Var, exp.Neg, exp.Paren, exp.Mul, exp.Add)


class OneStream:
    """Finds the parts of a condition that concern one stream.

    Parameters
    ----------
    scope
        What names mean.
    functions
        The user's own functions, which Spark does not know.
    """

    def __init__(self, scope: Scope, functions: Functions) -> None:
        self._scope = scope
        self._functions = functions

    def parts(self, tree: exp.Expr) -> Iterator[tuple[int, exp.Expr]]:
        """The largest parts of ``tree`` that concern one stream, with the stream."""
        pending = [tree]
        while pending:
            node = pending.pop()
            stream = self.stream_of(node)
            if stream is not None:
                yield stream, node
            elif names_of(node) is None:
                pending.extend(node.iter_expressions())

    def stream_of(self, node: exp.Expr) -> int | None:
        """The one stream that Spark can compute ``node`` for; None if Spark does not compute it.

        Spark does not compute columns, constants, times moved by a constant (windows follow from
        these), and parts with a fault, which is found later.
        """
        if isinstance(node, exp.Paren | exp.Star | exp.Interval):
            return None
        try:
            streams = self._streams(node)
            if len(streams) != 1 or self._is_moved_time(node):
                return None
            if names_of(node) is not None and isinstance(self._resolved(node), Column):
                return None
        except UnknownName:
            return None
        return None if self._is_not_for_spark(node) else streams.pop()

    def reads_several(self, node: exp.Expr) -> bool:
        """Whether ``node`` is known to read more than one stream."""
        try:
            return len(self._streams(node)) > 1
        except UnknownName:
            return False

    def spark_text(self, node: exp.Expr, *, structs: bool = False) -> str:
        """``node`` as Spark's SQL over the columns of its stream, or over one struct per stream."""

        def renamed(part: exp.Expr) -> exp.Expr:
            if names_of(part) is None:
                return part
            stream, path = _path(self._resolved(part))
            return _dotted([self._scope.streams[stream], *path] if structs else path)

        return spark_sql_of(node.copy().transform(renamed))

    def column_text(self, column: Column) -> str:
        """A column as Spark's SQL over one struct per stream."""
        return spark_sql_of(_dotted([self._scope.streams[column.stream], column.name]))

    def columns(self, node: exp.Expr) -> list[Column]:
        """The columns that ``node`` reads.

        Raises
        ------
        UnknownName
            When a name means nothing, or more than one thing.
        """
        found = []
        for name in names_in(node):
            stream, path = _path(self._resolved(name))
            schema = self._scope.schemas[stream]
            assert schema is not None
            found.append(Column(stream, path[0], schema.field(path[0]).type))
        return found

    def _resolved(self, name: exp.Expr) -> Expression:
        parts = names_of(name)
        assert parts is not None
        found = self._scope.resolve(parts)
        if found is None:
            raise UnknownName(str(name))
        return found

    def _streams(self, node: exp.Expr) -> set[int]:
        return {_path(self._resolved(name))[0] for name in names_in(node)}

    def _is_not_for_spark(self, node: exp.Expr) -> bool:
        for part in node.walk():
            if isinstance(part, exp.Query | exp.Subquery | exp.Window | exp.Star | exp.Placeholder):
                return True
            called = function_name(part)
            if called is not None and (called in self._functions or called in _NOT_OF_A_ROW):
                return True
        return False

    def _is_moved_time(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Paren):
            return self._is_moved_time(node.this)
        if names_of(node) is not None:
            return self._scope.is_time(self._resolved(node))
        if not isinstance(node, exp.Add | exp.Sub):
            return False
        one, other = node.this, node.expression
        if isinstance(node, exp.Add) and _is_constant(one):
            one, other = other, one
        return _is_constant(other) and self._is_moved_time(one)


def function_name(node: exp.Expr) -> str | None:
    """The name of a function in lower case; None if ``node`` is no function."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else None


def computed_name(node: exp.Expr) -> str:
    """Name of the column that Spark computes for a part of the condition."""
    return _MARK + spark_sql_of(node).translate(str.maketrans(_TAKEN, _ALIKE))


def computed_text(name: str) -> str | None:
    """The text that a column was computed from; None for a column of the input."""
    if not name.startswith(_MARK):
        return None
    return name.removeprefix(_MARK).translate(str.maketrans(_ALIKE, _TAKEN))


def computed_columns(
    trees: Sequence[exp.Expr], one_stream: OneStream, m: int
) -> list[dict[str, str]]:
    """For each of ``m`` streams the columns Spark must compute: Spark's SQL by name."""
    found: list[dict[str, str]] = [{} for _ in range(m)]
    for tree in trees:
        for stream, node in one_stream.parts(tree):
            found[stream][computed_name(node)] = one_stream.spark_text(node)
    return found


def computed_column(stream: int, node: exp.Expr, schema: pa.Schema) -> Column:
    """The column in which Spark has computed ``node``."""
    name = computed_name(node)
    return Column(stream, name, schema.field(name).type)


def _dotted(names: Sequence[str]) -> exp.Expr:
    first, *rest = (exp.to_identifier(name, quoted=True) for name in names)
    start = exp.Column(this=first)
    return exp.Dot.build([start, *rest]) if rest else start


def _is_constant(node: exp.Expr) -> bool:
    return all(isinstance(part, _CONSTANT) for part in node.walk())


def names_in(node: exp.Expr) -> list[exp.Expr]:
    """The dotted names in ``node``, each as a whole."""
    found, pending = [], [node]
    while pending:
        part = pending.pop()
        if names_of(part) is not None:
            found.append(part)
        else:
            pending.extend(reversed(list(part.iter_expressions())))
    return found


def _path(expression: Expression) -> tuple[int, list[str]]:
    """The stream of a column or field, and the names that lead to it."""
    if isinstance(expression, Column):
        return expression.stream, [expression.name]
    assert isinstance(expression, Call)
    outer, name = expression.args
    assert isinstance(name, Literal)
    stream, path = _path(outer)
    return stream, [*path, name.value]

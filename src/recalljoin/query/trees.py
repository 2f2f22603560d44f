"""Small questions to sqlglot's syntax trees."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from recalljoin.query.scope import Name

TEXT: Final = "recalljoin.text"
"""Key under which an expression keeps the text it was read from."""


def present(node: exp.Expr) -> list[str]:
    """Names of the arguments that ``node`` really has."""
    return [name for name, value in node.args.items() if value]


def text_of(node: exp.Expr) -> str:
    """An expression as it was written, or nearly so, for messages."""
    written = str(node.meta.get(TEXT, ""))
    # A comment would swallow the rest of its line in a message.
    if written and "--" not in written and "/*" not in written:
        return written
    # Of all dialects, Spark's spelling is nearest to what users write.
    return spark_sql_of(node)


def spark_sql_of(node: exp.Expr) -> str:
    """An expression as Spark's SQL."""
    return node.sql("spark", comments=False, normalize_functions=False)


def sql_of(node: exp.Expr) -> str:
    """An expression as SQL that parses to the same, whatever its blanks and comments."""
    return node.sql(comments=False, normalize_functions=False)


def names_of(node: exp.Expr) -> list[Name] | None:
    """The parts of a dotted name; None when ``node`` is something else."""
    if isinstance(node, exp.Dot):
        front = names_of(node.this)
        back = [node.expression]
    elif isinstance(node, exp.Column) and not node.args.get("join_mark"):
        front, back = [], node.parts
    else:
        return None
    if front is None or not all(isinstance(part, exp.Identifier) for part in back):
        return None
    return front + [Name(part.name, bool(part.args.get("quoted"))) for part in back]


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """The operands of AND at the top of a condition, with parentheses opened."""
    found = []
    for part in flattened(tree, exp.And):
        inner = part.unnest()
        found.extend(conjuncts(inner) if isinstance(inner, exp.And) else [inner])
    return found


def flattened(node: exp.Expr, connective: type[exp.Connector]) -> list[exp.Expr]:
    """The operands of a chain of one connective, without recursion: chains may be long."""
    operands, pending = [], [node]
    while pending:
        part = pending.pop()
        if isinstance(part, connective):
            pending += [part.expression, part.this]
        else:
            operands.append(part)
    return operands

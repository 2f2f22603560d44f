"""The outputs of a query: everything, a count, or a list of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from recalljoin.query.bound import OutputColumn
from recalljoin.query.expressions import Column
from recalljoin.query.grammar import parse_outputs
from recalljoin.query.scope import Name, UnknownName
from recalljoin.query.spelling import shortened
from recalljoin.query.trees import names_of, present, sql_of, text_of

if TYPE_CHECKING:
    from recalljoin.query.lowering import Lowering


@dataclass(frozen=True)
class Outputs:
    """What SELECT asks for."""

    columns: tuple[OutputColumn, ...] | None = None
    """None for ``*`` and for a count."""
    counts_only: bool = False
    count_name: str = "count"


def lower_outputs(select: str, lowering: Lowering) -> Outputs:
    """Resolve a list of outputs; faults go to ``lowering``.

    Raises
    ------
    InvalidQuery
        When it does not follow the grammar.
    """
    faults = lowering.faults
    if not select.strip():
        faults.append("SELECT asks for nothing; write `*`, `count(*)` or a list of columns")
        return Outputs()
    trees = parse_outputs(select)
    stars = [tree for tree in trees if isinstance(tree, exp.Star)]
    counts = [tree for tree in trees if _is_count(_unaliased(tree))]
    for special in (*stars, *counts):
        if len(trees) > 1:
            faults.append(
                f"`{text_of(_unaliased(special))}` must stand alone in SELECT; "
                "drop it or the other outputs"
            )
            return Outputs()
    if stars:
        if present(stars[0]):
            faults.append(f"`{text_of(stars[0])}` is not supported; name the columns you want")
        return Outputs()
    if counts:
        return Outputs(counts_only=True, count_name=trees[0].alias or "count")
    return Outputs(_columns(trees, lowering))


def _is_count(tree: exp.Expr) -> bool:
    return (
        isinstance(tree, exp.Anonymous)
        and tree.name.lower() == "count"
        and len(tree.expressions) == 1
        and isinstance(tree.expressions[0], exp.Star)
    )


def _unaliased(tree: exp.Expr) -> exp.Expr:
    return tree.this if isinstance(tree, exp.Alias) else tree


def _columns(trees: list[exp.Expr], lowering: Lowering) -> tuple[OutputColumn, ...]:
    found: list[OutputColumn] = []
    for tree in trees:
        if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            found.extend(_all_of(tree, lowering))
            continue
        expression = lowering.expression(_unaliased(tree))
        if expression is not None:
            found.append(OutputColumn(_name(tree), expression))
    _refuse_duplicates(found, lowering)
    return tuple(found)


def _all_of(tree: exp.Column, lowering: Lowering) -> list[OutputColumn]:
    place = shortened(text_of(tree))
    if len(tree.parts) != 2:
        lowering.faults.append(f"in `{place}`: write `stream.*` for all columns of a stream")
        return []
    qualifier = tree.args["table"]
    try:
        stream = lowering.scope.stream(Name(qualifier.name, bool(qualifier.args.get("quoted"))))
    except UnknownName as unknown:
        lowering.faults.append(f"in `{place}`: {unknown}")
        return []
    schema = lowering.scope.schemas[stream]
    return [
        OutputColumn(column.name, Column(stream, column.name, column.type))
        for column in schema or ()
    ]


def _name(tree: exp.Expr) -> str:
    if tree.alias:
        return str(tree.alias)
    parts = names_of(tree)
    return parts[-1].text if parts else sql_of(tree)


def _refuse_duplicates(columns: list[OutputColumn], lowering: Lowering) -> None:
    seen: dict[str, None] = {}
    for column in columns:
        if column.name in seen:
            lowering.faults.append(
                f"two outputs are called `{column.name}`; give one another name with AS, "
                "or select `*` for one struct per stream"
            )
        seen[column.name] = None

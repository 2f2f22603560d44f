"""The outputs of a query: everything, a count, or a list of columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import exp

from recalljoin.query.bound_query import RESULT_TIME, OutputColumn
from recalljoin.query.expressions import Column
from recalljoin.query.expressions import columns as columns_of
from recalljoin.query.grammar import parse_condition, parse_outputs
from recalljoin.query.one_stream import function_name
from recalljoin.query.scope import Name, UnknownName
from recalljoin.query.spelling import shortened
from recalljoin.query.trees import conjuncts, names_of, present, sql_of, text_of

if TYPE_CHECKING:
    from recalljoin.query.expressions import Expression
    from recalljoin.query.kinds import How
    from recalljoin.query.lowering import Lowering


@dataclass(frozen=True)
class Outputs:
    """What SELECT asks for."""

    columns: tuple[OutputColumn, ...] | None = None
    """None for ``*`` and for a count."""
    counts_only: bool = False
    count_name: str = "count"
    texts: tuple[tuple[str, str], ...] | None = None
    """For Spark: names and SQL of the outputs, over one struct per stream."""
    where: tuple[Expression, ...] = ()
    """What must be true of a row to come out."""
    where_text: str | None = None
    """For Spark: the same as SQL over one struct per stream."""


def check_outputs(select: str, lowering: Lowering) -> None:
    """Record the faults of outputs that show before columns are known."""
    trees, special = _read(select, lowering)
    if special is None:
        for tree in trees:
            if not _is_all_of(tree):
                lowering.check(_unaliased(tree), output=True)
            elif len(tree.parts) == 2:
                _stream_of(tree, lowering)


def lower_outputs(select: str, lowering: Lowering, *, on_spark: bool) -> Outputs:
    """Resolve a list of outputs; faults go to ``lowering``.

    Parameters
    ----------
    select
        What the query selects.
    lowering
        What resolves and types expressions.
    on_spark
        Whether Spark computes the outputs, from columns of the streams.

    Raises
    ------
    InvalidQuery
        When ``select`` does not follow the grammar.
    """
    trees, special = _read(select, lowering)
    if special is not None:
        return special
    return _for_spark(trees, lowering) if on_spark else Outputs(_columns(trees, lowering))


def check_where(where: str | None, how: How, lowering: Lowering) -> None:
    """Record the faults of a condition on the rows that show before columns are known."""
    if where is None:
        return
    if how == "inner":
        lowering.faults.append(
            "`where` is about the rows of an outer, semi or anti join; write it in the condition"
        )
    for part in conjuncts(parse_condition(where)):
        lowering.check(part, output=True)


def with_where(
    outputs: Outputs, where: str | None, lowering: Lowering, *, on_spark: bool
) -> Outputs:
    """The outputs, of which only rows come out for which a condition is true."""
    if where is None:
        return outputs
    tree = parse_condition(where)
    if not on_spark:
        return replace(outputs, where=tuple(lowering.condition(tree)))
    one_stream, streams = lowering.one_stream, lowering.scope.streams
    if lowering.faults or not lowering.scope.is_complete:
        return outputs
    try:
        read = one_stream.columns(tree)
    except UnknownName as unknown:
        lowering.faults.append(f"in `{shortened(text_of(tree))}`: {unknown}")
        return outputs
    columns = outputs.columns
    if columns is not None:
        known = {column.expression for column in columns}
        more = dict.fromkeys(column for column in read if column not in known)
        columns += tuple(OutputColumn(f"{streams[c.stream]}.{c.name}", c) for c in more)
    text = one_stream.spark_text(tree, structs=True)
    return replace(outputs, columns=columns, where_text=text)


def check_shown(outputs: Outputs, how: How, lowering: Lowering) -> None:
    """Record the outputs that read a stream whose columns the join does not show."""
    streams = lowering.scope.streams
    if how not in ("semi", "anti") or len(streams) < 2:
        return
    read = [column.expression for column in outputs.columns or ()]
    hidden = {c.name for each in (*read, *outputs.where) for c in columns_of(each) if c.stream}
    for name in sorted(hidden):
        lowering.faults.append(
            f"{'a semi' if how == 'semi' else 'an anti'} join shows the columns of "
            f"`{streams[0]}` only; drop `{streams[1]}.{name}`"
        )


def _read(select: str, lowering: Lowering) -> tuple[list[exp.Expr], Outputs | None]:
    """The outputs one by one, and the finished outputs for ``*``, a count or a fault."""
    faults = lowering.faults
    if not select.strip():
        faults.append("SELECT asks for nothing; write `*`, `count(*)` or a list of columns")
        return [], Outputs()
    trees = parse_outputs(select)
    stars = [tree for tree in trees if isinstance(tree, exp.Star)]
    counts = [tree for tree in trees if _is_count(_unaliased(tree))]
    for special in (*stars, *counts):
        if len(trees) > 1:
            faults.append(
                f"`{text_of(_unaliased(special))}` must stand alone in SELECT; "
                "drop it or the other outputs"
            )
            return trees, Outputs()
    if stars:
        if present(stars[0]):
            faults.append(f"`{text_of(stars[0])}` is not supported; name the columns you want")
        return trees, Outputs()
    if counts:
        return trees, Outputs(counts_only=True, count_name=trees[0].alias or "count")
    return trees, None


def _for_spark(trees: list[exp.Expr], lowering: Lowering) -> Outputs:
    one_stream, scope = lowering.one_stream, lowering.scope
    read: dict[Column, None] = {}
    texts: list[tuple[str, str]] = []
    for tree in trees:
        if _is_all_of(tree):
            for column in _all_of(tree, lowering):
                read[column] = None
                texts.append((column.name, one_stream.column_text(column)))
            continue
        value = _unaliased(tree)
        known_faults = len(lowering.faults)
        lowering.check(value, output=True)
        for part in value.walk():
            if (name := function_name(part)) is not None and name in lowering.functions:
                lowering.faults.append(
                    f"in `{shortened(text_of(value))}`: Spark computes what is selected, and does "
                    f"not know your function `{name}`; apply it to the result, as a UDF of Spark"
                )
        if len(lowering.faults) == known_faults and scope.is_complete:
            read.update(dict.fromkeys(one_stream.columns(value)))
            texts.append((_name(tree), one_stream.spark_text(value, structs=True)))
    _refuse_duplicates([name for name, _ in texts], lowering)
    names = scope.streams
    columns = tuple(OutputColumn(f"{names[c.stream]}.{c.name}", c) for c in read)
    return Outputs(columns, texts=tuple(texts))


def _is_count(tree: exp.Expr) -> bool:
    return (
        isinstance(tree, exp.Anonymous)
        and tree.name.lower() == "count"
        and len(tree.expressions) == 1
        and isinstance(tree.expressions[0], exp.Star)
    )


def _unaliased(tree: exp.Expr) -> exp.Expr:
    return tree.this if isinstance(tree, exp.Alias) else tree


def _is_all_of(tree: exp.Expr) -> TypeGuard[exp.Column]:
    return isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)


def _columns(trees: list[exp.Expr], lowering: Lowering) -> tuple[OutputColumn, ...]:
    found: list[OutputColumn] = []
    for tree in trees:
        if _is_all_of(tree):
            found.extend(OutputColumn(c.name, c) for c in _all_of(tree, lowering))
            continue
        expression = lowering.expression(_unaliased(tree))
        if expression is not None:
            found.append(OutputColumn(_name(tree), expression))
    _refuse_duplicates([column.name for column in found], lowering)
    return tuple(found)


def _all_of(tree: exp.Column, lowering: Lowering) -> list[Column]:
    if len(tree.parts) != 2:
        place = shortened(text_of(tree))
        lowering.faults.append(f"in `{place}`: write `stream.*` for all columns of a stream")
        return []
    stream = _stream_of(tree, lowering)
    if stream is None:
        return []
    schema = lowering.scope.schemas[stream]
    return [Column(stream, each.name, each.type) for each in schema or ()]


def _stream_of(tree: exp.Column, lowering: Lowering) -> int | None:
    qualifier = tree.args["table"]
    try:
        return lowering.scope.stream(Name(qualifier.name, bool(qualifier.args.get("quoted"))))
    except UnknownName as unknown:
        lowering.faults.append(f"in `{shortened(text_of(tree))}`: {unknown}")
        return None


def _name(tree: exp.Expr) -> str:
    if tree.alias:
        return str(tree.alias)
    parts = names_of(tree)
    return parts[-1].text if parts else sql_of(tree)


def _refuse_duplicates(names: list[str], lowering: Lowering) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() == RESULT_TIME:
            lowering.faults.append(
                f"an output is called `{name}`, as the column with the time of the result is; give "
                f"it another name, as in `{name} AS {name}_in`"
            )
        if name.lower() in seen:
            lowering.faults.append(
                f"two outputs are called `{name}` (names ignore case); give one another name "
                "with AS, or select `*` for one struct per stream"
            )
        seen.add(name.lower())

"""Schemas written as SQL: ``id LONG, amount DOUBLE, ts TIMESTAMP``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from recalljoin.errors import InvalidQuery
from recalljoin.query.spelling import did_you_mean, shortened

_EXAMPLE: Final = "write for example 'id LONG, amount DOUBLE, ts TIMESTAMP'"
_KINDS: Final = exp.DataType.Type
_PLAIN: Final = {
    _KINDS.BOOLEAN: pa.bool_(),
    _KINDS.TINYINT: pa.int8(),
    _KINDS.SMALLINT: pa.int16(),
    _KINDS.INT: pa.int32(),
    _KINDS.BIGINT: pa.int64(),
    _KINDS.FLOAT: pa.float32(),
    _KINDS.DOUBLE: pa.float64(),
    _KINDS.TEXT: pa.string(),
    _KINDS.BINARY: pa.binary(),
    _KINDS.DATE: pa.date32(),
    _KINDS.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _KINDS.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    _KINDS.TIMESTAMPNTZ: pa.timestamp("us"),
}
_NAMES: Final = (
    "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY",
    "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY", "MAP", "STRUCT",
)  # fmt: skip
_MOST_DIGITS: Final = 38
_DEEPEST: Final = 500
"""Brackets in a schema, at most: the parser calls itself for each."""


def schema_of_ddl(text: str) -> pa.Schema:
    """The columns that a schema written as SQL names.

    Raises
    ------
    InvalidQuery
        With every fault of the text.

    Examples
    --------
    >>> schema_of_ddl("id LONG NOT NULL, tags ARRAY<STRING>")
    id: int64 not null
    tags: list<element: string>
      child 0, element: string
    """
    columns = _parsed(text)
    faults: list[str] = []
    fields: list[pa.Field] = []
    for column in columns:
        try:
            fields.append(_field(column))
        except InvalidQuery as error:
            faults += error.faults
    names = [field.name.lower() for field in fields]
    faults += [
        f"the column `{field.name}` stands there twice"
        for n, field in enumerate(fields)
        if field.name.lower() in names[:n]
    ]
    if not columns:
        faults.append(f"there is no column in it; {_EXAMPLE}")
    if faults:
        raise InvalidQuery(faults)
    return pa.schema(fields)


def _parsed(text: str) -> list[exp.Expr]:
    if sum(text.count(mark) for mark in "<(") > _DEEPEST:
        message = f"`{shortened(text)}` has too many brackets"
        raise InvalidQuery(message)
    try:
        table = sqlglot.parse_one(f"CREATE TABLE t (\n{text}\n)", dialect="spark")
    except (SqlglotError, RecursionError) as error:
        message = f"`{shortened(text)}` cannot be read as columns with their types"
        message += f"; {_hint(text)}"
        raise InvalidQuery(message) from error
    schema = table.this if isinstance(table, exp.Create) else None
    others = [n for n, v in table.args.items() if v and n not in ("this", "kind")]
    if not isinstance(schema, exp.Schema) or others:
        message = f"`{shortened(text)}` is more than columns with their types; {_EXAMPLE}"
        raise InvalidQuery(message)
    return list(schema.expressions)


def _hint(text: str) -> str:
    """What was probably meant by a word that is no type."""
    for mark in "<>():":
        text = text.replace(mark, " ")
    words = text.replace(",", " , ").split()
    for before, word in zip([",", *words], words, strict=False):
        is_type = before != "," and word.upper() not in (*_NAMES, "NOT", "NULL", ",")
        meant = did_you_mean(word, _NAMES) if is_type else None
        if meant is not None:
            return f"did you mean `{meant}` by `{word}`?"
    return _EXAMPLE


def _field(column: exp.Expr) -> pa.Field:
    kind = column.args.get("kind")
    if not isinstance(column, exp.ColumnDef) or not isinstance(kind, exp.DataType):
        message = f"`{shortened(column.sql('spark'))}` is no column with its type; {_EXAMPLE}"
        raise InvalidQuery(message)
    nullable = True
    for constraint in column.args.get("constraints") or ():
        rule = constraint.args.get("kind")
        if isinstance(rule, exp.NotNullColumnConstraint) and not rule.args.get("allow_null"):
            nullable = False
        elif not isinstance(rule, exp.CommentColumnConstraint):
            message = f"column `{column.name}` has more than a type, NOT NULL and a comment"
            raise InvalidQuery(message)
    if not column.name:
        message = f"a column has no name; {_EXAMPLE}"
        raise InvalidQuery(message)
    return pa.field(column.name, _type(kind, column.name), nullable)


def _type(kind: exp.DataType, column: str) -> pa.DataType:
    plain = _PLAIN.get(kind.this)
    inner = kind.expressions
    if plain is not None and not inner:
        return plain
    are_types = all(isinstance(each, exp.DataType) for each in inner)
    if kind.this == _KINDS.ARRAY and len(inner) == 1 and are_types:
        return pa.list_(pa.field("element", _type(inner[0], column)))
    if kind.this == _KINDS.MAP and len(inner) == 2 and are_types:
        return pa.map_(*(_type(each, column) for each in inner))
    if kind.this == _KINDS.STRUCT and inner:
        fields = [_field(each) for each in inner]
        never_null = [field.name for field in fields if not field.nullable]
        if never_null:
            message = f"column `{column}`: NOT NULL is for columns, and `{never_null[0]}` is a "
            message += "field of a STRUCT; leave it out there"
            raise InvalidQuery(message)
        return pa.struct(fields)
    if kind.this == _KINDS.DECIMAL:
        digits = [each.name for each in inner]
        if all(each.isdecimal() for each in digits) and len(digits) <= 2:
            precision, scale = [*map(int, digits), *(10, 0)[len(digits) :]]
            if 1 <= precision <= _MOST_DIGITS and scale <= precision:
                return pa.decimal128(precision, scale)
    message = f"column `{column}`: `{kind.sql('spark')}` is no type that a schema may have; "
    message += f"the types are {', '.join(_NAMES)}"
    raise InvalidQuery(message)

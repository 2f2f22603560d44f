r"""JSON of messages as columns; what does not fit the schema is told apart, never silently null.

Spark's ``from_json`` reads the first value of a text and ignores what follows, takes a row from the
first object of an array, and leaves null what has another type. So the text is read twice: inside
an object, ``{"v":text}``, against the schema, and inside an array, ``[text]``, for its shape. What
can follow a value in an object (``,"name":`` or ``}``) cannot follow a value in an array, and the
other way round: a text that passes both is one JSON value, and by the schema an object.

Two faults are not seen by Spark at all. A number up to 255 becomes a negative ``TINYINT``; so these
columns are read as ``SMALLINT``, and must be the same when they are narrowed. And half a character
(a surrogate without its other half, as in ``"\ud800"``) becomes a question mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from recalljoin.spark.columns import quoted
from recalljoin.spark.packing import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

CORRUPT: Final = "__corrupt"
"""Column in which Spark notes a row that it could not read."""
_TEXT, _PARSED, _IS_TEXT = "__text", "__parsed", "__is_text"
_WHOLE: Final = r"\\\\|\\u[dD][89abAB]\p{XDigit}{2}\\u[dD][c-fC-F]\p{XDigit}{2}"
"""A backslash that stands for itself, or both halves of a character."""
_HALF: Final = r"\\u[dD][89a-fA-F]\p{XDigit}{2}"
_MICROSECONDS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_WALL_CLOCK: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def decoded(
    messages: DataFrame,
    value: Column,
    schema: StructType,
    *,
    beside: Mapping[str, Column],
    options: Mapping[str, str],
) -> DataFrame:
    """The columns of JSON texts, and the text itself in column ``UNREADABLE`` if it has a fault.

    Parameters
    ----------
    messages
        Rows with the texts.
    value
        The texts, as bytes.
    schema
        The columns. A column that may not be null makes a text without it a fault.
    beside
        Further columns, by name.
    options
        Options of Spark's reader of JSON, such as ``timestampFormat``.
    """
    wide = _widened(schema)
    inner = StructType().add("v", wide).add(CORRUPT, StringType())
    text = value.cast("string")
    reading = {**options, "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
    named = {f"__{n}": column.alias(f"__{n}") for n, column in enumerate(beside.values())}
    texts = messages.select(
        *named.values(),
        sf.make_valid_utf8(text).alias(_TEXT),
        sf.is_valid_utf8(text).alias(_IS_TEXT),
    )
    wrapped = sf.concat(sf.lit('{"v":'), sf.col(_TEXT), sf.lit("}"))
    parsed = texts.select("*", sf.from_json(wrapped, inner, reading).alias(_PARSED))
    one_value = sf.json_array_length(sf.concat(sf.lit("["), sf.col(_TEXT), sf.lit("]"))) == 1
    field = sf.col(_PARSED)["v"]
    fits = sf.col(_IS_TEXT) & one_value & field.isNotNull() & sf.col(_PARSED)[CORRUPT].isNull()
    # Few texts have such an escape, and the others need not be searched.
    has_half = sf.regexp_replace(sf.col(_TEXT), _WHOLE, "").rlike(_HALF)
    fits &= ~sf.when(sf.lower(_TEXT).contains(r"\ud"), has_half).otherwise(sf.lit(False))
    columns = {each.name: field[each.name] for each in schema}
    for each in schema:
        if wide[each.name].dataType != each.dataType:
            columns[each.name] = field[each.name].try_cast(each.dataType)
            fits &= _as_json(columns[each.name]) == _as_json(field[each.name])
        if not each.nullable:
            fits &= field[each.name].isNotNull()
    text_if_not = sf.when(~sf.coalesce(fits, sf.lit(False)), sf.coalesce(_TEXT, sf.lit("")))
    return parsed.select(
        *(column.alias(name) for name, column in columns.items()),
        *(sf.col(place).alias(name) for place, name in zip(named, beside, strict=True)),
        text_if_not.alias(UNREADABLE),
    )


def _widened(kind: Any) -> Any:
    """The same type, or schema, with ``SMALLINT`` in the place of ``TINYINT``."""
    match kind:
        case ByteType():
            return ShortType()
        case ArrayType():
            return ArrayType(_widened(kind.elementType), kind.containsNull)
        case MapType():
            key, value = _widened(kind.keyType), _widened(kind.valueType)
            return MapType(key, value, kind.valueContainsNull)
        case StructType():
            return StructType([
                StructField(each.name, _widened(each.dataType), each.nullable) for each in kind
            ])  # fmt: skip
        case _:
            return kind


def _as_json(column: Column) -> Column:
    return sf.to_json(sf.struct(column.alias("v")), {"ignoreNullFields": "false"})


def encoded(columns: list[str]) -> Column:
    """Columns as one JSON text, with times in microseconds and nulls as null."""
    row = sf.struct(*(sf.col(quoted(name)).alias(name) for name in columns))
    return sf.to_json(
        row,
        {
            "ignoreNullFields": "false",
            "timestampFormat": _MICROSECONDS,
            "timestampNTZFormat": _WALL_CLOCK,
        },
    )

"""The built-in functions by the names queries may call them, with how many arguments they take."""

from __future__ import annotations

from typing import Final, NamedTuple


class BuiltIn(NamedTuple):
    """A built-in function as the text of a query calls it."""

    function: str
    """Name in the typed tree, or of the rule that takes it apart."""
    fewest: int
    most: int | None


BUILT_INS: Final[dict[str, BuiltIn]] = {
    "abs": BuiltIn("abs", 1, 1),
    "ceil": BuiltIn("ceil", 1, 1),
    "ceiling": BuiltIn("ceil", 1, 1),
    "char_length": BuiltIn("length", 1, 1),
    "character_length": BuiltIn("length", 1, 1),
    "coalesce": BuiltIn("coalesce", 1, None),
    "concat": BuiltIn("concat", 1, None),
    "exp": BuiltIn("exp", 1, 1),
    "floor": BuiltIn("floor", 1, 1),
    "greatest": BuiltIn("greatest", 2, None),
    "ifnull": BuiltIn("coalesce", 2, 2),
    "least": BuiltIn("least", 2, None),
    "len": BuiltIn("length", 1, 1),
    "length": BuiltIn("length", 1, 1),
    "ln": BuiltIn("ln", 1, 1),
    "lower": BuiltIn("lower", 1, 1),
    "lcase": BuiltIn("lower", 1, 1),
    "ltrim": BuiltIn("ltrim", 1, 1),
    "mod": BuiltIn("modulo", 2, 2),
    "nullif": BuiltIn("nullif", 2, 2),
    "nvl": BuiltIn("coalesce", 2, 2),
    "pow": BuiltIn("power", 2, 2),
    "power": BuiltIn("power", 2, 2),
    "round": BuiltIn("round", 1, 2),
    "rtrim": BuiltIn("rtrim", 1, 1),
    "sign": BuiltIn("sign", 1, 1),
    "signum": BuiltIn("sign", 1, 1),
    "sqrt": BuiltIn("sqrt", 1, 1),
    "substr": BuiltIn("substring", 2, 3),
    "substring": BuiltIn("substring", 2, 3),
    "trim": BuiltIn("trim", 1, 1),
    "ucase": BuiltIn("upper", 1, 1),
    "upper": BuiltIn("upper", 1, 1),
}

KEYWORD_FUNCTIONS: Final = frozenset({"case", "cast", "count", "if", "try_cast"})
"""Names the grammar itself understands."""

# fmt: off
AGGREGATES: Final = frozenset({
    "any_value", "approx_count_distinct", "array_agg", "avg", "bool_and", "bool_or",
    "collect_list", "collect_set", "count", "first", "last", "max", "max_by", "mean", "median",
    "min", "min_by", "mode", "percentile", "stddev", "stddev_pop", "stddev_samp", "string_agg",
    "sum", "var_pop", "var_samp", "variance",
})
# fmt: on
"""Names refused with a word about ``count(*)`` instead of "unknown function"."""

BUILT_IN_NAMES: Final = frozenset(BUILT_INS) | KEYWORD_FUNCTIONS
"""Names a user's own function cannot take."""


def arity_text(fewest: int, most: int | None) -> str:
    """How many arguments a function takes, in words.

    Examples
    --------
    >>> arity_text(2, 3), arity_text(1, 1), arity_text(1, None)
    ('2 or 3 arguments', '1 argument', 'at least 1 argument')
    """
    if most is None:
        return f"at least {fewest} argument{'s' * (fewest != 1)}"
    if fewest == most:
        return f"{fewest} argument{'s' * (fewest != 1)}"
    joined = " or " if most == fewest + 1 else " to "
    return f"{fewest}{joined}{most} arguments"

"""The functions a condition may call over several streams, and names with a meaning of their own.

Other functions of Spark are not listed anywhere: Spark computes what concerns one stream alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class BuiltIn(NamedTuple):
    """A built-in function as the text of a query calls it."""

    function: str
    """Name in the typed tree."""
    fewest: int
    most: int | None


_FLOATING: Final = (
    "acos", "asin", "atan", "cbrt", "cos", "cosh", "degrees", "exp", "expm1", "ln", "log10",
    "log1p", "log2", "radians", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
"""Functions of one number, computed in double precision."""

BUILT_INS: Final[dict[str, BuiltIn]] = {
    **{name: BuiltIn(name, 1, 1) for name in _FLOATING},
    **{name: BuiltIn(name, 2, 2) for name in ("atan2", "hypot", "power")},
    "abs": BuiltIn("abs", 1, 1),
    "ceil": BuiltIn("ceil", 1, 1),
    "ceiling": BuiltIn("ceil", 1, 1),
    "floor": BuiltIn("floor", 1, 1),
    "greatest": BuiltIn("greatest", 2, None),
    "least": BuiltIn("least", 2, None),
    "log": BuiltIn("log", 1, 2),
    "mod": BuiltIn("modulo", 2, 2),
    "pow": BuiltIn("power", 2, 2),
    "round": BuiltIn("round", 1, 2),
    "signum": BuiltIn("sign", 1, 1),
}

# fmt: off
AGGREGATES: Final = frozenset({
    "any_value", "approx_count_distinct", "array_agg", "avg", "bool_and", "bool_or",
    "collect_list", "collect_set", "count", "first", "last", "max", "max_by", "mean", "median",
    "min", "min_by", "mode", "percentile", "stddev", "stddev_pop", "stddev_samp", "string_agg",
    "sum", "var_pop", "var_samp", "variance",
})
"""Aggregates, which are refused with a hint about ``count(*)``."""

CHANGING: Final = frozenset({
    "current_date", "current_time", "current_timestamp", "curdate", "input_file_name", "localtime",
    "localtimestamp", "monotonically_increasing_id", "now", "rand", "randn", "random", "randstr",
    "shuffle", "spark_partition_id", "uniform", "uuid",
})
"""Functions of Spark whose value depends on more than their arguments."""

GENERATORS: Final = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
    "posexplode_outer", "stack", "variant_explode",
})
"""Functions of Spark that make several rows of one."""
# fmt: on

_KEYWORDS: Final = frozenset({"case", "cast", "count", "if", "try_cast"})

TAKEN_NAMES: Final = frozenset(BUILT_INS) | _KEYWORDS
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

"""Random expressions over two streams, each as the engine reads it and as Spark computes it.

Where the engine calls a value impossible, Spark raises; so Spark is given the functions that give
null instead (``try_add`` and the like). Functions that look at nulls get no such operands.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TOP, BOTTOM = 2**63 - 1, -(2**63)
NAN, INF = float("nan"), float("inf")
COLUMNS: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "i": (pa.int64(), "bigint", [0, 1, -1, 7, -13, 2**53 + 1, TOP, BOTTOM, None]),
    "n": (pa.int32(), "int", [0, 1, -2, 5, 1000, None]),
    "f": (pa.float64(), "double", [0.0, -0.0, 1.5, -2.5, 0.1, 1e300, NAN, INF, -INF, None]),
    "h": (pa.float32(), "float", [0.0, 0.5, -1.25, 3e38, NAN, None]),
    "d": (
        pa.decimal128(10, 2),
        "decimal(10,2)",
        [Decimal("0.10"), Decimal("-1.00"), Decimal("99999999.99"), None],
    ),
    "s": (pa.string(), "string", ["", "a", "A", "ä", "zz", None]),
    "b": (pa.bool_(), "boolean", [True, False, None]),
    "t": (
        pa.timestamp("us", "UTC"),
        "timestamp",
        [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in (0, 1, -90)] + [None],
    ),
    "day": (pa.date32(), "date", [date(2024, 2, 29), date(1969, 12, 31), None]),
}
STREAM_DDL = ", ".join(f"{name}: {ddl}" for name, (_, ddl, _) in COLUMNS.items())
Row = dict[str, dict[str, Any]]


def rows(n: int) -> list[Row]:
    """Rows of both streams, the same each time."""
    chance = random.Random(12)
    return [
        {
            stream: {name: chance.choice(values) for name, (_, _, values) in COLUMNS.items()}
            for stream in "ab"
        }
        for _ in range(n)
    ]


@dataclass(frozen=True)
class Term:
    """An expression in both spellings."""

    sql: str
    spark: str
    safe: bool = True
    """Whether its value can always be computed."""


def plain(text: str) -> Term:
    return Term(text, text)


def column(*names: str) -> st.SearchStrategy[Term]:
    pairs = itertools.product("ab", names)
    return st.sampled_from([plain(f"{stream}.{name}") for stream, name in pairs])


def call(name: str, *args: Term) -> Term:
    return Term(
        f"{name}({', '.join(arg.sql for arg in args)})",
        f"{name}({', '.join(arg.spark for arg in args)})",
        all(arg.safe for arg in args),
    )


def infix(sign: str, one: Term, other: Term) -> Term:
    return Term(
        f"({one.sql} {sign} {other.sql})",
        f"({one.spark} {sign} {other.spark})",
        one.safe and other.safe,
    )


TRIED = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
    "%": "try_mod",
}


def arithmetic(sign: str, one: Term, other: Term) -> Term:
    sql = f"({one.sql} {sign} {other.sql})"
    return Term(sql, f"{TRIED[sign]}({one.spark}, {other.spark})", safe=False)


def negated(one: Term) -> Term:
    return Term(f"(-{one.sql})", f"try_multiply({one.spark}, -1)", safe=False)


def magnitude(one: Term) -> Term:
    return Term(
        f"abs({one.sql})", f"if({one.spark} = {BOTTOM}, NULL, abs({one.spark}))", safe=False
    )


def whole(name: str, one: Term) -> Term:
    tried = f"if(abs({one.spark}) < 9e18, {name}({one.spark}), NULL)"
    return Term(f"{name}({one.sql})", tried, safe=False)


def _binary(signs: str, terms: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.builds(arithmetic, st.sampled_from(signs), terms, terms)


_INTEGERS = st.recursive(
    # Integers of 32 bits among themselves overflow earlier in Spark, so one side has 64.
    column("i") | st.sampled_from([plain("2"), plain("-1000000"), plain("3000000000")]),
    lambda inner: (
        st.builds(arithmetic, st.sampled_from("+-*%"), column("i"), inner | column("n"))
        | st.builds(negated, column("i"))
        | st.builds(magnitude, column("i"))
    ),
    max_leaves=4,
)
_FLOATS = st.recursive(
    column("f") | st.sampled_from([plain("0.5"), plain("1e3")]),
    lambda inner: (
        _binary("+-*/%", st.tuples(column("f"), inner).map(lambda pair: pair[0]) | inner)
        | st.builds(lambda one: call("sqrt", one), inner)
        | st.builds(lambda one: call("abs", one), column("f"))
        | st.builds(lambda one: Term(f"(-{one.sql})", f"(-{one.spark})"), column("f"))
    ),
    max_leaves=5,
).filter(lambda term: ".f" in term.sql)
_MIXED = (
    _binary("+-*", st.one_of(column("d"), column("d", "n"), st.just(plain("2.5"))))
    | st.builds(arithmetic, st.sampled_from("/"), column("i", "n"), column("i", "n", "f"))
    | st.builds(arithmetic, st.sampled_from("+-*/"), column("h"), column("h", "n", "f"))
    | st.builds(whole, st.sampled_from(["floor", "ceil"]), column("f"))
    | st.builds(
        lambda one, places: Term(f"round({one.sql}, {places})", f"round({one.spark}, {places})"),
        column("f"),
        st.integers(0, 5),
    )
)
_NAMES = (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "expm1", "ln",
    "log10", "log2", "log1p", "cbrt", "sqrt", "degrees", "radians", "sign",
)  # fmt: skip
# Libraries of mathematics differ in the last digits.
FUNCTIONS = st.builds(call, st.sampled_from(_NAMES), column("f", "n", "d")) | st.builds(
    call,
    st.sampled_from(["power", "atan2", "hypot", "log"]),
    column("f", "n"),
    column("f", "n"),
)

NUMBERS = _INTEGERS | _FLOATS | _MIXED
"""Numbers that are the same to the last digit."""

_SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_COMPARED = (
    st.builds(infix, _SIGNS, NUMBERS, NUMBERS | column("i", "n", "f", "h", "d"))
    | st.builds(infix, _SIGNS, column("s"), column("s") | st.just(plain("'a'")))
    | st.builds(infix, _SIGNS, column("t"), column("t"))
    | st.builds(infix, _SIGNS, column("day"), column("day"))
    | st.builds(
        lambda sign, one, other, seconds: infix(
            sign, infix("-", one, other), plain(f"INTERVAL '{seconds}' SECOND")
        ),
        _SIGNS,
        column("t"),
        column("t"),
        st.sampled_from([0, 1, 90]),
    )
)
_CHOSEN = st.builds(
    lambda sign, name, one, other, third: infix(sign, call(name, one, other), third),
    _SIGNS,
    st.sampled_from(["least", "greatest"]),
    column("i", "n", "f", "h"),
    column("i", "n", "f"),
    column("f"),
)


def _looks_at_nulls(one: Term, other: Term, how: str) -> Term:
    if how == "<=>":
        return infix("<=>", one, other)
    return Term(f"({one.sql} {how})", f"({one.spark} {how})", one.safe)


_BASE = (
    _COMPARED
    | _CHOSEN
    | column("b")
    | st.builds(
        _looks_at_nulls,
        column("i", "f", "s", "b") | FUNCTIONS,
        column("i", "f"),
        st.sampled_from(["IS NULL", "IS NOT NULL"]),
    )
    | st.builds(_looks_at_nulls, column("i", "f"), column("i", "n", "f"), st.just("<=>"))
    | st.builds(
        lambda one, values: Term(
            f"({one.sql} IN {values})", f"({one.spark} IN {values})", one.safe
        ),
        _INTEGERS | column("n", "f", "d"),
        st.sampled_from(["(0, 7)", "(1, NULL)", "(0.10, -2)"]),
    )
    | st.builds(
        lambda one, low, high: Term(
            f"({one.sql} BETWEEN {low.sql} AND {high.sql})",
            f"({one.spark} BETWEEN {low.spark} AND {high.spark})",
            one.safe and low.safe and high.safe,
        ),
        NUMBERS,
        column("i", "f"),
        column("n", "f", "d"),
    )
)
CONDITIONS = st.recursive(
    _BASE,
    lambda inner: (
        st.builds(infix, st.sampled_from(["AND", "OR"]), inner, inner)
        | st.builds(lambda one: Term(f"(NOT {one.sql})", f"(NOT {one.spark})", one.safe), inner)
        | st.builds(
            lambda one, how: Term(f"({one.sql} {how})", f"({one.spark} {how})"),
            inner.filter(lambda term: term.safe),
            st.sampled_from(["IS TRUE", "IS NOT FALSE"]),
        )
    ),
    max_leaves=5,
)
"""What is true or not."""

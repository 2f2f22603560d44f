"""Random SQL expressions, each with a plain Python function that says what it must give.

A :class:`Term` is built twice at once: as SQL text, and as a function from a row of Python values
to the expected value, None for null. The functions are written for obviousness, from the documented
semantics, and share nothing with the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
Run = Callable[[Row], Any]

INT64 = (-(2**63), 2**63 - 1)
EXACT = Context(prec=200)

COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "i": ("int", pa.int64()),
    "j": ("int", pa.int8()),
    "k": ("int", pa.dictionary(pa.int8(), pa.int32())),
    "u": ("uint", pa.uint64()),
    "f": ("float", pa.float64()),
    "g": ("float", pa.float32()),
    "d": ("decimal", pa.decimal128(10, 2)),
    "s": ("text", pa.string()),
    "w": ("text", pa.dictionary(pa.int8(), pa.string())),
    "v": ("text", pa.string_view()),
    "x": ("text", pa.large_string()),
    "b": ("bool", pa.bool_()),
    "day": ("date", pa.date32()),
    "t": ("clock", pa.timestamp("us")),
    "z": ("instant", pa.timestamp("ms", "UTC")),
    "n": ("clock", pa.timestamp("s")),
}
SCHEMA = pa.schema([pa.field("ts", pa.int64()), *((n, t) for n, (_k, t) in COLUMNS.items())])


@dataclass(frozen=True)
class Term:
    """An expression: its kind of value, its SQL, and what it gives on a row."""

    kind: str
    sql: str
    run: Run

    def __repr__(self) -> str:
        return f"Term({self.kind}: {self.sql})"


# Values -----------------------------------------------------------------------------------------

small = st.integers(-3, 3)
texts = st.text(alphabet="aAbé%_\\ '", max_size=4)
floats32 = st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.5, 1.0, math.nan])
decimals = st.decimals(min_value=-99_999_999, max_value=99_999_999, places=2) | st.sampled_from(
    [Decimal("0.00"), Decimal("1.00"), Decimal("2.50"), Decimal("-2.50")]
)
clocks = st.datetimes(datetime(2023, 12, 30), datetime(2024, 1, 2))  # noqa: DTZ001 - wall clock
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": small | st.integers(*INT64),
    "j": st.integers(-128, 127),
    "k": small,
    "u": st.integers(0, 3) | st.integers(0, 2**64 - 1),
    "f": floats32 | st.floats(),
    "g": floats32,
    "d": decimals,
    "s": texts,
    "w": texts,
    "v": texts,
    "x": texts,
    "b": st.booleans(),
    "day": st.dates(date(2023, 12, 30), date(2024, 1, 2)),
    "t": clocks,
    "z": clocks.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, tzinfo=UTC)),
    "n": clocks.map(lambda t: t.replace(microsecond=0)),
}


def rows() -> st.SearchStrategy[list[Row]]:
    """A few rows of two streams, with keys such as ``s1.i``; what is missing is null."""
    names = [f"{stream}.{column}" for stream in ("s1", "s2") for column in COLUMNS]
    one_row = st.fixed_dictionaries({}, optional={name: VALUES[name[3:]] for name in names})
    return st.lists(one_row, max_size=5)


def array_of(name: str, table: list[Row]) -> pa.Array:
    """One column of the rows, in the type its stream declares."""
    type_ = COLUMNS[name[3:]][1]
    values = [row.get(name) for row in table]
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode().cast(type_)
    return pa.array(values, type_)


# Oracle steps -----------------------------------------------------------------------------------


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Null as soon as one argument is null."""
    return lambda *args: None if any(arg is None for arg in args) else function(*args)


def to_kind(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "float":
        return float(value)
    if kind == "decimal" and isinstance(value, int):
        return Decimal(value)
    if kind == "int" and not INT64[0] <= value <= INT64[1]:
        return None
    return value


def order(value: Any) -> Any:
    """Sort key: NaN equals itself and is above everything."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    return (0, value) if isinstance(value, float) else value


def in_range(value: Any) -> Any:
    """An integer result, or null where 64 bits do not hold it."""
    return value if INT64[0] <= value <= INT64[1] else None


def float_op(function: Callable[..., float]) -> Callable[..., float]:
    """Floating point as IEEE has it, where Python would raise."""

    def run(*args: float) -> float:
        try:
            return function(*args)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return run


def common_kind(kinds: list[str]) -> str:
    if "float" in kinds:
        return "float"
    if "decimal" in kinds or len({"int", "uint"} & set(kinds)) == 2:
        return "decimal"
    return kinds[0]


def like(text: str, pattern: str) -> bool:
    """LIKE by trying; a backslash escapes."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(like(text[at:], rest) for at in range(len(text) + 1))
    if head == "\\" and rest:
        head, rest = rest[0], rest[1:]
    elif head == "_":
        return bool(text) and like(text[1:], rest)
    return text[:1] == head and like(text[1:], rest)


def substring(text: str, start: int, length: int) -> str:
    """Characters by position: 1 is the first, -1 the last, 0 the same as 1."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    wanted = range(first, first + max(length, 0))
    return "".join(character for at, character in enumerate(text) if at in wanted)


def rounded(value: Decimal, digits: int) -> Decimal:
    with localcontext(EXACT):
        return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def remainder(one: Any, other: Any) -> Any:
    """Remainder with the sign of the dividend; null for a divisor of zero."""
    if not other:
        return None
    if isinstance(one, float):
        return float_op(math.fmod)(one, other)
    with localcontext(EXACT):
        return (
            one % other
            if isinstance(one, Decimal)
            else int(math.copysign(1, one)) * (abs(one) % abs(other))
        )


def arithmetic(sign: str, kind: str) -> Callable[[Any, Any], Any]:
    def run(one: Any, other: Any) -> Any:
        one, other = to_kind(one, kind), to_kind(other, kind)
        if one is None or other is None:
            return None
        with localcontext(EXACT):
            if sign == "%":
                return remainder(one, other)
            value = {"+": one + other, "-": one - other, "*": one * other}[sign]
        return in_range(value) if kind == "int" else value

    return run


# Terms ------------------------------------------------------------------------------------------


def column(kind: str) -> st.SearchStrategy[Term]:
    names = [
        f"{stream}.{name}"
        for stream in ("s1", "s2")
        for name, (of_kind, _type) in COLUMNS.items()
        if of_kind == kind
    ]
    return st.sampled_from(names).map(lambda name: Term(kind, name, lambda row: row.get(name)))


def constant(kind: str, sql: str, value: Any) -> Term:
    return Term(kind, sql, lambda _row: value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


constants: dict[str, st.SearchStrategy[Term]] = {
    "int": (small | st.integers(-(2**63) + 1, 2**63 - 1)).map(lambda n: constant("int", str(n), n)),
    "float": st.floats(-1000, 1000, width=32).map(
        lambda x: constant("float", f"CAST({x!r} AS DOUBLE)", float(x))
    ),
    "decimal": st.decimals(-99, 99, places=1).map(
        lambda x: constant("decimal", f"CAST('{x}' AS DECIMAL(4, 1))", x)
    ),
    "text": texts.map(lambda text: constant("text", quoted(text), text)),
    "bool": st.booleans().map(lambda flag: constant("bool", str(flag).upper(), flag)),
    "date": VALUES["day"].map(lambda day: constant("date", f"DATE '{day}'", day)),
    "clock": clocks.map(lambda t: constant("clock", f"TIMESTAMP '{t}'", t)),
    "instant": VALUES["z"].map(lambda t: constant("instant", f"TIMESTAMP '{t}'", t)),
    "span": st.integers(-(10**6), 10**6).map(
        lambda ms: constant("span", f"INTERVAL '{ms}' MILLISECOND", timedelta(milliseconds=ms))
    ),
    "uint": column("uint"),
}


def null_of(kind: str) -> st.SearchStrategy[Term]:
    types = {
        "int": "BIGINT",
        "float": "DOUBLE",
        "decimal": "DECIMAL(4, 1)",
        "text": "STRING",
        "bool": "BOOLEAN",
        "date": "DATE",
        "clock": "TIMESTAMP",
        "instant": "TIMESTAMPTZ",
    }
    if kind not in types:
        return st.nothing()
    return st.just(constant(kind, f"CAST(NULL AS {types[kind]})", None))


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> Term:
    """A number of any kind."""
    kind = draw(st.sampled_from(["int", "int", "float", "decimal", "uint"]))
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        leaf = column(kind) if kind == "uint" else column(kind) | constants[kind] | null_of(kind)
        return draw(leaf)
    form = draw(st.sampled_from(["binary", "divide", "unary", "float", "round", "if", "length"]))
    return draw(NUMBER_FORMS[form](depth - 1))


@st.composite
def binary(draw: st.DrawFn, depth: int) -> Term:
    one, other = draw(numbers(depth)), draw(numbers(depth))
    sign = draw(st.sampled_from("+-*%"))
    kinds = ["int" if term.kind == "uint" else term.kind for term in (one, other)]
    kind = common_kind(kinds)
    step = arithmetic(sign, kind)

    def run(row: Row) -> Any:
        values = [to_kind(term.run(row), k) for term, k in zip((one, other), kinds, strict=True)]
        return step(*values)

    return Term(kind, f"({one.sql} {sign} {other.sql})", run)


@st.composite
def divide(draw: st.DrawFn, depth: int) -> Term:
    one, other = draw(numbers(depth)), draw(numbers(depth))

    @strict
    def step(a: Any, b: Any) -> Any:
        return float(a) / float(b) if float(b) else None

    def run(row: Row) -> Any:
        # An unsigned integer is a signed one first, as in all arithmetic.
        a, b = (signed(term).run(row) for term in (one, other))
        return step(a, b)

    return Term("float", f"({one.sql} / {other.sql})", run)


def signed(term: Term) -> Term:
    if term.kind != "uint":
        return term
    return Term("int", term.sql, lambda row: to_kind(term.run(row), "int"))


@st.composite
def unary(draw: st.DrawFn, depth: int) -> Term:
    term = signed(draw(numbers(depth)))
    name = draw(st.sampled_from(["abs", "-", "sign"]))

    @strict
    def step(value: Any) -> Any:
        with localcontext(EXACT):
            if name == "sign":
                if isinstance(value, float) and (math.isnan(value) or not value):
                    return value
                sign = (value > 0) - (value < 0)
                return float(sign) if isinstance(value, float) else sign
            result = (
                abs(value)
                if name == "abs"
                else value.copy_negate()
                if isinstance(value, Decimal)
                else -value
            )
            return in_range(result) if term.kind == "int" else result

    kind = "int" if name == "sign" and term.kind == "decimal" else term.kind
    sql = f"(- {term.sql})" if name == "-" else f"{name}({term.sql})"
    return Term(kind, sql, lambda row: step(term.run(row)))


@st.composite
def float_function(draw: st.DrawFn, depth: int) -> Term:
    name = draw(st.sampled_from(["sqrt", "exp", "ln", "power"]))
    terms = [signed(draw(numbers(depth))) for _ in range(2 if name == "power" else 1)]

    @strict
    def step(*values: Any) -> Any:
        given = [float(value) for value in values]
        if name == "ln":
            return None if given[0] <= 0 else math.log(given[0])
        if name == "power":
            return ieee_power(*given)
        return float_op({"sqrt": math.sqrt, "exp": math.exp}[name])(*given)

    sql = f"{name}({', '.join(term.sql for term in terms)})"
    return Term("float", sql, lambda row: step(*(term.run(row) for term in terms)))


def ieee_power(base: float, exponent: float) -> float:
    odd = (
        exponent == math.floor(exponent) and exponent % 2 == 1 if math.isfinite(exponent) else False
    )
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0:
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


@st.composite
def rounding(draw: st.DrawFn, depth: int) -> Term:
    term = signed(draw(numbers(depth)))
    name = draw(st.sampled_from(["floor", "ceil", "round"]))
    # Arrow scales floating-point numbers to round them; only at 0 digits is that exact.
    digits = draw(st.integers(-2, 2)) if name == "round" and term.kind != "float" else 0

    @strict
    def step(value: Any) -> Any:
        if isinstance(value, int):
            return in_range(int(rounded(Decimal(value), digits))) if name == "round" else value
        if isinstance(value, float) and not math.isfinite(value):
            return value
        with localcontext(EXACT):
            exact = Decimal(value)
            if name == "round":
                result = rounded(exact, digits)
            else:
                result = Decimal(math.floor(exact) if name == "floor" else math.ceil(exact))
        return float(result) if isinstance(value, float) else result

    sql = f"{name}({term.sql}, {digits})" if name == "round" else f"{name}({term.sql})"
    return Term(term.kind, sql, lambda row: step(term.run(row)))


@st.composite
def number_choice(draw: st.DrawFn, depth: int) -> Term:
    terms = [signed(draw(numbers(depth))) for _ in range(2)]
    # Signed in SQL as well: a choice between int64 and uint64 is a decimal.
    terms = [
        Term("int", f"({term.sql} + 0)", term.run) if term.sql.endswith(".u") else term
        for term in terms
    ]
    return draw(choice(common_kind([term.kind for term in terms]), terms, depth))


@st.composite
def choice(draw: st.DrawFn, kind: str, terms: list[Term], depth: int) -> Term:
    """One of the functions that pick an argument."""
    one, other = terms
    name = draw(st.sampled_from(["if", "case", "coalesce", "nullif", "least", "greatest"]))

    def values(row: Row) -> list[Any]:
        return [to_kind(term.run(row), kind) for term in terms]

    if name in {"if", "case"}:
        test = draw(booleans(max(depth - 1, 0)))
        sql = {
            "if": f"IF({test.sql}, {one.sql}, {other.sql})",
            "case": f"CASE WHEN {test.sql} THEN {one.sql} ELSE {other.sql} END",
        }[name]
        return Term(kind, sql, lambda row: values(row)[0 if test.run(row) is True else 1])

    def run(row: Row) -> Any:
        first, second = values(row)
        if name == "nullif":
            same = first is not None and second is not None and order(first) == order(second)
            return None if same else to_kind(one.run(row), one.kind)
        known = [value for value in (first, second) if value is not None]
        if name == "coalesce":
            return known[0] if known else None
        pick = min if name == "least" else max
        return pick(known, key=order) if known else None

    sql = f"{name}({one.sql}, {other.sql})"
    return Term(one.kind if name == "nullif" else kind, sql, run)


@st.composite
def length(draw: st.DrawFn, depth: int) -> Term:
    term = draw(strings(depth))
    return Term("int", f"length({term.sql})", lambda row: strict(len)(term.run(row)))


NUMBER_FORMS: dict[str, Callable[[int], st.SearchStrategy[Term]]] = {
    "binary": binary,
    "divide": divide,
    "unary": unary,
    "float": float_function,
    "round": rounding,
    "if": number_choice,
    "length": length,
}


@st.composite
def strings(draw: st.DrawFn, depth: int) -> Term:
    """Some text."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(column("text") | constants["text"] | null_of("text"))
    depth -= 1
    one = draw(strings(depth))
    name = draw(st.sampled_from(["lower", "upper", "trim", "||", "substring", "choice"]))
    if name == "choice":
        return draw(choice("text", [one, draw(strings(depth))], depth))
    if name == "||":
        other = draw(strings(depth))
        joined = strict(lambda a, b: a + b)
        return Term(
            "text", f"({one.sql} || {other.sql})", lambda r: joined(one.run(r), other.run(r))
        )
    if name == "substring":
        start, count = (draw(constants["int"] | column("int")) for _ in range(2))
        parts = (one, start, count)
        step = strict(substring)
        sql = f"substring({one.sql}, {start.sql}, {count.sql})"
        return Term("text", sql, lambda row: step(*(part.run(row) for part in parts)))
    function = {"lower": str.lower, "upper": str.upper, "trim": lambda text: text.strip(" ")}[name]
    return Term("text", f"{name}({one.sql})", lambda row: strict(function)(one.run(row)))


@st.composite
def times(draw: st.DrawFn, kind: str, depth: int) -> Term:
    """A date, a timestamp without or with zone."""
    base = draw(column(kind) | constants[kind] | null_of(kind))
    if depth and kind != "date" and draw(st.booleans()):
        span = draw(constants["span"])
        sign = draw(st.sampled_from("+-"))
        move = strict(lambda t, by: t + by if sign == "+" else t - by)
        sql = f"({base.sql} {sign} {span.sql})"
        return Term(kind, sql, lambda row: move(base.run(row), span.run(row)))
    return base


@st.composite
def spans(draw: st.DrawFn, depth: int) -> Term:
    """A duration."""
    kind = draw(st.sampled_from(["clock", "instant", "date", "span"]))
    if kind == "span":
        return draw(constants["span"])
    one, other = draw(times(kind, depth)), draw(times(kind, depth))
    absolute = draw(st.booleans())
    step = strict(lambda a, b: abs(a - b) if absolute else a - b)
    sql = f"({one.sql} - {other.sql})"
    return Term(
        "span", f"abs{sql}" if absolute else sql, lambda row: step(one.run(row), other.run(row))
    )


@st.composite
def comparisons(draw: st.DrawFn, depth: int) -> Term:
    kind = draw(st.sampled_from(["number", "number", "text", "bool", "date", "clock", "span"]))
    if kind == "number":
        terms = [draw(numbers(depth)) for _ in range(3)]
    elif kind == "text":
        terms = [draw(strings(depth)) for _ in range(3)]
    elif kind == "bool":
        terms = [draw(booleans(0)) for _ in range(3)]
    elif kind == "span":
        terms = [draw(spans(depth)) for _ in range(3)]
    else:
        kind = draw(st.sampled_from([kind, "instant"]))
        terms = [draw(times(kind, depth)) for _ in range(3)]
    sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IS DISTINCT FROM"]))
    one, other, third = terms

    def pair(row: Row, a: Term, b: Term) -> list[Any]:
        both = common_kind([a.kind, b.kind])
        return [order(to_kind(term.run(row), both)) for term in (a, b)]

    def run(row: Row) -> Any:
        if sign == "BETWEEN":
            above = strict(lambda a, b: a >= b)(*pair(row, one, other))
            below = strict(lambda a, b: a <= b)(*pair(row, one, third))
            return kleene_and(above, below)
        a, b = pair(row, one, other)
        if sign == "IS DISTINCT FROM":
            return (a is None) != (b is None) or (a is not None and a != b)
        return strict(COMPARE[sign])(a, b)

    if sign == "BETWEEN":
        return Term("bool", f"({one.sql} BETWEEN {other.sql} AND {third.sql})", run)
    return Term("bool", f"({one.sql} {sign} {other.sql})", run)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def kleene_and(*values: Any) -> Any:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def kleene_or(*values: Any) -> Any:
    if any(value is True for value in values):
        return True
    return None if any(value is None for value in values) else False


@st.composite
def memberships(draw: st.DrawFn, depth: int) -> Term:
    kind = draw(st.sampled_from(["int", "text", "float"]))
    term = draw(strings(depth) if kind == "text" else column(kind))
    options = draw(st.lists(constants[kind] | null_of(kind), min_size=1, max_size=3))
    negated = draw(st.booleans())

    def run(row: Row) -> Any:
        value = term.run(row)
        if value is None:
            return None
        found = kleene_or(
            *(strict(lambda a, b: order(a) == order(b))(value, each.run(row)) for each in options)
        )
        return strict(lambda truth: not truth)(found) if negated else found

    listed = ", ".join(option.sql for option in options)
    return Term("bool", f"({term.sql} {'NOT ' * negated}IN ({listed}))", run)


@st.composite
def booleans(draw: st.DrawFn, depth: int) -> Term:
    """A condition."""
    if depth == 0:
        return draw(column("bool") | constants["bool"] | null_of("bool"))
    depth -= 1
    form = draw(st.sampled_from(["compare", "compare", "logic", "not", "null", "in", "like", "is"]))
    if form == "compare":
        return draw(comparisons(depth))
    if form == "in":
        return draw(memberships(depth))
    if form == "like":
        text, pattern = draw(strings(depth)), draw(texts)
        sql = f"({text.sql} LIKE {quoted(pattern)})"
        return Term("bool", sql, lambda r: strict(like)(text.run(r), pattern))
    if form == "null":
        tested = draw(numbers(depth) | strings(depth) | booleans(depth))
        negated = draw(st.booleans())
        sql = f"({tested.sql} IS {'NOT ' * negated}NULL)"
        return Term("bool", sql, lambda row: (tested.run(row) is None) != negated)
    one = draw(booleans(depth))
    if form == "not":
        return Term("bool", f"(NOT {one.sql})", lambda row: strict(lambda v: not v)(one.run(row)))
    if form == "is":
        truth = draw(st.booleans())
        return Term("bool", f"({one.sql} IS {str(truth).upper()})", lambda r: one.run(r) is truth)
    other = draw(booleans(depth))
    word, step = draw(st.sampled_from([("AND", kleene_and), ("OR", kleene_or)]))
    return Term("bool", f"({one.sql} {word} {other.sql})", lambda r: step(one.run(r), other.run(r)))


def terms(depth: int = 3) -> st.SearchStrategy[Term]:
    """Expressions of all kinds."""
    return booleans(depth) | numbers(depth) | strings(depth) | spans(depth)

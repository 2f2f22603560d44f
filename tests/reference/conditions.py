"""Kinds of join condition, each said twice: as SQL text and as plain Python.

The text is what a user would write for streams ``s1`` .. ``sm``; the predicate is what it means,
written without looking at how the library reads it. A condition also says which columns its
streams have and which values to draw for them: few, so that they meet.

SQL's null is Python's None. A comparison with null is not true, and nothing here negates one, so
two-valued predicates are enough.
"""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.reference.model import Query

if TYPE_CHECKING:
    from tests.reference.model import Predicate


@dataclass(frozen=True)
class Domain:
    """A column: its Arrow type by name, and the values drawn for it, some more often."""

    type: str
    values: tuple[object, ...]


Columns: TypeAlias = Mapping[str, Domain]

INTEGERS = Domain("int64", (0, 0, 1, 2))
NULLABLE = Domain("int64", (0, 0, 1, None))
NUMBERS = Domain("int64", (-2, -1, 0, 1, 2, 3))
NULLABLE_NUMBERS = Domain("int64", (-1, 0, 1, None))
FLOATS = Domain("float64", (0.0, -0.0, 1.5, float("nan")))
WHOLE_FLOATS = Domain("float64", (0.0, 1.0, 1.5, None))
STRINGS = Domain("string", ("", "a", "A", "a ", "ä"))
BOOLEANS = Domain("bool", (True, False))
DATES = Domain("date32", (datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)))
DECIMALS = Domain(
    "decimal128(9, 2)",
    (decimal.Decimal("0.10"), decimal.Decimal("0.20"), decimal.Decimal("-1.00")),
)


@dataclass(frozen=True)
class Condition:
    """One condition over ``m`` streams.

    Attributes
    ----------
    kind
        Name of the kind, for test ids and failure messages.
    columns
        Columns of each stream, besides ``ts``.
    sql
        Text of the condition. None: there is none, a cross join.
    predicate
        What it means.
    """

    kind: str
    columns: tuple[Columns, ...]
    sql: str | None
    predicate: Predicate

    @property
    def m(self) -> int:
        """Number of streams."""
        return len(self.columns)

    def query(self, windows: tuple[int, ...]) -> Query:
        """Join with this condition over windows of these sizes."""
        return Query(windows, self.predicate)


# Values are typed as SQL types them, row by row; Python's checker cannot follow that.
def _compare(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    return left is not None and right is not None and compare(left, right)


def equal(left: Any, right: Any) -> bool:
    """SQL's ``=`` in a condition: null equals nothing; NaN equals NaN, as in Spark."""
    return _compare(operator.eq, left, right) or (
        _compare(operator.ne, left, left) and _compare(operator.ne, right, right)
    )


def at_most(left: Any, right: Any) -> bool:
    """SQL's ``<=`` in a condition."""
    return _compare(operator.le, left, right)


def plus(left: Any, right: Any) -> Any:
    """SQL's ``+``: null if either side is."""
    return None if left is None or right is None else left + right


def _equalities(kind: str, columns: tuple[Columns, ...], *pairs: tuple[str, str]) -> Condition:
    """Make a conjunction of equalities between columns named like ``s1.a``."""

    def split(name: str) -> tuple[int, str]:
        stream, column = name.split(".")
        return int(stream.removeprefix("s")) - 1, column

    places = [(split(left), split(right)) for left, right in pairs]
    return Condition(
        kind,
        columns,
        " AND ".join(f"{left} = {right}" for left, right in pairs),
        lambda rows: all(equal(rows[i][a], rows[j][b]) for (i, a), (j, b) in places),
    )


def _neighbours(m: int, column: str) -> list[tuple[str, str]]:
    return [(f"s{i}.{column}", f"s{i + 1}.{column}") for i in range(1, m)]


def _same_key(kind: str, m: int, domain: Domain) -> Condition:
    return _equalities(kind, ({"a": domain},) * m, *_neighbours(m, "a"))


def single_class(m: int) -> Condition:
    """All streams agree on one key: the paper's three-way query."""
    return _same_key("single class", m, INTEGERS)


def string_keys(m: int) -> Condition:
    """One key, a string; values that careless comparisons confuse."""
    return _same_key("string keys", m, STRINGS)


def boolean_keys(m: int) -> Condition:
    """One key, true or false."""
    return _same_key("boolean keys", m, BOOLEANS)


def date_keys(m: int) -> Condition:
    """One key, a date."""
    return _same_key("date keys", m, DATES)


def decimal_keys(m: int) -> Condition:
    """One key, a decimal number."""
    return _same_key("decimal keys", m, DECIMALS)


def float_keys(m: int) -> Condition:
    """One key, a float: minus zero equals zero, NaN equals NaN."""
    return _same_key("float keys", m, FLOATS)


def null_keys(m: int) -> Condition:
    """One key that may be null, and a comparison that may meet null."""
    classes = _same_key("null keys", m, NULLABLE)
    return Condition(
        "null keys",
        ({"a": NULLABLE, "x": NULLABLE_NUMBERS},) * m,
        f"{classes.sql} AND s1.x <= s2.x",
        lambda rows: classes.predicate(rows) and at_most(rows[0]["x"], rows[1]["x"]),
    )


def mixed_numbers(m: int) -> Condition:
    """Integer keys on one side, floats on the other."""
    columns: list[Columns] = [{"a": INTEGERS} for _ in range(m)]
    columns[1] = {"a": WHOLE_FLOATS}
    return _equalities("mixed numbers", tuple(columns), *_neighbours(m, "a"))


def star(m: int) -> Condition:
    """The first stream meets each other one on a key of its own: the paper's four-way query."""
    names = [f"a{j}" for j in range(1, m)]
    centre: Columns = dict.fromkeys(names, INTEGERS)
    leaves: list[Columns] = [{name: INTEGERS} for name in names]
    pairs = [(f"s1.{name}", f"s{j}.{name}") for j, name in enumerate(names, start=2)]
    return _equalities("star", (centre, *leaves), *pairs)


def chain(m: int) -> Condition:
    """Each stream meets the next on a key of its own."""
    pairs = [(f"s{i}.b", f"s{i + 1}.a") for i in range(1, m)]
    return _equalities("chain", ({"a": INTEGERS, "b": INTEGERS},) * m, *pairs)


def composite(m: int) -> Condition:
    """Neighbours must agree on two keys at once."""
    return _equalities(
        "composite",
        ({"a": INTEGERS, "b": BOOLEANS},) * m,
        *_neighbours(m, "a"),
        *_neighbours(m, "b"),
    )


def cycle(m: int) -> Condition:
    """A chain whose ends meet; with three streams, the triangle."""
    pairs = [(f"s{i}.b", f"s{i % m + 1}.a") for i in range(1, m + 1)]
    return _equalities("cycle", ({"a": INTEGERS, "b": INTEGERS},) * m, *pairs)


def folded_class(m: int) -> Condition:
    """One class of equals that meets the first stream twice."""
    columns: list[Columns] = [{"a": BOOLEANS} for _ in range(m)]
    columns[0] = {"a": BOOLEANS, "b": BOOLEANS}
    return _equalities("folded class", tuple(columns), *_neighbours(m, "a"), (f"s{m}.a", "s1.b"))


def disconnected(m: int) -> Condition:
    """Only the first two streams are compared, the others are free."""
    return _equalities("disconnected", ({"a": INTEGERS},) * m, ("s1.a", "s2.a"))


def computed_keys(m: int) -> Condition:
    """Equality between computed values of one stream each."""
    classes = _same_key("", m, INTEGERS)
    rest = " AND ".join(f"s{i}.a = s{i + 1}.a" for i in range(2, m))
    return Condition(
        "computed keys",
        classes.columns,
        "s1.a + 1 = s2.a * 2" + (f" AND {rest}" if rest else ""),
        lambda rows: (
            equal(plus(rows[0]["a"], 1), plus(rows[1]["a"], rows[1]["a"]))
            and all(equal(rows[i]["a"], rows[i + 1]["a"]) for i in range(1, m - 1))
        ),
    )


def residual(m: int) -> Condition:
    """A key, one comparison across the first and the last stream, one within the second."""
    classes = _same_key("", m, BOOLEANS)
    return Condition(
        "residual",
        ({"a": BOOLEANS, "x": NUMBERS},) * m,
        f"{classes.sql} AND s1.x <= s{m}.x AND s2.x > -2",
        lambda rows: (
            classes.predicate(rows)
            and at_most(rows[0]["x"], rows[m - 1]["x"])
            and not at_most(rows[1]["x"], -2)
        ),
    )


def band(m: int) -> Condition:
    """Neighbours at most 1 apart; no equality at all."""
    texts = [f"s{i}.x BETWEEN s{i + 1}.x - 1 AND s{i + 1}.x + 1" for i in range(1, m)]
    return Condition(
        "band",
        ({"x": NUMBERS},) * m,
        " AND ".join(texts),
        lambda rows: all(
            at_most(plus(rows[i + 1]["x"], -1), rows[i]["x"])
            and at_most(rows[i]["x"], plus(rows[i + 1]["x"], 1))
            for i in range(m - 1)
        ),
    )


def theta(m: int) -> Condition:
    """One comparison that reads all streams."""

    def holds(rows: Any) -> bool:
        total: Any = 0
        for row in rows[:-1]:
            total = plus(total, row["x"])
        return at_most(rows[-1]["x"], total)

    text = " + ".join(f"s{i}.x" for i in range(1, m))
    return Condition("theta", ({"x": NULLABLE_NUMBERS},) * m, f"{text} >= s{m}.x", holds)


def either(m: int) -> Condition:
    """Equalities under OR, which make no class."""
    return Condition(
        "either",
        ({"a": NULLABLE, "b": INTEGERS},) * m,
        f"s1.a = s2.a OR s1.b = s{m}.b",
        lambda rows: equal(rows[0]["a"], rows[1]["a"]) or equal(rows[0]["b"], rows[m - 1]["b"]),
    )


def event_order(m: int) -> Condition:
    """A condition on the time columns themselves."""
    return Condition(
        "event order",
        ({"a": INTEGERS},) * m,
        "s1.ts <= s2.ts AND s1.a = s2.a",
        lambda rows: at_most(rows[0]["ts"], rows[1]["ts"]) and equal(rows[0]["a"], rows[1]["a"]),
    )


def cross_join(m: int) -> Condition:
    """No condition."""
    return Condition("cross join", ({"a": INTEGERS},) * m, None, lambda _rows: True)


KINDS: tuple[Callable[[int], Condition], ...] = (
    single_class,
    star,
    chain,
    composite,
    cycle,
    residual,
    band,
    theta,
    either,
    cross_join,
    string_keys,
    null_keys,
    mixed_numbers,
    float_keys,
    boolean_keys,
    date_keys,
    decimal_keys,
    folded_class,
    disconnected,
    computed_keys,
    event_order,
)

"""What can be said in a condition, and the answers to what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "d": pa.decimal128(10, 2),
        "wide": pa.decimal128(30, 2),
        "s": pa.string(),
        "b": pa.bool_(),
        "t": pa.timestamp("us"),
        "day": pa.date32(),
        "clock": pa.time32("s"),
        "l": pa.list_(pa.int64()),
        "place": pa.struct({"city": pa.string()}),
        "raw": pa.binary(),
    }
)


def bind(condition: str) -> BoundQuery:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s")], condition=condition
    )
    return query.bind({"a": SCHEMA, "b": SCHEMA})


def refused(condition: str) -> str:
    with pytest.raises(InvalidQuery) as caught:
        bind(condition)
    return str(caught.value)


KNOWN = (
    "comparison, AND, OR, NOT, BETWEEN, IN, IS NULL, arithmetic, mathematical functions and "
    "functions of your own"
)
NEEDS_SPARK = (
    f"only Spark can compute it, in `rj.join`; here there are {KNOWN}, so add it to the input as "
    "a column"
)
OF_SEVERAL = (
    f"over several streams there are {KNOWN}; let each part of it read one stream, or register a "
    "function with `Functions.register`"
)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        # Types.
        ("a.i", "it is of type int32, not boolean; compare it with something"),
        ("a.i + b.i", "it is of type int64, not boolean; compare it with something"),
        ("NOT a.s", "`a.s`: it is of type string, not boolean; compare it with something"),
        (
            "a.b AND (b.b OR a.i)",
            "`a.i`: it is of type int32, not boolean; compare it with something",
        ),
        ("a.s + 1 > 2", "`a.s + 1`: it takes a number, got string"),
        ("-a.s = 'x'", "`-a.s`: it takes a number, got string"),
        ("a.b * 2 = 2", "`a.b * 2`: it takes a number, got bool"),
        (
            "round(a.f, a.i) = 1",
            "`round(a.f, a.i)`: it rounds to a constant number of places from 0 to 9",
        ),
        (
            "round(a.f, 10) = 1",
            "`round(a.f, 10)`: it rounds to a constant number of places from 0 to 9",
        ),
        (
            "round(a.d) = 1",
            "`round(a.d)`: round takes integers and DOUBLE here, got decimal128(10, 2); "
            "CAST it to DOUBLE",
        ),
        (
            "a.l = b.l",
            "a value of type list<item: int64> cannot be computed with; "
            "select it, or compare another column",
        ),
        (
            "a.place = b.place",
            "a value of type struct<city: string> cannot be computed with; "
            "name one of its fields, as in `stream.column.field`",
        ),
        (
            "a.wide * b.wide > 1",
            "`a.wide * b.wide`: decimals are added and multiplied up to 38 digits, and not "
            "divided; CAST one side to DOUBLE, or write a constant such as 25e-1",
        ),
        (
            "a.d / b.d > 1",
            "`a.d / b.d`: decimals are added and multiplied up to 38 digits, and not divided; "
            "CAST one side to DOUBLE, or write a constant such as 25e-1",
        ),
        (
            "a.t + 5 > b.t",
            "`a.t + 5`: int64 cannot be added to timestamp[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "a.t - 5 > b.t",
            "`a.t - 5`: int64 cannot be subtracted from timestamp[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "a.t + b.t > b.t",
            "`a.t + b.t`: timestamp[us] cannot be added to timestamp[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "(a.t - b.t) % 2 = 0",
            "`(a.t - b.t) % 2`: int64 cannot be combined with duration[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "a.day < b.t",
            "date32[day] and timestamp[us] do not compare; CAST one side to the type of the other",
        ),
        # Functions.
        ("abs() = 1", "`abs` takes 1 argument, got 0"),
        ("log(1, 2, 3) = 1", "`log` takes 1 or 2 arguments, got 3"),
        ("least(1) = 1", "`least` takes at least 2 arguments, got 1"),
        ("sqroot(a.i) = 1", f"`sqroot(a.i)`: {NEEDS_SPARK}; or did you mean `sqrt`?"),
        ("concat(a.s, b.s) = 'x'", f"`concat(a.s, b.s)`: {OF_SEVERAL}"),
        (
            "soundex(a.x) = 'x'",
            "stream `a` has no column `x`; known columns: `ts`, `i`, `f`, `d`, "
            "`wide`, `s`, `b`, `t`, `day`, `clock`, `l`, `place`, `raw`",
        ),
        ("max(a.i) = 1", "`max` is an aggregate; the only one is SELECT count(*), on its own"),
        ("count(*) > 1", "`count` is an aggregate; the only one is SELECT count(*), on its own"),
        (
            "abs(a.t - current_timestamp()) < INTERVAL 1 DAY",
            "`current_timestamp` may give another value each time, and a condition may be checked "
            "at any time; add what it gives to the stream as a column",
        ),
        (
            "CURRENT_TIMESTAMP > a.t",
            "`current_timestamp` may give another value each time, and a condition may be checked "
            "at any time; add what it gives to the stream as a column",
        ),
        (
            "explode(a.l) = b.i",
            "`explode` makes several rows of one; apply it to the stream before",
        ),
        # Constants.
        (
            "a.t - b.t < INTERVAL '5' MONTH",
            "`INTERVAL` of '5 MONTH': a month has no fixed length; write days instead",
        ),
        (
            "a.t - b.t < INTERVAL '999999999999999' DAY",
            "INTERVAL of '999999999999999 DAY' does not fit into 64 bits of s; write a shorter one",
        ),
        ("a.f < 1e999", "1e999 is too large for floating point; write a smaller number"),
        ("a.d < " + "9" * 40, "9" * 40 + " has more than 38 digits; write fewer"),
        # Constructs.
        ("a.i IN ()", "IN takes at least one value, such as IN (1, 2)"),
        ("EXISTS (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.i IN (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.i = (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.s LIKE 'x%'", NEEDS_SPARK),
        ("a.s LIKE b.s", OF_SEVERAL),
        ("a.s || b.s = 'x'", f"`a.s || b.s`: {OF_SEVERAL}"),
        ("CASE WHEN a.b THEN b.i END = 1", f"`CASE WHEN a.b THEN b.i END`: {OF_SEVERAL}"),
        ("CAST(a.i + b.i AS DOUBLE) < 1", f"`CAST(a.i + b.i AS DOUBLE)`: {OF_SEVERAL}"),
        ("a.i & 1 = 1", f"`a.i & 1`: {NEEDS_SPARK}"),
        ("a.i BETWEEN SYMMETRIC 2 AND 1", NEEDS_SPARK),
        ("a.i = ?", f"`?`: {NEEDS_SPARK}"),
        ("INTERVAL a.i SECOND > a.t - b.t", f"`INTERVAL a.i SECOND`: {NEEDS_SPARK}"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(condition: str, message: str) -> None:
    text = refused(condition)
    place, _, rest = text.partition(": ")
    assert place.startswith("in `")
    whole = place.removeprefix("in ")
    assert rest in (message, f"{whole}: {message}")


def test_each_part_of_a_condition_has_a_place_of_its_own() -> None:
    assert refused("a.x = 1 AND (b.i = 2 AND NOT b.dai) AND a.s = 3") == (
        "3 faults:\n"
        "  1. in `a.x = 1`: stream `a` has no column `x`; known columns: `ts`, `i`, `f`, `d`, "
        "`wide`, `s`, `b`, `t`, `day`, `clock`, `l`, `place`, `raw`\n"
        "  2. in `NOT b.dai`: stream `b` has no column `dai`; did you mean `day`?\n"
        "  3. in `a.s = 3`: string and int64 do not compare; CAST one side to the type of the other"
    )


def test_both_sides_of_one_comparison_are_looked_at() -> None:
    assert refused("a.nope = b.never").count("has no column") == 2


@pytest.mark.parametrize(
    "condition",
    [
        "a.i == b.i",
        "a.i <> b.i AND a.i != b.i",
        "a.b",
        "a.b IS NOT TRUE",
        "a.i NOTNULL",
        "+a.i > -b.i",
        "a.t BETWEEN b.t - INTERVAL '1' SECOND AND b.t + INTERVAL 10 MINUTES",
        "a.clock < b.clock",
        "a.raw = b.raw",
        "a.l IS NULL",
        "a.f < 0.5 AND a.d < 1e3",
    ],
)
def test_other_spellings_are_understood(condition: str) -> None:
    assert len(bind(condition).streams) == 2

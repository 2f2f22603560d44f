"""What can be said in a condition, and the answers to what cannot."""

from __future__ import annotations

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query import BoundQuery, Query, Stream
from recalljoin.query.trees import with_backslashes

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "d": pa.decimal128(10, 2),
        "wide": pa.decimal256(70, 2),
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


UNSUPPORTED = (
    "is not supported; supported are arithmetic, comparison, AND, OR, NOT, BETWEEN, IN, IS NULL, "
    "LIKE, CASE, CAST and functions"
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
            "upper(a.i) = 'A'",
            "`upper(a.i)`: it takes text, got int64; CAST(... AS STRING) turns it into text",
        ),
        (
            "a.i LIKE 'a%'",
            "it takes text, got int64; CAST(... AS STRING) turns it into text",
        ),
        (
            "substring(a.s, 1.5) = 'x'",
            "`SUBSTRING(a.s, 1.5)`: it takes a whole number here, got double",
        ),
        ("round(a.f, a.i) = 1", "`round(a.f, a.i)`: the number of digits must be a constant"),
        (
            "TRIM(LEADING a.s FROM b.s) = 'x'",
            "`TRIM(LEADING a.s FROM b.s)`: the characters to trim must be a constant",
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
            "`a.wide * b.wide`: the result needs more than 76 digits; CAST one side to DOUBLE",
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
            "a.t * 2 > b.t",
            "`a.t * 2`: int64 cannot be multiplied with timestamp[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "(a.t - b.t) % 2 = 0",
            "`(a.t - b.t) % 2`: int64 cannot be combined with duration[us]; "
            "write durations as INTERVAL '5' SECOND",
        ),
        (
            "if(a.i, 1, 2) = 1",
            "`a.i`: it is of type int32, not boolean; compare it with something",
        ),
        (
            "coalesce(a.i, a.s) = 1",
            "`coalesce(a.i, a.s)`: int64 and string do not compare; "
            "CAST one side, or write numbers without quotes",
        ),
        (
            "a.clock = a.t",
            "time64[ns] and timestamp[us] do not compare; CAST one side to the type of the other",
        ),
        (
            "CAST(a.t AS BIGINT) = 1",
            "`CAST(a.t AS BIGINT)`: timestamp[us] cannot be converted to int64; "
            "CAST takes numbers, text, booleans, dates and timestamps where that makes sense",
        ),
        (
            "CAST(a.raw AS STRING) = 'x'",
            "`CAST(a.raw AS STRING)`: binary cannot be converted to string; "
            "CAST takes numbers, text, booleans, dates and timestamps where that makes sense",
        ),
        # Functions.
        ("abs() = 1", "`abs` takes 1 argument, got 0"),
        ("substring(a.s) = 'x'", "`substring` takes 2 or 3 arguments, got 1"),
        ("substring(a.s, 1, 2, 3) = 'x'", "`substring` takes 2 or 3 arguments, got 4"),
        ("least(1) = 1", "`least` takes at least 2 arguments, got 1"),
        (
            "sqroot(a.i) = 1",
            "unknown function `sqroot`; did you mean `sqrt`? "
            "your own are made known with `Functions.register`",
        ),
        (
            "haversine(a.f, b.f) = 1",
            "unknown function `haversine`; your own are made known with `Functions.register`",
        ),
        ("max(a.i) = 1", "`max` is an aggregate; the only one is SELECT count(*), on its own"),
        ("count(*) > 1", "`count` is an aggregate; the only one is SELECT count(*), on its own"),
        # Constants.
        ("a.day = DATE '2024-02-30'", "'2024-02-30' is no date; write DATE '2024-12-31'"),
        ("a.t = TIMESTAMP 'noon'", "'noon' is no timestamp; write TIMESTAMP '2024-12-31 23:59:59'"),
        ("a.day = 'today'", "'today' cannot be read as date32[day]; write 'YYYY-MM-DD'"),
        ("a.t = 'now'", "'now' cannot be read as timestamp[us]; write 'YYYY-MM-DD HH:MM:SS'"),
        (
            "a.t - b.t < INTERVAL '5' MONTH",
            "`INTERVAL` of '5 MONTH': a month has no fixed length; write days instead",
        ),
        (
            "a.t - b.t < INTERVAL '999999999999999' DAY",
            "INTERVAL of '999999999999999 DAY' does not fit into 64 bits of s; write a shorter one",
        ),
        ("a.f < 1e999", "1e999 is too large for floating point; write a smaller number"),
        ("a.d < " + "9" * 80, "9" * 80 + " has more than 76 digits; write fewer"),
        (
            "CAST(a.s AS VARCHAR(5)) = 'x'",
            "CAST to VARCHAR(5) is not supported; write BOOLEAN, INT, "
            "BIGINT, DOUBLE, DECIMAL(digits, scale), STRING, DATE, TIMESTAMP or TIMESTAMPTZ",
        ),
        ("CAST(a.s AS DECIMAL) = 1", "write DECIMAL(digits, scale) with at most 76 digits"),
        ("CAST(a.s AS DECIMAL(99, 2)) = 1", "write DECIMAL(digits, scale) with at most 76 digits"),
        ("CAST(a.s AS DECIMAL(2, 5)) = 1", "write DECIMAL(digits, scale) with at most 76 digits"),
        ("a.s LIKE b.s", "the pattern of LIKE must be a constant, such as 'a%'"),
        ("a.s LIKE 'x' ESCAPE '!!'", "ESCAPE takes one character, such as '!'"),
        # Constructs.
        ("a.i IN ()", "IN takes at least one value, such as IN (1, 2)"),
        ("EXISTS (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.i IN (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.i = (SELECT 1)", "subqueries are not supported; join the stream instead"),
        ("a.i & 1 = 1", f"`a.i & 1` {UNSUPPORTED}"),
        ("a.l[1] = 1", f"`a.l[1]` {UNSUPPORTED}"),
        ("a.* = 1", f"`a.*` {UNSUPPORTED}"),
        ("a.i BETWEEN SYMMETRIC 2 AND 1", f"`a.i BETWEEN SYMMETRIC 2 AND 1` {UNSUPPORTED}"),
        ("(a.i, a.f) = a.f", f"`(a.i, a.f)` {UNSUPPORTED}"),
        ("CURRENT_TIMESTAMP > a.t", f"`CURRENT_TIMESTAMP()` {UNSUPPORTED}"),
        ("a.i = ?", f"`?` {UNSUPPORTED}"),
        ("a.s COLLATE x = 'x'", f"`a.s COLLATE x` {UNSUPPORTED}"),
        ("INTERVAL a.i SECOND > a.t - b.t", f"`INTERVAL a.i SECOND` {UNSUPPORTED}"),
        (
            "a.t = b.t + INTERVAL '1-2' YEAR TO MONTH",
            f"`INTERVAL '1-2' YEAR TO MONTH` {UNSUPPORTED}",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(condition: str, message: str) -> None:
    text = refused(condition)
    place, _, rest = text.partition(": ")
    assert place.startswith("in `")
    assert rest == message


def test_each_part_of_a_condition_has_a_place_of_its_own() -> None:
    assert refused("a.x = 1 AND (b.i = 2 AND NOT b.dai) AND a.s = 3") == (
        "3 faults:\n"
        "  1. in `a.x = 1`: stream `a` has no column `x`; known columns: `ts`, `i`, `f`, `d`, "
        "`wide`, `s`, `b`, `t`, `day`, `clock`, `l`, `place`, `raw`\n"
        "  2. in `NOT b.dai`: stream `b` has no column `dai`; did you mean `day`?\n"
        "  3. in `a.s = 3`: string and int64 do not compare; "
        "CAST one side, or write numbers without quotes"
    )


def test_both_sides_of_one_comparison_are_looked_at() -> None:
    assert refused("a.nope = b.never").count("has no column") == 2


@pytest.mark.parametrize(
    "condition",
    [
        "a.i == b.i",
        "a.i <> b.i AND a.i != b.i",
        "a.i::double < 1",
        "TRY_CAST(a.s AS INT) = 1",
        "a.b",
        "a.b IS NOT TRUE",
        "a.i NOTNULL",
        "a.s ILIKE 'X%' OR a.s NOT LIKE 'y'",
        "+a.i > -b.i",
        "a.t BETWEEN '2024-01-01' AND TIMESTAMP '2024-01-02 00:00:00'",
        "CASE a.i WHEN 1 THEN TRUE END",
        "a.clock < b.clock",
        "a.raw = b.raw",
        "a.l IS NULL",
    ],
)
def test_other_spellings_are_understood(condition: str) -> None:
    assert len(bind(condition).streams) == 2


@pytest.mark.parametrize(
    ("pattern", "escape", "canonical"),
    [
        ("a%", "\\", "a%"),
        (r"a\%", "\\", r"a\%"),
        ("a!%", "!", r"a\%"),
        ("a!!", "!", r"a\!"),
        ("a\\b", "!", r"a\\b"),
        ("a!", "!", r"a\!"),
    ],
)
def test_escapes_of_patterns_become_backslashes(pattern: str, escape: str, canonical: str) -> None:
    assert with_backslashes(pattern, escape) == canonical

"""How a condition is taken apart into classes of equal attributes and a residual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.explain import explain
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

INT = pa.int64()
SCHEMA = pa.schema(
    {
        "ts": INT,
        "a": INT,
        "b": INT,
        "i": pa.int32(),
        "u": pa.uint64(),
        "f": pa.float64(),
        "g": pa.float32(),
        "d": pa.decimal128(10, 2),
        "e": pa.decimal128(12, 4),
        "s": pa.string(),
        "w": pa.dictionary(pa.int32(), pa.string()),
        "x": pa.binary(),
        "day": pa.date32(),
        "t": pa.timestamp("us"),
        "n": pa.timestamp("ns"),
        "z": pa.timestamp("ms", "UTC"),
        "flag": pa.bool_(),
        "tall": pa.decimal128(38, 0),
        "deep": pa.decimal128(38, 30),
        "high": pa.decimal128(30, 0),
        "low": pa.decimal128(18, 18),
    }
)


def bind(condition: str, streams: int = 3) -> BoundQuery:
    names = [f"s{at + 1}" for at in range(streams)]
    query = Query(streams=[Stream(name, window="5 s") for name in names], condition=condition)
    return query.bind(dict.fromkeys(names, SCHEMA))


def shape(condition: str, streams: int = 3) -> tuple[list[str], list[str]]:
    """Classes and residual as the explanation prints them."""
    lines = explain(bind(condition, streams)).split("\n")
    classes = lines[lines.index("equal") + 1 : lines.index("further conditions")]
    residual = lines[lines.index("further conditions") + 1 : lines.index("output")]
    found = ([line.strip() for line in part] for part in (classes, residual))
    one, other = ([] if part == ["none"] else part for part in found)
    return one, other


@pytest.mark.parametrize(
    ("condition", "classes", "residual"),
    [
        ("s1.a = s2.a", ["s1.a = s2.a  (int64)"], []),
        ("s1.a = s2.a AND s2.a = s3.a", ["s1.a = s2.a = s3.a  (int64)"], []),
        ("s3.a = s2.a AND s1.a = s3.a", ["s1.a = s2.a = s3.a  (int64)"], []),
        (
            "s1.a = s2.a AND s2.b = s3.b",
            ["s1.a = s2.a  (int64)", "s2.b = s3.b  (int64)"],
            [],
        ),
        ("(s1.a = s2.a AND (s2.b < 3)) AND TRUE", ["s1.a = s2.a  (int64)"], ["s2.b < 3"]),
        ("s1.a = s2.a OR s1.b = s2.b", [], ["s1.a = s2.a OR s1.b = s2.b"]),
        ("NOT s1.a = s2.a", [], ["NOT s1.a = s2.a"]),
        ("s1.a = 5 AND s2.a = s2.b", [], ["s1.a = 5", "s2.a = s2.b"]),
        ("s1.a + s2.a = s3.a", [], ["s1.a + s2.a = s3.a"]),
        ("s1.a + s1.b = s2.a - 1", ["s1.a + s1.b = s2.a - 1  (int64)"], []),
        ("least(s1.s, 'x') = s2.s", ["least(s1.s, 'x') = s2.s  (string)"], []),
        (
            "s1.a BETWEEN s2.a - 5 AND s2.a + 5",
            [],
            ["s1.a >= s2.a - 5", "s1.a <= s2.a + 5"],
        ),
        ("1 = 1", [], []),
        ("1 = 2", [], ["FALSE"]),
        ("NULL", [], ["NULL"]),
        ("s1.a = s2.a AND s1.a = s2.a", ["s1.a = s2.a  (int64)"], []),
        ("s2.b < 3 AND s2.b < 3", [], ["s2.b < 3"]),
        # A class that meets a stream twice: the second attribute must equal the first.
        ("s1.a = s2.a AND s1.b = s2.a", ["s1.a = s2.a  (int64)"], ["s1.a = s1.b"]),
        (
            "s1.a = s2.a AND s2.a = s3.a AND s3.b = s1.a",
            ["s1.a = s2.a = s3.a  (int64)"],
            ["s3.a = s3.b"],
        ),
    ],
)
def test_conditions_fall_apart(condition: str, classes: list[str], residual: list[str]) -> None:
    assert shape(condition) == (classes, residual)


@pytest.mark.parametrize(
    ("condition", "classes"),
    [
        ("s1.i = s2.a", ["s1.i = s2.a  (int64)"]),
        ("s1.i = s2.i AND s2.i = s3.a", ["s1.i = s2.i = s3.a  (int64)"]),
        ("s1.u = s2.u", ["s1.u = s2.u  (decimal128(20, 0))"]),
        ("s1.u = s2.a", ["s1.u = s2.a  (decimal128(20, 0))"]),
        ("s1.d = s2.e", ["s1.d = s2.e  (decimal128(12, 4))"]),
        ("s1.d = s2.i AND s2.i = s3.e", ["s1.d = s2.i = s3.e  (decimal128(24, 4))"]),
        ("s1.g = s2.f", ["s1.g = s2.f  (double)"]),
        ("s1.s = s2.w", ["s1.s = s2.w  (string)"]),
        ("s1.x = s2.x", ["s1.x = s2.x  (binary)"]),
        ("s1.day = s2.day", ["s1.day = s2.day  (date32[day])"]),
        ("s1.flag = s2.flag", ["s1.flag = s2.flag  (bool)"]),
        ("s1.t = s2.n", ["s1.t = s2.n  (timestamp[ns])"]),
        ("s1.t = s2.t AND s2.t = s3.n", ["s1.t = s2.t = s3.n  (timestamp[ns])"]),
        ("s1.z = s2.z", ["s1.z = s2.z  (timestamp[ms, tz=UTC])"]),
    ],
)
def test_members_meet_in_a_type_that_holds_them_all(condition: str, classes: list[str]) -> None:
    assert shape(condition) == (classes, [])


def test_members_are_of_the_type_of_their_class() -> None:
    bound = bind("s1.d = s2.i AND s2.i = s3.e AND s1.s = s2.w")
    for found in bound.classes:
        assert {member.type for member in found.members.values()} == {found.type}
        for stream, member in found.members.items():
            assert member.streams == {stream}


def test_an_inexact_comparison_does_not_leak_into_an_exact_one() -> None:
    # 2**53 and 2**53 + 1 are one number in floating point: s1.a = s2.a must not become that.
    assert shape("s1.a = s2.a AND s2.a = s3.f") == (
        ["s1.a = s2.a  (int64)", "CAST(s2.a AS double) = s3.f  (double)"],
        [],
    )


def test_a_class_that_no_type_holds_is_refused() -> None:
    with pytest.raises(InvalidQuery) as caught:
        bind("s1.tall = s2.deep")
    assert str(caught.value) == (
        "in `s1.tall = s2.deep`: decimal128(38, 0) and decimal128(38, 30) do not compare; "
        "together they need more than 38 digits, CAST one side to DOUBLE"
    )
    with pytest.raises(InvalidQuery) as caught:
        bind("s1.high = s2.a AND s2.a = s3.low")
    assert str(caught.value) == (
        "in the condition: the attributes that must be equal need more than 38 digits together; "
        "CAST the decimals among them to fewer digits"
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "s1.a = s2.s",
            "int64 and string do not compare; CAST one side to the type of the other",
        ),
        ("s1.x = s2.s", "binary and string do not compare; CAST one side to the type of the other"),
        (
            "s1.day = s2.a",
            "date32[day] and int64 do not compare; CAST one side to the type of the other",
        ),
        (
            "s1.flag = s2.a",
            "bool and int64 do not compare; a boolean compares with TRUE and FALSE only",
        ),
        (
            "s1.t = s2.z",
            "timestamp[us] and timestamp[ms, tz=UTC] do not compare; "
            "CAST one side to the type of the other",
        ),
        (
            "s1.t = s2.a",
            "timestamp[us] and int64 do not compare; CAST one side to the type of the other",
        ),
        (
            "s1.t - s2.t = s3.a",
            "duration[us] and int64 do not compare; write a duration as INTERVAL '5' SECOND",
        ),
    ],
)
def test_what_does_not_compare_is_refused(condition: str, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        bind(condition)
    assert str(caught.value) == f"in `{condition}`: {message}"


def test_a_condition_of_a_thousand_parts_is_taken_apart() -> None:
    parts = [f"s1.a <> {at}" for at in range(1000)]
    assert len(bind(" AND ".join(parts)).residual) == 1000
    assert len(bind(" OR ".join(parts)).residual) == 1


def test_an_expression_nested_too_deeply_is_refused() -> None:
    deep = "s1.a" + " + 1" * 3000
    with pytest.raises(InvalidQuery, match="is nested too deeply; "):
        bind(f"{deep} = s2.a")

"""Evaluation by example: the rules one would look up."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from recalljoin.query import Call, Column, Expression, Literal, Query, Stream, evaluate

NAN, INF = math.nan, math.inf
TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "j": pa.int64(),
    "f": pa.float64(),
    "g": pa.float64(),
    "d": pa.decimal128(10, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "c": pa.bool_(),
    "t": pa.timestamp("us"),
    "z": pa.timestamp("ms", "Europe/Berlin"),
    "day": pa.date32(),
    "nothing": pa.null(),
    "word": pa.dictionary(pa.int8(), pa.string()),
    "place": pa.struct({"city": pa.string(), "n": pa.struct({"x": pa.int8()})}),
    "u": pa.uint64(),
}
SCHEMA = pa.schema([("ts", pa.int64()), *TYPES.items()])


def bind(sql: str) -> Expression:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s")], select=f"{sql} AS it"
    )
    select = query.bind({"a": SCHEMA, "b": pa.schema({"ts": pa.int64()})}).select
    assert select is not None
    return select[0].expression


def run(sql: str, **columns: list[Any]) -> list[Any]:
    length = len(next(iter(columns.values()))) if columns else 1

    def column(_stream: int, name: str) -> pa.Array:
        return pa.array(columns[name], TYPES[name])

    expression = bind(sql)
    result = evaluate(expression, column, length)
    assert result.type == expression.type
    return list(result.to_pylist())


def show(values: list[Any]) -> list[str]:
    """NaN equals itself once it is text, and -0.0 shows its sign."""
    return [repr(value) for value in values]


def test_division_is_floating_point_and_by_zero_null() -> None:
    assert run("i / j", i=[7, 1, 0, None], j=[2, 0, 0, 1]) == [3.5, None, None, None]
    assert run("f / g", f=[1.0, NAN, 1.0], g=[0.0, -0.0, INF]) == [None, None, 0.0]
    assert run("d / 0", d=[Decimal("1.00")]) == [None]


def test_remainders_have_the_sign_of_the_dividend() -> None:
    assert run("i % j", i=[7, -7, 7, -7, 7], j=[3, 3, -3, -3, 0]) == [1, -1, 1, -1, None]
    assert run("i % j", i=[-(2**63)], j=[-1]) == [0]
    assert run("mod(f, 2)", f=[5.5, -5.5]) == [1.5, -1.5]
    assert run("d % 0.3", d=[Decimal("-1.00"), None]) == [Decimal("-0.10"), None]
    assert run("f % g", f=[1.0], g=[0.0]) == [None]


def test_integers_that_outgrow_64_bits_are_null_on_their_row_only() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    assert run("i + j", i=[top, 1, None, top], j=[1, 1, 1, 0]) == [None, 2, None, top]
    assert run("i - j", i=[bottom, 5], j=[1, 3]) == [None, 2]
    assert run("i * j", i=[2**62, 3, bottom], j=[2, 3, -1]) == [None, 9, None]
    assert run("-i", i=[bottom, 5, None]) == [None, -5, None]
    assert run("abs(i)", i=[bottom, -5]) == [None, 5]
    assert run("round(i, -1)", i=[top, 15, -15, 14]) == [None, 20, -20, 10]
    assert run("u + 1", u=[2**64 - 1, 1]) == [None, 2]


def test_decimals_are_exact_and_as_wide_as_the_result_needs() -> None:
    assert run("d + 0.1", d=[Decimal("0.20")]) == [Decimal("0.30")]
    assert bind("d + d").type == pa.decimal128(11, 2)
    assert bind("d * d").type == pa.decimal128(21, 4)
    assert bind("d - i").type == pa.decimal128(22, 2)
    assert bind("d * d * d * d").type == pa.decimal256(43, 8)
    assert bind("d / 2").type == pa.float64()
    assert bind("d * f").type == pa.float64()
    assert run("d * d * d * d", d=[Decimal("99999999.99")]) == [
        Decimal("99999999960000000005999999999600.00000001")
    ]


def test_nan_is_the_largest_number_and_equal_to_itself() -> None:
    f, g = [NAN, NAN, 1.0, INF], [NAN, INF, NAN, NAN]
    assert run("f = g", f=f, g=g) == [True, False, False, False]
    assert run("f < g", f=f, g=g) == [False, False, True, True]
    assert run("f <= g", f=f, g=g) == [True, False, True, True]
    assert run("f > g", f=f, g=g) == [False, True, False, False]
    assert run("f >= g", f=f, g=g) == [True, True, False, False]
    assert run("f <> g", f=f, g=g) == [False, True, True, True]
    assert show(run("greatest(f, g)", f=f, g=g)) == ["nan"] * 4
    assert show(run("least(f, g)", f=f, g=g)) == ["nan", "inf", "1.0", "inf"]
    assert run("f IN (CAST('NaN' AS DOUBLE), 2)", f=[NAN, 1.0]) == [True, False]


def test_the_two_zeros_are_equal() -> None:
    assert run("f = g", f=[-0.0], g=[0.0]) == [True]
    assert run("f < g", f=[-0.0], g=[0.0]) == [False]
    assert run("f IN (0)", f=[-0.0]) == [True]


def test_logic_has_three_values() -> None:
    truth = [True, True, True, False, False, False, None, None, None]
    other = [True, False, None] * 3
    conjunction = [True, False, None, False, False, False, None, False, None]
    disjunction = [True, True, True, True, False, None, True, None, None]
    assert run("b AND c", b=truth, c=other) == conjunction
    assert run("b OR c", b=truth, c=other) == disjunction
    assert run("NOT b", b=[True, False, None]) == [False, True, None]


def test_nulls_are_asked_for_explicitly() -> None:
    assert run("i = NULL", i=[1, None]) == [None, None]
    assert run("i IS NULL", i=[1, None]) == [False, True]
    assert run("i IS NOT NULL", i=[1, None]) == [True, False]
    assert run("b IS TRUE", b=[True, False, None]) == [True, False, False]
    assert run("b IS NOT FALSE", b=[True, False, None]) == [True, False, True]
    assert run("i <=> j", i=[1, None, None], j=[1, None, 1]) == [True, True, False]
    assert run("i IS DISTINCT FROM j", i=[1, None, None], j=[2, None, 1]) == [True, False, True]
    assert run("place IS NULL", place=[None, {"city": "x"}]) == [True, False]


def test_a_dictionary_may_hold_its_nulls_among_its_values() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), ["x", None])
    for sql, expected in (
        ("word IS NULL", [False, True, True]),
        ("word = 'x'", [True, None, None]),
    ):
        assert evaluate(bind(sql), lambda _s, _n: array, 3).to_pylist() == expected


def test_membership_is_unknown_where_a_null_might_match() -> None:
    assert run("i IN (1, 2)", i=[1, 3, None]) == [True, False, None]
    assert run("i IN (1, NULL)", i=[1, 3, None]) == [True, None, None]
    assert run("i NOT IN (1, NULL)", i=[1, 3, None]) == [False, None, None]
    assert run("i IN (j, 7)", i=[1, 7, 3], j=[1, 1, None]) == [True, True, None]
    assert run("d IN (1.5, 2)", d=[Decimal("1.50"), Decimal("1.51")]) == [True, False]
    assert run("day IN ('2024-02-29')", day=[date(2024, 2, 29)]) == [True]


def test_between_takes_both_ends() -> None:
    assert run("i BETWEEN 1 AND j", i=[0, 1, 2, 3], j=[2, 2, 2, None]) == [False, True, True, None]
    assert run("i NOT BETWEEN 1 AND 2", i=[0, 1, None]) == [True, False, None]


def test_choices_look_past_nulls() -> None:
    assert run("coalesce(i, j, 0)", i=[1, None, None], j=[2, 2, None]) == [1, 2, 0]
    assert run("nvl(s, 'none')", s=["x", None]) == ["x", "none"]
    assert run("nullif(i, 1)", i=[1, 2, None]) == [None, 2, None]
    assert run("least(i, j, 5)", i=[1, None, 9], j=[3, None, 7]) == [1, 5, 5]
    assert run("greatest(s, 'b')", s=["a", "c", None]) == ["b", "c", "b"]
    assert run("if(b, i, -1)", b=[True, False, None], i=[1, 2, 3]) == [1, -1, -1]
    assert run("IF(b, 1, 2)", b=[True, None]) == [1, 2]
    assert run("if(TRUE, i, 0)", i=[1, 2]) == [1, 2]


def test_cases_are_tried_in_order() -> None:
    sql = "CASE WHEN i > 2 THEN 'many' WHEN i > 1 THEN 'two' ELSE 'few' END"
    assert run(sql, i=[3, 2, 1, None]) == ["many", "two", "few", "few"]
    assert run("CASE i WHEN 1 THEN 'one' WHEN NULL THEN 'null' END", i=[1, None]) == ["one", None]


def test_functions_of_numbers() -> None:
    assert run("sqrt(i)", i=[9, None]) == [3.0, None]
    assert show(run("sqrt(f)", f=[-1.0])) == ["nan"]
    assert run("ln(f)", f=[1.0, 0.0, -1.0]) == [0.0, None, None]
    assert run("power(i, 2)", i=[3]) == [9.0]
    assert run("pow(f, 0.5)", f=[4.0]) == [2.0]
    assert run("exp(f)", f=[0.0, 1000.0]) == [1.0, INF]
    assert run("sign(i)", i=[-5, 0, 7]) == [-1, 0, 1]
    assert show(run("sign(f)", f=[-2.5, 0.0, NAN])) == ["-1.0", "0.0", "nan"]
    assert run("sign(d)", d=[Decimal("-0.01")]) == [-1]
    assert run("floor(f)", f=[-1.5, 1.5]) == [-2.0, 1.0]
    assert run("ceil(d)", d=[Decimal("9.01"), Decimal("99999999.01")]) == [10, 100_000_000]
    assert run("ceiling(i)", i=[3]) == [3]


def test_rounding_is_half_away_from_zero() -> None:
    assert run("round(f)", f=[0.5, 1.5, 2.5, -0.5]) == [1.0, 2.0, 3.0, -1.0]
    assert run("round(f, 1)", f=[0.25, 0.35]) == [0.3, 0.4]
    assert run("round(d, 1)", d=[Decimal("0.25"), Decimal("-0.25")]) == [
        Decimal("0.30"),
        Decimal("-0.30"),
    ]
    assert run("round(d, 5)", d=[Decimal("0.25")]) == [Decimal("0.25")]
    assert run("round(i, 3)", i=[7]) == [7]


def test_rounding_holds_for_any_number_of_digits() -> None:
    big = 6 * 10**18
    assert run("round(i, -18)", i=[big, 5]) == [big, 0]
    assert run("round(i, -19)", i=[big, -big, 4 * 10**18, None]) == [None, None, 0, None]
    assert run("round(i, -99)", i=[big, 5, None]) == [0, 0, None]
    assert run("round(d, -8)", d=[Decimal("99999999.99"), Decimal("49999999.99")]) == [10**8, 0]
    assert run("round(d, -9)", d=[Decimal("99999999.99"), None]) == [0, None]
    assert run("round(f, -18)", f=[5e18, 4.9e17, INF]) == [5e18, 0.0, INF]
    assert run("round(f, 15)", f=[0.1, 1e300, -1e300]) == [0.1, 1e300, -1e300]
    assert run("round(f, 999)", f=[0.1, 1.5, INF, None]) == [0.1, 1.5, INF, None]
    assert run("round(f, -999)", f=[1e300, -5.0]) == [0.0, 0.0]
    assert show(run("round(f)", f=[NAN, -0.4, 0.49999999999999994])) == ["nan", "-0.0", "0.0"]


def test_functions_of_text() -> None:
    assert run("lower(s)", s=["ÄbC", None]) == ["äbc", None]
    assert run("upper(s)", s=["äbc"]) == ["ÄBC"]
    assert run("length(s)", s=["äöü", "", None]) == [3, 0, None]
    assert run("trim(s)", s=["  a\t "]) == ["a\t"]
    assert run("ltrim(s) || '|' || rtrim(s)", s=[" a "]) == ["a | a"]
    assert run("TRIM(LEADING 'x' FROM s)", s=["xxax"]) == ["ax"]
    assert run("TRIM(BOTH 'xy' FROM s)", s=["yxaxy"]) == ["a"]
    assert run("s || 'x'", s=["a", None]) == ["ax", None]
    assert run("concat(s, i, '-', b, d)", s=["a"], i=[1], b=[True], d=[Decimal("1.50")]) == [
        "a1-true1.50"
    ]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("substring(s, 2)", "bcd"),
        ("substring(s, 2, 2)", "bc"),
        ("substr(s, 0, 2)", "ab"),
        ("substring(s, -2)", "cd"),
        ("substring(s, -2, 1)", "c"),
        ("substring(s, -2, 2)", "cd"),
        ("substring(s, -6, 4)", "ab"),
        ("substring(s, -6, 2)", ""),
        ("substring(s, 9)", ""),
        ("substring(s, 2, 0)", ""),
        ("substring(s, 2, -1)", ""),
        ("substring(s, 2, 9223372036854775807)", "bcd"),
        ("SUBSTRING(s FROM 2 FOR 2)", "bc"),
        ("substring(s, NULL)", None),
        ("substring(s, i, 2)", "cd"),
        ("substring('wxyz', i)", "yz"),
    ],
)
def test_substrings_count_from_one_or_from_the_end(call: str, result: str | None) -> None:
    assert run(call, s=["abcd"], i=[3]) == [result]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("'a%'", ["abc", "a", "a.c\nd", "a%"]),
        ("'a_c'", ["abc"]),
        ("'%c'", ["abc"]),
        ("'a.c%'", ["a.c\nd"]),
        (r"'a\%'", ["a%"]),
        ("'a!%' ESCAPE '!'", ["a%"]),
        ("'A%'", []),
        ("''", [""]),
    ],
)
def test_patterns_match_the_whole_text(pattern: str, matches: list[str]) -> None:
    texts = ["abc", "a", "a.c\nd", "a%", "b", ""]
    found = run(f"s LIKE {pattern}", s=[*texts, None])
    assert [text for text, hit in zip(texts, found, strict=False) if hit] == matches
    assert found[-1] is None
    reverse = run(f"s NOT LIKE {pattern}", s=texts)
    assert [text for text, hit in zip(texts, reverse, strict=True) if not hit] == matches


def test_patterns_may_ignore_case() -> None:
    assert run("s ILIKE 'AB%'", s=["abc", "Abc", "b"]) == [True, True, False]
    assert run("s NOT ILIKE 'AB%'", s=["abc"]) == [False]
    assert run("s LIKE NULL", s=["a"]) == [None]


def test_times_and_durations() -> None:
    noon, later = datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 12, 0, 1)  # noqa: DTZ001
    assert run("t - TIMESTAMP '2024-01-01 12:00:00'", t=[later, None]) == [
        timedelta(seconds=1),
        None,
    ]
    assert run("abs(TIMESTAMP '2024-01-01 12:00:01' - t)", t=[noon]) == [timedelta(seconds=1)]
    assert run("t + INTERVAL '1' SECOND", t=[noon]) == [later]
    assert run("INTERVAL '1 minute 1 second' + t - INTERVAL 60 SECONDS", t=[noon]) == [later]
    assert run("t - t < INTERVAL '1' HOUR * 2", t=[noon]) == [True]
    assert run("-(t - t) = INTERVAL '0' DAY", t=[noon]) == [True]
    assert run("day - DATE '2024-01-01'", day=[date(2024, 3, 1)]) == [timedelta(days=60)]
    assert run("day + INTERVAL '12' HOUR = t", day=[date(2024, 1, 1)], t=[noon]) == [True]
    assert run("day < t", day=[date(2024, 1, 1)], t=[noon]) == [True]
    assert run("t > '2024-01-01'", t=[noon]) == [True]
    assert run("t = '2024-01-01 12:00:00.000000001'", t=[noon]) == [False]
    assert run("t + INTERVAL '1' NANOSECOND > t", t=[noon]) == [True]


def test_a_timestamp_without_offset_is_read_in_the_zone_of_its_neighbour() -> None:
    instant = datetime(2024, 1, 1, 11, tzinfo=timezone(timedelta(0)))
    assert run("z = TIMESTAMP '2024-01-01 12:00:00'", z=[instant]) == [True]
    assert run("z = '2024-01-01 12:00:00'", z=[instant]) == [True]
    assert run("z = TIMESTAMP '2024-01-01 11:00:00Z'", z=[instant]) == [True]
    assert run("z = '2024-01-01 06:00:00-05:00'", z=[instant]) == [True]
    assert run("z >= DATE '2024-01-01'", z=[instant]) == [True]
    assert run("CAST(z AS TIMESTAMP)", z=[instant]) == [datetime(2024, 1, 1, 11)]  # noqa: DTZ001


def test_times_that_do_not_fit_are_null() -> None:
    far = datetime(9999, 12, 31)  # noqa: DTZ001
    assert run("t + INTERVAL '1' NANOSECOND > t", t=[far]) == [None]


def test_unsigned_integers_compare_exactly() -> None:
    top = 2**64 - 1
    assert run("u = 18446744073709551615", u=[top, top - 1]) == [True, False]
    assert run("u > i", u=[top, 0], i=[-1, -1]) == [True, True]
    assert run("u = -1", u=[top]) == [False]
    assert run("u < 5", u=[4, 5]) == [True, False]


def test_large_integers_keep_their_digits_next_to_decimals() -> None:
    assert run("i = 9007199254740993", i=[2**53 + 1, 2**53]) == [True, False]
    assert run("i = CAST('9007199254740993.0' AS DECIMAL(20, 1))", i=[2**53 + 1, 2**53]) == [
        True,
        False,
    ]


def test_constants_adapt_only_as_they_are_written() -> None:
    assert bind("d + 0.5").type == pa.decimal128(11, 2)
    assert bind("d + -0.5").type == pa.decimal128(11, 2)
    assert bind("d + CAST(0.5 AS DOUBLE)").type == pa.float64()
    assert bind("d + (0.25 + 0.25)").type == pa.float64()
    assert bind("i + 0.5").type == pa.float64()
    assert bind("0.12345678901234567890").type == pa.decimal128(20, 20)


def test_columns_of_nothing_but_nulls_are_of_any_type() -> None:
    nothing: list[Any] = [None, None]
    assert run("nothing = i", nothing=nothing, i=[1, None]) == [None, None]
    assert run("nothing = nothing", nothing=nothing) == [None, None]
    assert run("nothing + 1", nothing=nothing) == [None, None]
    assert bind("t - nothing").type == pa.duration("us")
    assert bind("t + nothing").type == pa.timestamp("us")
    assert run("lower(nothing)", nothing=nothing) == [None, None]
    assert run("coalesce(nothing, i)", nothing=nothing, i=[1, None]) == [1, None]
    assert run("nothing IN (1, 2)", nothing=nothing) == [None, None]
    assert run("nothing AND FALSE", nothing=nothing) == [False, False]
    assert run("nothing IS NULL", nothing=nothing) == [True, True]
    assert run("abs(nothing)", nothing=nothing) == [None, None]
    assert run("least(nothing, nothing)", nothing=nothing) == [None, None]
    assert run("round(nothing)", nothing=nothing) == [None, None]
    assert run("if(nothing, 1, 2)", nothing=nothing) == [2, 2]
    assert run("nothing LIKE 'a'", nothing=nothing) == [None, None]
    assert run("-nothing < sqrt(nothing)", nothing=nothing) == [None, None]


def test_fields_of_structs() -> None:
    places = [{"city": "Ulm", "n": {"x": 1}}, None, {"city": None, "n": None}]
    assert run("a.place.city", place=places) == ["Ulm", None, None]
    assert run("a.place.n.x + 1", place=places) == [2, None, None]


def test_constants_are_computed_when_the_query_is_bound() -> None:
    assert bind("1 + 2 * 3") == Literal(7, pa.int64())
    assert bind("lower('A') || 'b'") == Literal("ab", pa.string())
    assert bind("9223372036854775807 + 1") == Literal(None, pa.int64())
    assert bind("DATE '1970-01-03'") == Literal(2, pa.date32())
    assert bind("INTERVAL '90' SECOND") == Literal(90, pa.duration("s"))
    assert bind("INTERVAL '-1500' MS") == Literal(-1500, pa.duration("ms"))
    assert bind("TIMESTAMP '1970-01-01 00:00:01'") == Literal(10**6, pa.timestamp("us"))
    assert bind("1 = 1 AND NULL IS NULL") == Literal(True, pa.bool_())


def test_a_bare_column_comes_as_it_is() -> None:
    assert bind("word") == Column(0, "word", TYPES["word"])
    array = pa.array(["x", None]).dictionary_encode()
    assert evaluate(Column(0, "word", array.type), lambda _s, _n: array, 2) is array


def test_arguments_of_operators_have_one_type() -> None:
    expression = bind("i < f")
    assert expression == Call(
        "lt",
        (
            Call("cast", (Column(0, "i", pa.int64()),), pa.float64()),
            Column(0, "f", pa.float64()),
        ),
        pa.bool_(),
    )


def test_every_column_is_fetched_once_and_may_come_in_chunks() -> None:
    fetched: list[tuple[int, str]] = []

    def column(stream: int, name: str) -> pa.ChunkedArray:
        fetched.append((stream, name))
        return pa.chunked_array([[1, 2], [3]])

    result = evaluate(bind("i * i + i"), column, 3)
    assert result.to_pylist() == [2, 6, 12]
    assert fetched == [(0, "i")]


def test_slices_of_larger_arrays_are_read_where_they_start() -> None:
    whole = pa.array([Decimal("1.25"), None, Decimal("2.50"), Decimal("11.10")], TYPES["d"])
    floats = pa.array([9.0, NAN, 1.0, NAN])
    result = evaluate(bind("d / 1"), lambda _s, _n: whole.slice(2), 2)
    assert result.to_pylist() == [2.5, 11.1]
    result = evaluate(bind("f > 5"), lambda _s, _n: floats.slice(2), 2)
    assert result.to_pylist() == [False, True]


@pytest.mark.parametrize(
    "sql", ["1", "NULL", "'x'", "b OR TRUE", "i + 1", "s LIKE 'a'", "i IN (1)"]
)
def test_no_rows_give_no_rows(sql: str) -> None:
    expression = bind(sql)
    result = evaluate(expression, lambda _s, name: pa.array([], TYPES[name]), 0)
    assert result.equals(pa.array([], expression.type))


def test_a_constant_is_given_for_every_row() -> None:
    assert evaluate(Literal(5, pa.int64()), lambda _s, _n: None, 3).to_pylist() == [5, 5, 5]
    assert evaluate(Literal(None, pa.string()), lambda _s, _n: None, 2).to_pylist() == [None, None]

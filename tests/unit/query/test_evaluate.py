"""Evaluation by example: the rules that `docs/query.md` states."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.evaluate import compute, evaluate
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.expressions import Expression
    from recalljoin.query.kernels import Computed

NAN, INF = math.nan, math.inf
TOP, BOTTOM = 2**63 - 1, -(2**63)
TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "j": pa.int64(),
    "f": pa.float64(),
    "g": pa.float64(),
    "h": pa.float32(),
    "d": pa.decimal128(10, 2),
    "s": pa.string(),
    "b": pa.bool_(),
    "c": pa.bool_(),
    "t": pa.timestamp("us"),
    "z": pa.timestamp("ms", "Europe/Berlin"),
    "far": pa.timestamp("s"),
    "fine": pa.timestamp("ns"),
    "day": pa.date32(),
    "nothing": pa.null(),
    "word": pa.dictionary(pa.int8(), pa.string()),
    "place": pa.struct({"city": pa.string(), "n": pa.struct({"x": pa.int8()})}),
    "u": pa.uint64(),
}
SCHEMA = pa.schema([("ts", pa.int64()), *TYPES.items()])


def moment(*parts: int) -> datetime:
    """What a clock shows, in no zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]


def bind(sql: str) -> Expression:
    streams = [Stream("a", window=1), Stream("b", window=1)]
    query = Query(streams=streams, select=f"{sql} AS it")
    select = query.bind({"a": SCHEMA, "b": pa.schema({"ts": pa.int64()})}).select
    assert select is not None
    return select[0].expression


def computed(sql: str, **columns: list[Any]) -> Computed:
    length = len(next(iter(columns.values()))) if columns else 1

    def column(_stream: int, name: str) -> pa.Array:
        return pa.array(columns[name], TYPES[name])

    expression = bind(sql)
    result = compute(expression, column, length)
    assert result.values.type == expression.type
    return result


def run(sql: str, **columns: list[Any]) -> list[Any]:
    """The values, none of which is impossible."""
    result = computed(sql, **columns)
    assert result.n_impossible == 0
    return list(result.values.to_pylist())


def marked(sql: str, **columns: list[Any]) -> list[Any]:
    """The values, with an exclamation mark for what is impossible."""
    result = computed(sql, **columns)
    values = result.values.to_pylist()
    if result.impossible is None:
        return list(values)
    for value, impossible in zip(values, result.impossible, strict=True):
        assert value is None or not impossible
    return ["!" if no else value for value, no in zip(values, result.impossible, strict=True)]


def show(values: list[Any]) -> list[str]:
    """NaN equals itself once it is text, and -0.0 shows its sign."""
    return [repr(value) for value in values]


def test_a_quotient_is_floating_point_and_by_zero_impossible() -> None:
    assert marked("i / j", i=[7, 1, 0, None, 1], j=[2, 0, 0, 0, None]) == [
        3.5,
        "!",
        "!",
        None,
        None,
    ]
    assert marked("f / g", f=[1.0, NAN, 1.0], g=[0.0, -0.0, INF]) == ["!", "!", 0.0]


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    assert marked("i % j", i=[7, -7, 7, -7, 7], j=[3, 3, -3, -3, 0]) == [1, -1, 1, -1, "!"]
    assert run("i % j", i=[BOTTOM], j=[-1]) == [0]
    assert run("mod(f, 2)", f=[5.5, -5.5]) == [1.5, -1.5]
    assert marked("f % g", f=[1.0, None], g=[0.0, 0.0]) == ["!", None]


def test_integers_that_outgrow_64_bits_are_impossible_on_their_row_only() -> None:
    assert marked("i + j", i=[TOP, 1, None, TOP], j=[1, 1, 1, 0]) == ["!", 2, None, TOP]
    assert marked("i - j", i=[BOTTOM, 5], j=[1, 3]) == ["!", 2]
    assert marked("i * j", i=[2**62, 3, BOTTOM, -1, 0], j=[2, 3, -1, BOTTOM, TOP]) == [
        "!", 9, "!", "!", 0,
    ]  # fmt: skip
    assert marked("-i", i=[BOTTOM, 5, None]) == ["!", -5, None]
    assert marked("abs(i)", i=[BOTTOM, -5]) == ["!", 5]
    assert run("u + 1", u=[2**64 - 1]) == [2**64]


def test_decimals_are_exact_and_as_wide_as_the_result_needs() -> None:
    assert run("d + 0.1", d=[Decimal("0.20")]) == [Decimal("0.30")]
    assert bind("d + d").type == pa.decimal128(11, 2)
    assert bind("d * d").type == pa.decimal128(21, 4)
    assert bind("d - i").type == pa.decimal128(23, 2)
    assert bind("d - 1").type == pa.decimal128(11, 2)
    assert bind("d * f").type == pa.float64()
    assert run("d < f", d=[Decimal("0.10")], f=[0.1]) == [False]
    assert run("-d", d=[Decimal("0.20")]) == run("0.0 - d", d=[Decimal("0.20")])


def test_single_precision_is_kept_among_itself_only() -> None:
    assert bind("h - h").type == pa.float32()
    assert bind("h - i").type == bind("h * 0.5").type == bind("h / h").type == pa.float64()
    assert run("h + h", h=[0.1]) == [pa.scalar(0.2, pa.float32()).as_py()]


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


def test_what_is_impossible_stays_so_unless_it_does_not_matter() -> None:
    never: dict[str, list[Any]] = {"i": [1, 1, 1], "j": [0, 0, 0]}
    every = {"b": [True, False, None], **never}
    assert marked("b OR i / j > 1", **every) == [True, "!", "!"]
    assert marked("b AND i / j > 1", **every) == ["!", False, "!"]
    assert marked("i / j > 1 OR b", **every) == [True, "!", "!"]
    assert marked("NOT (i / j > 1)", **never) == ["!"] * 3
    assert marked("(i / j) IS NULL", **never) == ["!"] * 3
    assert marked("(i / j > 1) IS TRUE", **never) == ["!"] * 3
    assert marked("(i / j) <=> 1", **never) == ["!"] * 3
    assert marked("greatest(i / j, 1)", **never) == ["!"] * 3
    assert marked("i / j IN (1, 2)", **never) == ["!"] * 3
    assert marked("(i / j) + (i / j)", **never) == ["!"] * 3


def test_nulls_are_asked_for_explicitly() -> None:
    assert run("i = NULL", i=[1, None]) == [None, None]
    assert run("i IS NULL", i=[1, None]) == [False, True]
    assert run("i IS NOT NULL", i=[1, None]) == [True, False]
    assert run("b IS TRUE", b=[True, False, None]) == [True, False, False]
    assert run("b IS NOT FALSE", b=[True, False, None]) == [True, False, True]
    assert run("i <=> j", i=[1, None, None], j=[1, None, 1]) == [True, True, False]
    assert run("i IS DISTINCT FROM j", i=[1, None, None], j=[2, None, 1]) == [True, False, True]
    assert run("place IS NULL", place=[None, {"city": "x"}]) == [True, False]
    assert run("nothing = i", nothing=[None], i=[1]) == [None]
    assert run("nothing + i", nothing=[None], i=[1]) == [None]
    assert run("least(nothing, i)", nothing=[None], i=[1]) == [1]


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


def test_between_takes_both_ends() -> None:
    assert run("i BETWEEN 1 AND j", i=[0, 1, 2, 3], j=[2, 2, 2, None]) == [False, True, True, None]
    assert run("i NOT BETWEEN 1 AND 2", i=[0, 1, None]) == [True, False, None]


def test_least_and_greatest_look_past_nulls() -> None:
    assert run("least(i, j, 5)", i=[1, None, 9], j=[3, None, 7]) == [1, 5, 5]
    assert run("greatest(s, 'b')", s=["a", "c", None]) == ["b", "c", "b"]


def test_functions_of_numbers() -> None:
    assert run("sqrt(i)", i=[9, None]) == [3.0, None]
    assert show(run("sqrt(f)", f=[-1.0])) == ["nan"]
    assert run("ln(f)", f=[1.0, 0.0, -1.0]) == [0.0, None, None]
    assert run("log(2, f)", f=[8.0, 0.0]) == [3.0, None]
    assert run("log1p(f)", f=[0.0, -1.0]) == [0.0, None]
    assert run("power(i, 2)", i=[3]) == [9.0]
    assert show(run("pow(f, g)", f=[4.0, 1.0, -1.0], g=[0.5, NAN, INF])) == ["2.0", "nan", "nan"]
    assert run("exp(f)", f=[0.0, 1000.0]) == [1.0, INF]
    assert show(run("sign(f)", f=[-2.5, 0.0, NAN])) == ["-1.0", "0.0", "nan"]
    assert marked("floor(f)", f=[-1.5, 1.5, 1e30, -1e30, NAN]) == [-2, 1, "!", "!", "!"]
    assert run("atan2(f, g)", f=[-0.0], g=[-0.0]) == [0.0]
    assert run("ceil(f)", f=[-1.5, 1.5]) == [-1, 2]
    assert run("ceiling(i)", i=[3]) == [3]
    assert run("hypot(i, j)", i=[3], j=[4]) == [5.0]


def test_rounding_is_half_away_from_zero_of_what_is_written() -> None:
    assert run("round(f)", f=[0.5, 1.5, 2.5, -0.5, 0.49999999999999994]) == [1, 2, 3, -1, 0]
    large = 1.7976931348623157e308
    assert run("round(f, 2)", f=[1.005, 2.675, -1.005, large]) == [1.01, 2.68, -1.01, large]
    assert run("round(f, 1)", f=[0.25, 0.35, 4503599627370.55]) == [0.3, 0.4, 4503599627370.6]
    assert show(run("round(f, 3)", f=[NAN, INF, -INF])) == ["nan", "inf", "-inf"]
    assert run("round(i, 2)", i=[7, None]) == [7, None]


def test_times_and_durations() -> None:
    noon, later = moment(2024, 1, 1, 12), moment(2024, 1, 1, 12, 0, 30)
    assert run("t + INTERVAL 30 SECONDS", t=[noon]) == [later]
    assert run("t - INTERVAL '1 hour 30 minutes'", t=[noon]) == [moment(2024, 1, 1, 10, 30)]
    assert run("abs(t - (t + INTERVAL 30 SECONDS))", t=[noon]) == [timedelta(seconds=30)]
    assert run("t - t < INTERVAL 1 SECOND", t=[noon, None]) == [True, None]
    assert run("day - day = INTERVAL 0 DAYS", day=[date(2024, 1, 1)]) == [True]
    assert run("z <= z + INTERVAL 1 MS", z=[datetime(2024, 1, 1, tzinfo=UTC)]) == [True]
    assert marked("far < fine", far=[moment(2024, 1, 1), moment(2999, 1, 1)], fine=[0, 0]) == [
        False,
        "!",
    ]


def test_fields_of_structs() -> None:
    place = [{"city": "x", "n": {"x": 5}}, {"city": None, "n": None}, None]
    assert run("a.place.city = 'x'", place=place) == [True, None, None]
    assert run("a.place.n.x + 1", place=place) == [6, None, None]


def test_constants_are_computed_once_and_must_be_possible() -> None:
    assert bind("1 + 2 * 3") == bind("7")
    with pytest.raises(InvalidQuery) as caught:
        bind("i < 1 / 0")
    assert str(caught.value) == (
        "in `i < 1 / 0`: `1 / 0`: its value cannot be computed, because of an overflow or a "
        "division by zero"
    )

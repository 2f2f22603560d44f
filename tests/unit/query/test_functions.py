from __future__ import annotations

import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.errors import FunctionError, InvalidQuery
from recalljoin.query.evaluate import evaluate
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream

if TYPE_CHECKING:
    from recalljoin.query.expressions import Expression

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "i": pa.int32(),
        "f": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(5, 2),
        "day": pa.date32(),
        "b": pa.bool_(),
        "l": pa.list_(pa.int64()),
    }
)
COLUMNS: dict[str, list[Any]] = {
    "i": [1, None, 3],
    "f": [0.5, 1.5, float("nan")],
    "s": ["a", "bc", None],
    "d": [Decimal("1.25"), None, Decimal("0.00")],
    "b": [True, False, None],
}


def bind(sql: str, functions: Functions) -> Expression:
    query = Query(
        streams=[Stream("a", window="5 s"), Stream("b", window="5 s")],
        select=f"{sql} AS it",
        functions=functions,
    )
    select = query.bind({"a": SCHEMA, "b": SCHEMA}).select
    assert select is not None
    return select[0].expression


def run(sql: str, functions: Functions) -> list[Any]:
    def column(_stream: int, name: str) -> pa.Array:
        return pa.array(COLUMNS[name], SCHEMA.field(name).type)

    result = evaluate(bind(sql, functions), column, 3)
    return list(result.to_pylist())


def refused(sql: str, functions: Functions) -> str:
    with pytest.raises(InvalidQuery) as caught:
        bind(sql, functions)
    return str(caught.value)


def test_a_vectorised_function_gets_arrays_without_the_rows_that_have_nulls() -> None:
    seen: list[Any] = []
    functions = Functions()

    @functions.register
    def add(one: Any, other: Any) -> Any:
        seen.append((one.dtype, other.dtype, one.tolist()))
        return one + other

    assert run("add(a.i, b.i * 2)", functions) == [3.0, None, 9.0]
    assert seen == [(np.int64, np.int64, [1, 3])]


def test_a_scalar_function_gets_plain_values() -> None:
    seen: list[Any] = []
    functions = Functions()

    @functions.register(returns="string", scalar=True)
    def show(*values: Any) -> str | None:
        seen.append(values)
        return None if values[0] == 3 else "-".join(map(str, values))

    assert run("show(a.i, a.f, 'x')", functions) == ["1-0.5-x", None, None]
    assert seen[0] == (1, 0.5, "x")
    assert len(seen) == 2


def test_a_scalar_function_may_ask_for_nulls() -> None:
    functions = Functions()

    @functions.register(returns="boolean", scalar=True, nulls="pass")
    def missing(value: Any) -> bool:
        return value is None

    assert run("missing(a.s)", functions) == [False, False, True]


def test_arguments_are_converted_to_the_declared_types() -> None:
    functions = Functions()
    functions.register(lambda x: x / 2, name="half", arguments=["double"])
    assert run("half(a.d)", functions) == [0.625, None, 0.0]
    assert refused("half(a.s)", functions) == "in `half(a.s)`: it takes double, got string"


def test_names_ignore_case() -> None:
    functions = Functions()
    functions.register(lambda x: -x, name="Minus", returns="bigint")
    assert run("MINUS(a.i)", functions) == [-1, None, -3]


def test_numpy_functions_can_be_registered_as_they_are() -> None:
    functions = Functions()
    functions.register(np.maximum)
    assert run("maximum(a.i * 3, b.i * 4)", functions) == [4.0, None, 12.0]
    assert (
        refused("maximum(a.i)", functions)
        == "in `maximum(a.i)`: `maximum` takes 2 arguments, got 1"
    )


def test_a_function_without_rows_to_work_on_is_not_called() -> None:
    functions = Functions()

    @functions.register
    def never(_value: Any) -> Any:
        raise AssertionError

    expression = bind("never(a.i)", functions)
    none = evaluate(expression, lambda _s, _n: pa.nulls(0, pa.int32()), 0)
    assert none.equals(pa.nulls(0, pa.float64()))
    nulls = evaluate(expression, lambda _s, _n: pa.nulls(2, pa.int32()), 2)
    assert nulls.equals(pa.nulls(2, pa.float64()))


def test_a_constant_call_stands_for_every_row() -> None:
    functions = Functions()
    functions.register(lambda x: x * 2, name="twice", returns="bigint")
    functions.register(lambda: 7, name="seven", returns="bigint", scalar=True)
    assert run("twice(4)", functions) == [8, 8, 8]
    assert run("seven()", functions) == [7, 7, 7]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (np.array([1, 2, 3], np.float32), [1.0, 2.0, 3.0]),
        (np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]), [1.0, None, 3.0]),
        ([1.0, None, 3.0], [1.0, None, 3.0]),
        (pa.chunked_array([[1.0], [None, 3.0]]), [1.0, None, 3.0]),
        (np.array([1, 2, 2**60]), [1.0, 2.0, float(2**60)]),
        (np.array([1.0, None, 3.0], object), [1.0, None, 3.0]),
    ],
)
def test_results_come_in_many_forms(result: Any, expected: list[Any]) -> None:
    functions = Functions()
    functions.register(lambda _x: result, name="fixed")
    assert run("fixed(a.f)", functions) == expected


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            np.array([1.0]),
            "function `fixed` returned 1 values for 3 rows; a vectorised function returns one "
            "array of that length, register it with scalar=True if it takes one row at a time",
        ),
        (
            np.zeros((3, 2)),
            "function `fixed` returned an array of 2 dimensions for 3 rows; a vectorised function "
            "returns one array of that length, register it with scalar=True if it takes one row at "
            "a time",
        ),
        (
            1.0,
            "function `fixed` returned one value for 3 rows; a vectorised function returns one "
            "array of that length, register it with scalar=True if it takes one row at a time",
        ),
    ],
)
def test_a_result_of_another_length_is_an_error(result: Any, message: str) -> None:
    functions = Functions()
    functions.register(lambda _x: result, name="fixed")
    with pytest.raises(FunctionError) as caught:
        run("fixed(a.f)", functions)
    assert str(caught.value) == message


def test_a_function_that_ends_its_process_is_an_error_of_that_function() -> None:
    functions = Functions()
    functions.register(lambda _x: sys.exit(0), name="leave")
    with pytest.raises(FunctionError, match="function `leave` failed: SystemExit: 0"):
        run("leave(a.f)", functions)


def test_a_result_of_another_type_is_an_error() -> None:
    functions = Functions()
    functions.register(lambda _x: np.array(["a", "b", "c"]), name="words")
    functions.register(lambda x: x + 0.5, name="halves", returns="bigint")
    functions.register(lambda x: x * 1j, name="complex")
    with pytest.raises(FunctionError, match="function `words` returned values that are not double"):
        run("words(a.f)", functions)
    with pytest.raises(FunctionError, match="`complex` returned values that are not double"):
        run("complex(a.f)", functions)
    with pytest.raises(FunctionError, match="function `halves` returned values that are not int64"):
        run("halves(a.i)", functions)


def test_a_failing_function_is_named() -> None:
    functions = Functions()
    functions.register(lambda x: x["no"], name="broken")
    functions.register(lambda x: x // 0, name="zero", scalar=True)
    with pytest.raises(FunctionError, match=r"^function `broken` failed: IndexError: ") as caught:
        run("broken(a.f)", functions)
    assert isinstance(caught.value.__cause__, IndexError)
    with pytest.raises(FunctionError, match=r"^function `zero` failed: ZeroDivisionError: "):
        run("zero(a.i)", functions)


def test_a_function_cannot_write_into_the_data() -> None:
    functions = Functions()

    @functions.register
    def overwrite(values: Any) -> Any:
        values[:] = 0
        return values

    with pytest.raises(FunctionError, match="read-only"):
        run("overwrite(a.f)", functions)


def test_a_value_that_cannot_be_computed_with_is_refused() -> None:
    functions = Functions()
    functions.register(lambda x: x, name="same")
    assert refused("same(a.l)", functions) == (
        "in `same(a.l)`: a value of type list<item: int64> cannot be computed with; "
        "select it, or compare another column"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "abs"}, "function `abs` is built in; register yours under another name"),
        ({"name": "CAST"}, "function `CAST` is built in; register yours under another name"),
        (
            {"name": "taken"},
            "function `taken` is already registered; give the second another name",
        ),
        (
            {},
            "a function cannot be called '<lambda>': names are letters, digits and "
            "underscores; register it with name='...'",
        ),
        (
            {"name": "f", "returns": "complex"},
            "function `f`: unknown type 'complex'; write boolean, bigint, double, string, date, "
            "or a pyarrow type",
        ),
        (
            {"name": "f", "returns": pa.list_(pa.int64())},
            "function `f`: conditions cannot compute with list<item: int64>; "
            "use a number, text, boolean, date or timestamp type",
        ),
        (
            {"name": "f", "nulls": "pass"},
            "function `f`: nulls='pass' needs scalar=True, because numpy arrays have no nulls; "
            "leave one of the two out",
        ),
    ],
)
def test_a_function_that_could_not_be_called_is_not_registered(
    settings: dict[str, Any], message: str
) -> None:
    functions = Functions()
    functions.register(lambda x: x, name="taken")
    with pytest.raises(InvalidQuery) as caught:
        functions.register(lambda x: x, **settings)
    assert str(caught.value) == message
    assert list(functions) == ["taken"]


def test_a_name_of_an_aggregate_may_be_taken() -> None:
    functions = Functions()
    functions.register(lambda a, b, c: np.median([a, b, c], axis=0), name="median")
    assert run("median(a.f, 1, 0)", functions)[:2] == [0.5, 1.0]


def test_the_number_of_arguments_is_taken_from_the_signature() -> None:
    functions = Functions()
    functions.register(lambda a, b=1: a + b, name="f", returns="bigint")
    functions.register(lambda *all_of_them: all_of_them[0], name="g")
    assert refused("f(1, 2, 3)", functions) == "in `f(1, 2, 3)`: `f` takes 1 or 2 arguments, got 3"
    assert run("f(a.i)", functions) == [2, None, 4]
    assert run("g(a.f, 1, 2, 3, 4)", functions)[:2] == [0.5, 1.5]
    assert repr(functions) == "Functions(f, g)"

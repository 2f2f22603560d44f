"""What the join operator is told of a tuple: keys, values, whether it can match at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from recalljoin.engine.intake import Admitted, Intake
from tests.unit.engine.inputs import bound

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

TYPES = {"a": pa.int64(), "t": pa.string(), "x": pa.int64(), "f": pa.float64()}


def intake(condition: str | None, *, rows: bool = False) -> Intake:
    return Intake(bound(condition, types=TYPES), rows=rows)


def take(of: Intake, s: int = 0, **columns: list[object]) -> Admitted:
    n = len(next(iter(columns.values())))
    table = {"ts": [0] * n, "n": range(n), **dict.fromkeys(TYPES, [None] * n), **columns}
    return of.take(s, pa.table([table[name] for name in _schema().names], schema=_schema()))


def _schema() -> pa.Schema:
    return pa.schema({"ts": pa.int64(), **TYPES, "n": pa.int64()})


def test_a_null_key_can_match_nothing() -> None:
    taken = take(intake("s1.t = s2.t"), t=["u", None, "u", "v"])
    assert taken.joinable.tolist() == [True, False, True, True]
    assert taken.codes[0, 0] == taken.codes[0, 2] != taken.codes[0, 3]


def test_a_condition_on_one_stream_decides_at_once() -> None:
    of = intake("s1.a = s2.a AND s1.x > 3 AND s2.x < 0")
    assert take(of, 0, a=[1, 1, 1], x=[3, 4, None]).joinable.tolist() == [False, True, False]
    assert take(of, 1, a=[1, 1], x=[-1, 0]).joinable.tolist() == [True, False]


@pytest.mark.parametrize(("constant", "joinable"), [("1 = 2", False), ("1 < 2", True)])
def test_a_constant_condition_holds_for_all_or_for_none(constant: str, joinable: bool) -> None:
    of = intake(f"s1.a = s2.a AND {constant}")
    assert take(of, a=[1]).joinable.tolist() == [joinable]
    assert take(of, 1, a=[1]).joinable.tolist() == [joinable]


def test_a_tuple_whose_numbers_are_unknown_cannot_satisfy_a_numeric_condition() -> None:
    of = intake("abs(s1.x - s2.x) < 5 AND s1.f * 2 < s2.f")
    assert take(of, x=[1, None, 1], f=[1.0, 1.0, None]).joinable.tolist() == [True, False, False]


def test_numbers_over_one_stream_are_computed_once_per_tuple() -> None:
    of = intake("s1.x * 2 + 1 < s2.x AND s1.x * 2 + 1 <> s2.a AND s1.a = s2.a")
    assert of.n_values == 2
    taken = take(of, x=[1, 4], a=[0, 0])
    assert taken.values[0].tolist() == [3.0, 9.0]


@pytest.mark.parametrize(
    ("condition", "value", "exact"),
    [
        ("s1.x < s2.x", 2**53, True),
        ("s1.x < s2.x", -(2**53), True),
        ("s1.x < s2.x", 2**53 + 1, False),
        ("s1.x < s2.x", -(2**53) - 1, False),
        ("s1.x < s2.x", -(2**63), False),
        ("s1.x * s2.x < 5", 2**26, True),
        ("s1.x * s2.x < 5", 2**27, False),
        ("s1.f < s2.f", 2**60, True),  # not read
    ],
)
def test_integers_too_large_for_programs_are_noticed(
    condition: str, value: int, exact: bool
) -> None:
    assert take(intake(condition), x=[1, value], f=[1e300, float("nan")]).exact is exact


def test_infinities_and_nan_are_numbers_to_programs() -> None:
    taken = take(intake("s1.f < s2.f"), f=[float("inf"), float("nan"), -0.0])
    assert taken.exact
    assert taken.joinable.all()


@pytest.mark.parametrize(
    ("condition", "rows", "by_tree"),
    [
        ("s1.a = s2.a", False, True),
        ("s1.a = s2.a", True, False),
        ("s1.a = s2.a AND s1.x < 3", False, True),  # on one stream alone
        ("s1.a = s2.a AND s1.x < s2.x", False, False),
        (None, False, True),
        (None, True, False),
    ],
)
def test_results_are_counted_along_trees_where_nothing_else_is_to_be_checked(
    condition: str | None, rows: bool, by_tree: bool
) -> None:
    assert intake(condition, rows=rows).plan.counts_by_tree is by_tree


def test_only_what_conditions_read_is_kept_to_check_them() -> None:
    of = intake("s1.a = s2.a AND s1.x + 1 < s2.f AND s1.t > 'a'")
    assert of.condition_columns(0) == ["x"]
    assert of.condition_columns(1) == ["f"]


def test_an_empty_table_is_taken() -> None:
    query: BoundQuery = bound("s1.t = s2.t AND s1.x < s2.x", types=TYPES)
    taken = Intake(query, rows=True).take(0, _schema().empty_table())
    assert (taken.codes.shape, taken.joinable.shape) == ((1, 0), (0,))
    assert taken.exact

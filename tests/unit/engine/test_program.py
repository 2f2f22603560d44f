"""The block machine against the evaluation on Arrow columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.block_machine import BLOCK, prepare, run_block
from recalljoin.engine.probe import filter_by_code
from recalljoin.engine.program import (
    EXACT,
    Leaves,
    Program,
    both,
    translate,
)
from recalljoin.query.evaluate import evaluate
from recalljoin.query.model import Query, Stream
from tests.effort import effort

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery

TYPES = {
    "i": pa.int64(),
    "j": pa.int8(),
    "u": pa.uint32(),
    "f": pa.float64(),
    "g": pa.float32(),
    "b": pa.bool_(),
}
SCHEMA = pa.schema({"ts": pa.int64(), **TYPES})

LARGE = (2**20, -(2**27) + 1, 2**31, 2**52 + 1, -(2**53), 2**53, 2**53 + 1, -(2**53) - 1)
SPECIAL = (0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e308, 5e-324)
small = st.integers(-3, 3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": small | small | st.sampled_from((*LARGE, 2**63 - 1, -(2**63), None)),
    "j": small | st.integers(-128, 127),
    "u": small.map(abs) | st.sampled_from((2**31, 2**32 - 1, None)),
    "f": small.map(float) | st.sampled_from((*SPECIAL, None)) | st.floats(),
    "g": small.map(float) | st.sampled_from((0.0, -0.0, 2.5, math.nan, math.inf, None)),
    "b": st.booleans() | st.none(),
}
Row = dict[str, Any]
rows = st.lists(
    st.fixed_dictionaries({f"{s}.{c}": VALUES[c] for s in ("s1", "s2") for c in VALUES}),
    min_size=1,
    max_size=8,
)

columns = st.tuples(st.sampled_from(("s1", "s2")), st.sampled_from(("i", "j", "u", "f", "g"))).map(
    ".".join
)
numbers = st.sampled_from(("0", "1", "2", "-3", "5e-1", "1e3", "7"))


def _longer(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, st.sampled_from("+-*"), parts).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(("abs", "sqrt", "-")), parts).map(lambda t: f"{t[0]}({t[1]})"),
        parts.map(lambda part: f"power({part}, 2)"),
        st.tuples(parts, st.sampled_from(("2", "1e-1", "-4"))).map(lambda t: f"({t[0]} / {t[1]})"),
    )


numeric = st.recursive(columns | numbers, _longer, max_leaves=5)
comparisons = st.tuples(numeric, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), numeric)
conditions = st.tuples(comparisons.map(" ".join), st.booleans()).map(
    lambda t: f"NOT ({t[0]})" if t[1] else t[0]
)


def bound(condition: str) -> BoundQuery:
    query = Query(
        streams=(Stream("s1", window="5 s"), Stream("s2", window="5 s")), condition=condition
    )
    return query.bind({"s1": SCHEMA, "s2": SCHEMA})


class Machine:
    """Programs of a condition and their input, set up as the engine does it."""

    def __init__(self, condition: str, table: list[Row]) -> None:
        self.table = table
        self.leaves = Leaves()
        self.parts = [c for c in bound(condition).residual if len(c.streams) == 2]
        self.programs = [translate(part.expression, self.leaves) for part in self.parts]
        self.values = np.zeros((self.leaves.n_columns, 2 * len(table)))
        self.limit = min((p.limit for p in self.programs if p is not None), default=0.0)
        self.known = np.ones(len(table), dtype=np.bool_)
        self.usable = np.ones(len(table), dtype=np.bool_)
        for s, leaves in self.leaves.expressions.items():
            for v, leaf in enumerate(leaves):
                found = evaluate(leaf, self.column, len(table))
                self.known &= np.asarray(found.is_valid())
                if pa.types.is_boolean(found.type):
                    found = found.cast(pa.int8())
                if pa.types.is_integer(found.type):
                    self.usable &= [abs(value or 0) <= self.limit for value in found.to_pylist()]
                # Tuples of the first stream stand before those of the second.
                self.values[v, s * len(table) : (s + 1) * len(table)] = found.fill_null(0).to_numpy(
                    zero_copy_only=False
                )

    def column(self, stream: int, name: str) -> pa.Array:
        return pa.array([row[f"s{stream + 1}.{name}"] for row in self.table], TYPES[name])

    def expected(self, at: int) -> list[bool]:
        found = evaluate(self.parts[at].expression, self.column, len(self.table))
        return [value is True for value in found.to_pylist()]

    def gathered(self, program: Program) -> list[bool]:
        n = len(self.table)
        chosen = np.empty(n, dtype=np.bool_)
        members = np.stack((np.arange(n), n + np.arange(n)))
        filter_by_code(program.gathering(), members, self.values, chosen)
        return [bool(x) for x in chosen]

    def scanned(self, program: Program, stream: int) -> list[bool]:
        """One tuple of the other stream against all of ``stream``; the diagonal is asked for."""
        n = len(self.table)
        code = program.scanning(stream)
        found = []
        for i in range(n):
            members = np.full((2, 1), i + (n if stream == 0 else 0))
            prepare(code, members, 0, self.values)
            found.append(bool(run_block(code, self.values, stream * n, n)[i] != 0.0))
        return found


@effort(3)
@given(condition=conditions, table=rows)
def test_a_program_says_what_the_evaluation_on_columns_says(
    condition: str, table: list[Row]
) -> None:
    machine = Machine(condition, table)
    for at, program in enumerate(machine.programs):
        if program is None:
            continue
        expected = machine.expected(at)
        ways = (
            machine.gathered(program),
            machine.scanned(program, 0),
            machine.scanned(program, 1),
        )
        for i in range(len(table)):
            if not machine.known[i]:
                # The engine never shows such a tuple to a program, because it cannot match.
                assert not expected[i], (condition, table[i])
            elif machine.usable[i]:
                assert {way[i] for way in ways} == {expected[i]}, (condition, table[i])


@given(one=conditions, other=conditions, table=rows)
def test_two_programs_together_demand_both(one: str, other: str, table: list[Row]) -> None:
    machine = Machine(f"({one}) AND ({other})", table)
    programs = [program for program in machine.programs if program is not None]
    if len(programs) != 2 or len(machine.programs) != 2:
        return
    together = both(programs)
    for way in (machine.gathered, lambda program: machine.scanned(program, 1)):
        apart = [way(program) for program in programs]
        assert way(together) == [a and b for a, b in zip(*apart, strict=True)]
    assert together.limit == min(program.limit for program in programs)


def program_of(condition: str) -> Program | None:
    (conjunct,) = bound(condition).residual
    return translate(conjunct.expression, Leaves())


@pytest.mark.parametrize(
    "condition",
    [
        "power(s1.f - s2.f, 2) + power(s1.g - s2.g, 2) < 25",
        "sqrt(abs(s1.i - s2.i)) <= 2",
        "s1.i + 1 > s2.i * 3",
        "s1.i BETWEEN s2.i - 1 AND s2.i + 1",
        "NOT (s1.f < s2.f)",
        "abs(s1.i - s2.i) < 2.5",  # an exact number, ordered like the nearest double
        "-s1.i < s2.j",
    ],
)
def test_arithmetic_and_comparisons_are_programs(condition: str) -> None:
    for conjunct in bound(condition).residual:
        assert translate(conjunct.expression, Leaves()) is not None


@pytest.mark.parametrize(
    "condition",
    [
        "s1.i = s2.i OR s1.f < s2.f",  # null OR true is true
        "floor(s1.f + s2.f) > 1",  # impossible where it is too large
        "(s1.i - s2.i) * 0.1 > 1",  # exact, with decimals
        "s1.i + s2.i IS NULL",
        "s1.f / s2.f > 1",  # impossible where s2.f is 0
        "s1.i + s2.i IN (1, 2)",
        "power(s1.f, s2.f) < 1",
        "greatest(s1.i, s2.i) > 3",
        "s1.i * s2.i * 9007199254740992 * 2 > 0",  # not even exact for 1
        "s1.i - s2.i < 18014398509481985",  # a constant beyond 2**53
    ],
)
def test_what_programs_cannot_do_is_left_to_the_columns(condition: str) -> None:
    assert program_of(condition) is None


def test_a_program_says_how_large_integers_may_be_to_stay_exact() -> None:
    plain, product = program_of("s1.i < s2.i"), program_of("s1.i * s2.i < 5")
    assert plain is not None
    assert product is not None
    assert plain.limit == EXACT
    assert product.limit**2 <= EXACT < (2 * product.limit) ** 2


def test_equal_parts_are_computed_once_and_registers_are_used_again() -> None:
    program = program_of("power(s1.f - s2.f, 2) + power(s1.f - s2.f, 2) < s1.i - s2.i")
    assert program is not None
    code = program.scanning(1)
    # s1.f - s2.f, its square, the sum, s1.i - s2.i, the comparison.
    assert len(code.vector) == 5
    assert len(code.registers) <= 2
    assert code.registers.shape[1] == BLOCK


def test_what_depends_on_one_tuple_alone_is_computed_once_for_the_block() -> None:
    program = program_of("s1.f + 1 < s2.f")
    assert program is not None
    assert len(program.scanning(1).vector) == 1


def test_a_condition_that_cannot_be_translated_leaves_no_leaves_behind() -> None:
    leaves = Leaves()
    (conjunct,) = bound("s1.i + s2.i > 0 OR s1.f < s2.f").residual
    assert translate(conjunct.expression, leaves) is None
    assert leaves.n_columns == 0

"""From rows of Arrow tables to what the join operator needs of each tuple.

The condition is prepared once per query. For each tuple, keys become codes, numeric parts over one
stream become value columns, and conditions over one stream decide at once whether the tuple can be
in any result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.engine.arrays import Int64s
from recalljoin.engine.conditions import Condition
from recalljoin.engine.keys import KeyCodes
from recalljoin.engine.plan import Plan
from recalljoin.engine.program import Leaves, Program, translate
from recalljoin.query.evaluate import compute, evaluate
from recalljoin.query.expressions import columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s
    from recalljoin.query.bound_query import BoundQuery, Conjunct
    from recalljoin.query.kernels import Computed

RowSource = Callable[[int, str, Int64s], pa.Array]
"""From a stream, a column and row numbers to the values in these rows."""


class Admitted(NamedTuple):
    """What is known of new tuples of one stream."""

    codes: Int64s
    """``[class, tuple]``: codes of the keys, 0 in classes the stream is not part of."""
    values: Float64s
    """``[value column, tuple]``."""
    joinable: NDArray[np.bool_]
    """Whether the tuple can be in any result."""
    exact: bool
    """Whether programs can represent all values."""


class Intake:
    """Prepares the tuples of one query.

    Parameters
    ----------
    query
        The bound query.
    rows
        Whether single results matter, or only their number.
    """

    def __init__(self, query: BoundQuery, *, rows: bool) -> None:
        self.query = query
        self.keys = [KeyCodes(equality.type) for equality in query.classes]
        self._leaves = Leaves()
        programs = {
            conjunct: translate(conjunct.expression, self._leaves)
            for conjunct in query.residual
            if len(conjunct.streams) > 1
        }
        self._programs: dict[Conjunct, Program | None] = programs
        self._n_uncomputable = 0
        self.limit = min((p.limit for p in programs.values() if p is not None), default=np.inf)
        classes = tuple(frozenset(equality.members) for equality in query.classes)
        windows = tuple(stream.window for stream in query.streams)
        plan = Plan(windows, classes)
        by_tree = not rows and not programs and plan.is_acyclic
        self.plan = plan if by_tree else Plan(windows, classes, counts_by_tree=False)

    @property
    def n_values(self) -> int:
        """Value columns of a tuple."""
        return self._leaves.n_columns

    def condition_columns(self, s: int) -> list[str]:
        """Columns of a stream that must be kept to check conditions on candidates.

        A condition with a program still needs its columns: after a value that is too large to be
        exact has come, the condition is evaluated on the columns.
        """
        return sorted(
            {
                c.name
                for conjunct in self._programs
                for c in columns(conjunct.expression)
                if c.stream == s
            }
        )

    def conditions(self, source: RowSource) -> tuple[Condition, ...]:
        """The conditions on several streams, reading kept rows from ``source``."""
        return tuple(
            Condition(conjunct.streams, program, self._checker(conjunct, source))
            for conjunct, program in self._programs.items()
        )

    def take(self, s: int, table: pa.Table) -> Admitted:
        """Prepare new tuples of stream ``s``."""
        n = table.num_rows
        fetched: dict[str, pa.Array] = {}

        def column(_: int, name: str) -> pa.Array:
            if name not in fetched:
                fetched[name] = _one_array(table.column(name))
            return fetched[name]

        joinable = np.ones(n, dtype=np.bool_)
        codes = np.zeros((len(self.keys), n), dtype=np.int64)
        for c, (equality, keys) in enumerate(zip(self.query.classes, self.keys, strict=True)):
            if s in equality.members:
                codes[c], known = keys.encode(evaluate(equality.members[s], column, n))
                joinable &= known
        for conjunct in self.query.residual:
            if conjunct.streams <= {s}:
                joinable &= self._is_true(compute(conjunct.expression, column, n))
        values = np.zeros((self.n_values, n))
        exact = True
        for v, expression in enumerate(self._leaves.expressions.get(s, ())):
            computed = compute(expression, column, n)
            self._n_uncomputable += computed.n_impossible
            leaf = computed.values
            joinable &= np.asarray(leaf.is_valid())
            if pa.types.is_boolean(leaf.type):
                leaf = leaf.cast(pa.int8())
            numbers = leaf.fill_null(0).to_numpy(zero_copy_only=False)
            values[v] = numbers
            if pa.types.is_integer(leaf.type):
                # Tested on the integers, because floating-point numbers would already be rounded.
                limit = int(self.limit)
                exact &= bool(((numbers >= -limit) & (numbers <= limit)).all())
        return Admitted(codes, values, joinable, exact)

    def take_uncomputable(self) -> int:
        """How often a condition could not be computed since the last call."""
        n, self._n_uncomputable = self._n_uncomputable, 0
        return n

    def _is_true(self, computed: Computed) -> NDArray[np.bool_]:
        self._n_uncomputable += computed.n_impossible
        known = computed.values.fill_null(False)
        return np.asarray(known.to_numpy(zero_copy_only=False), dtype=np.bool_)

    def _checker(
        self, conjunct: Conjunct, source: RowSource
    ) -> Callable[[Int64s], NDArray[np.bool_]]:
        def check(rows: Int64s) -> NDArray[np.bool_]:
            def column(s: int, name: str) -> pa.Array:
                return source(s, name, rows[s])

            return self._is_true(compute(conjunct.expression, column, rows.shape[1]))

        return check


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

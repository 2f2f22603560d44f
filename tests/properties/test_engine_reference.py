"""The engine against the plain reference, on random streams, queries, schedules and cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.arrivals import arrivals_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import Step, drain
from recalljoin.query.model import Query, Stream
from tests.effort import FEW
from tests.properties.engine_runs import (
    ARRIVAL,
    Arrival,
    Script,
    bound_query,
    tables_of,
)
from tests.properties.engine_scripts import (
    extreme_scripts,
    large_case,
    large_scripts,
    scripts,
)
from tests.properties.reference_runs import same_accounts
from tests.reference import conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference.conditions import Condition


@given(script=scripts("tuple", rows=True))
def test_rows_per_tuple_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tuple", rows=False))
def test_counts_per_tuple_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tick", rows=True))
def test_rows_per_tick_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@given(script=scripts("tick", rows=False))
def test_counts_per_tick_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script)


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
@given(data=st.data())
def test_a_retention_that_changes_counts_what_is_lost_as_the_reference_does(
    arrival: Arrival, data: st.DataObject
) -> None:
    same_accounts(data.draw(scripts(arrival, rewrites=True, remembers=True)))


@FEW
@given(script=large_scripts("tuple"))
def test_hundreds_of_tuples_one_by_one_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script, near=True)


@FEW
@given(script=large_scripts("tick"))
def test_hundreds_of_tuples_in_ticks_are_those_of_the_reference(script: Script) -> None:
    same_accounts(script, near=True)


@pytest.mark.parametrize("arrival", ["tuple", "tick"])
@given(data=st.data())
def test_times_windows_and_slacks_at_the_edges_do_not_overflow(
    arrival: Arrival, data: st.DataObject
) -> None:
    same_accounts(data.draw(extreme_scripts(arrival)))


TREES = (
    conditions.single_class,
    conditions.star,
    conditions.chain,
    conditions.composite,
    conditions.disconnected,
    conditions.string_keys,
    conditions.null_keys,
    conditions.cross_join,
)


def enumerating(condition: Condition) -> Condition:
    """The same condition and one that always holds, which cannot be counted along a tree."""
    always = "abs(s1.ts - s2.ts) < 1000000000"
    parts = [condition.sql, always] if condition.sql is not None else [always]
    return replace(condition, sql=" AND ".join(parts))


@FEW
@given(
    kind=st.sampled_from(TREES),
    m=st.sampled_from((2, 3, 4)),
    seed=st.integers(0, 2**32),
    k=st.sampled_from((0, 5, 40)),
    retention=st.sampled_from((None, 0, 200)),
)
def test_counting_along_trees_agrees_with_enumerating(
    kind: Callable[[int], Condition], m: int, seed: int, k: int, retention: int | None
) -> None:
    condition = kind(m)
    case = large_case(condition, seed, 1500 if m < 4 else 500)
    run_settings = EngineSettings(rows=False, slack=True, retention=retention)
    arrivals = arrivals_of(bound_query(case, counts=True), tables_of(case))
    query = Query(
        streams=[
            Stream(name, window=window, arrival=ARRIVAL)
            for name, window in zip(case.names(), case.windows, strict=True)
        ],
        condition=enumerating(condition).sql,
        select="count(*)",
    ).bind({name: table.schema for name, table in tables_of(case).items()})
    tree = Pipeline(bound_query(case, counts=True), run_settings)
    other = Pipeline(query, run_settings)
    assert tree.operator.counts_by_tree == (kind is not conditions.null_keys)
    assert not other.operator.counts_by_tree
    for begin in range(0, len(arrivals), 300):
        part = arrivals.slice(begin, begin + 300)
        _same_steps(drain(tree.push(part, k=k))[1], drain(other.push(part, k=k))[1])
    _same_steps(drain(tree.flush())[1], drain(other.flush())[1])


def _same_steps(one: Step, other: Step) -> None:
    for name in ("ts", "stream", "late", "n_join", "n_cross", "beyond"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    width = max(one.slack.shape[1], other.slack.shape[1])
    first, second = (np.pad(s, ((0, 0), (0, width - s.shape[1]))) for s in (one.slack, other.slack))
    assert (first == second).all()
    assert _by_time(one) == _by_time(other)


def _by_time(step: Step) -> dict[int, int]:
    found: dict[int, int] = {}
    for ts, n in zip(step.lost_ts.tolist(), step.lost_n.tolist(), strict=True):
        found[ts] = found.get(ts, 0) + n
    return found

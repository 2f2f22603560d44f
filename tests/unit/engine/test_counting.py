"""Counts, losses and slacks without enumerating, worked out by hand and against enumerating."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.step import Step, drain
from recalljoin.engine.tree_visits import VECTOR
from recalljoin.errors import TooManyResults
from tests.unit.engine.inputs import bound, rows_of, run


def counted(
    condition: str | None,
    rows: list[tuple[Any, ...]],
    *,
    windows: tuple[int, ...] = (10, 10),
    k: int = 0,
    rows_too: bool = False,
    slack: bool = True,
    retention: int | None = None,
) -> tuple[list[Step], Pipeline]:
    types = {"a": pa.int64(), "b": pa.int64()}
    query = bound(condition, windows=windows, types=types)
    rows = [(*row, 0)[:4] for row in rows]
    settings = EngineSettings(rows=rows_too, slack=slack, retention=retention)
    pipeline = Pipeline(query, settings)
    step = drain(pipeline.push(rows_of(query, rows), k=k))[1]
    return [step, drain(pipeline.flush())[1]], pipeline


def by_fate(steps: list[Step]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for step in steps:
        for fate, at in zip(*np.nonzero(step.slack), strict=True):
            found[int(fate), int(at)] += int(step.slack[fate, at])
    return found


def test_a_star_is_a_product_at_its_centre() -> None:
    query = bound("s1.a = s2.a AND s1.a = s3.a", windows=(10, 10, 10), select="count(*)")
    rows = [(2, 1, 7), (2, 1, 7), (2, 1, 8), (3, 2, 7), (3, 2, 7), (3, 2, 7), (1, 3, 7)]
    _, steps = run(query, rows)
    joined = steps[0].n_join.tolist() + steps[1].n_join.tolist()
    crossed = steps[0].n_cross.tolist() + steps[1].n_cross.tolist()
    assert joined == [0, 0, 0, 0, 0, 0, 6]
    assert crossed == [0, 0, 0, 0, 0, 0, 9]


def test_a_chain_is_a_sum_of_products() -> None:
    # s1.a = s2.a, s2.b = s3.b: the trigger of s1 reaches s3 by way of s2's tuples.
    types = {"a": pa.int64(), "b": pa.int64()}
    query = bound("s1.a = s2.a AND s2.b = s3.b", windows=(10,) * 3, types=types, select="count(*)")
    rows = [
        *[(2, 0, 1, 5), (2, 0, 1, 6), (2, 0, 2, 5)],
        *[(3, 1, 0, 5), (3, 1, 0, 5), (3, 1, 0, 6)],
        (1, 2, 1, 0),
    ]
    _, steps = run(query, rows)
    assert sum(step.n_produced for step in steps) == 2 + 1


def test_losses_are_counted_at_the_late_tuple_by_the_time_of_the_result() -> None:
    # W = 10. In order: s2 at 20, 25, 31, 33; s1 at 40 moves on. Late s1:24 joins 20 (at 24),
    # 25 (at 25), 31 (at 31), 33 (at 33); 35 is more than 10 after.
    rows = [
        *[(2, ts, 1) for ts in (20, 25, 31, 33, 35)],
        (1, 40, 9),
        (2, 41, 9),
        (1, 24, 1),
        (1, 41, 9),
    ]
    steps, _ = counted("s1.a = s2.a", rows, retention=100)
    lost = Counter(dict(zip(steps[0].lost_ts.tolist(), steps[0].lost_n.tolist(), strict=True)))
    lost += Counter(dict(zip(steps[1].lost_ts.tolist(), steps[1].lost_n.tolist(), strict=True)))
    assert lost == {24: 1, 25: 1, 31: 1, 33: 1}
    late = [step.n_join[step.late].tolist() for step in steps]
    assert [n for part in late for n in part] == [4]


def test_a_late_tuple_beyond_the_horizon_is_reported_and_nothing_is_counted_for_it() -> None:
    rows = [(2, 20, 1), (1, 40, 9), (2, 41, 9), (1, 19, 1), (1, 20, 1), (1, 42, 9)]
    steps, _ = counted("s1.a = s2.a", rows, retention=20)
    late = np.concatenate([step.late for step in steps])
    beyond = np.concatenate([step.beyond for step in steps])
    n_join = np.concatenate([step.n_join for step in steps])
    assert beyond[late].tolist() == [True, False]
    assert n_join[late].tolist() == [0, 1]


CONDITIONS = {
    "flat": ("s1.a = s2.a", 2),
    "chain": ("s1.a = s2.a AND s2.b = s3.b", 3),
    "cross join": (None, 2),
}


def compared(condition: str | None, m: int, rows: list[tuple[Any, ...]], *, k: int) -> list[Step]:
    """Count along the tree and by enumerating, which knows no vectors; they must agree."""
    windows = (5000,) * m
    rows = [row for row in rows if row[0] <= m]
    tree, pipeline = counted(condition, rows, windows=windows, k=k)
    assert pipeline.operator.counts_by_tree
    enumerated, pipeline = counted(condition, rows, windows=windows, k=k, rows_too=True)
    assert not pipeline.operator.counts_by_tree
    for one, other in zip(tree, enumerated, strict=True):
        assert one.n_join.tolist() == other.n_join.tolist()
        assert one.n_cross.tolist() == other.n_cross.tolist()
    assert by_fate(tree) == by_fate(enumerated)
    assert _lost(tree) == _lost(enumerated)
    return tree


@pytest.mark.parametrize("shape", CONDITIONS)
def test_a_late_tuple_may_lose_results_of_more_times_than_fit_one_vector(shape: str) -> None:
    n = 2 * VECTOR + 50
    rows: list[tuple[Any, ...]] = [(3, 999, 0, 0), (3, 999, 0, 1)]
    for i in range(n):
        rows += [(2, 1000 + i, 1, i % 2), (1, 1000 + i, 2, 0), (3, 1000 + i, 0, 5)]
    rows += [(1, 990, 1, 0), *((s, 1000 + n, 9, 9) for s in (1, 2, 3))]
    steps = compared(*CONDITIONS[shape], rows, k=0)
    assert len(_lost(steps)) > 2 * VECTOR


@pytest.mark.parametrize("shape", CONDITIONS)
def test_a_trigger_may_have_partners_of_more_slack_levels_than_fit_one_vector(shape: str) -> None:
    # All is held until the end. The partners of s1:500 come one by one while the base time moves on
    # far ahead of them, so each has a base time of its own.
    n = 2 * VECTOR + 50
    rows: list[tuple[Any, ...]] = [(1, 500, 1, 0), (3, 450, 0, 0), (3, 450, 0, 1)]
    for i in range(n):
        # More than the width of a bin apart.
        rows += [(s, 1000 + int(500 * 1.012**i), 8 + s, 8 + s) for s in (1, 2, 3)]
        rows += [(2, 400 + i % 90, 1, i % 2)]
    steps = compared(*CONDITIONS[shape], rows, k=100_000)
    assert len(by_fate(steps)) > 2 * VECTOR


def _lost(steps: list[Step]) -> Counter[int]:
    found: Counter[int] = Counter()
    for step in steps:
        for ts, n in zip(step.lost_ts.tolist(), step.lost_n.tolist(), strict=True):
            found[ts] += n
    return found


def crowd(n: int, last: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """``n`` tuples of each of seven streams, all with one key, then some others."""
    return [(s, 10, 0, 0) for s in range(1, 8) for _ in range(n)] + last


STAR = " AND ".join(f"s1.a = s{s}.a" for s in range(2, 9))
CHAIN = " AND ".join(f"s{s}.b = s{s + 1}.a" for s in range(1, 8))
# The others move on, and then the last tuple of the eighth stream comes too late.
LATE = [*((s, 12, 1, 1) for s in range(1, 9)), (8, 11, 0, 0), (8, 13, 1, 1)]


@pytest.mark.parametrize("condition", [STAR, CHAIN])
@pytest.mark.parametrize("slack", [False, True])
def test_as_many_results_as_64_bits_hold_are_counted_to_the_unit(
    condition: str, slack: bool
) -> None:
    steps, _ = counted(condition, crowd(500, [(8, 10, 0, 0)]), windows=(10,) * 8, slack=slack)
    assert sum(step.n_produced for step in steps) == 500**7
    steps, _ = counted(condition, crowd(500, LATE), windows=(10,) * 8, slack=slack)
    assert sum(step.n_lost for step in steps) == 500**7


@pytest.mark.parametrize("condition", [STAR, CHAIN])
@pytest.mark.parametrize(("last", "ts", "k"), [([(8, 10, 0, 0)], 10, 100), (LATE, 11, 0)])
def test_more_results_than_64_bits_hold_are_refused_and_not_counted_wrongly(
    condition: str, last: list[tuple[Any, ...]], ts: int, k: int
) -> None:
    message = (
        f"a tuple of stream `s8` at {ts} has over 9.2e+18 join results, more than 64 bits can "
        "count; use shorter windows or a narrower condition"
    )
    with pytest.raises(TooManyResults, match=re.escape(message)):
        counted(condition, crowd(600, last), windows=(10,) * 8, k=k)


def test_tuples_with_too_many_results_together_are_refused() -> None:
    message = (
        "3502 tuples have 1.6e+19 join results together, more than 64 bits can count; use shorter "
        "windows or a narrower condition, or let fewer tuples arrive at once"
    )
    with pytest.raises(TooManyResults, match=re.escape(message)):
        counted(STAR, crowd(500, [(8, 10, 0, 0)] * 2), windows=(10,) * 8, k=100)


def test_large_windows_with_few_results_are_no_matter() -> None:
    rows = [(s, 10, n, n) for s in range(1, 9) for n in range(600)]
    for condition in (STAR, CHAIN):
        steps, _ = counted(condition, rows, windows=(10,) * 8)
        assert sum(step.n_produced for step in steps) == 600
        assert max(float(step.n_cross.max(initial=0.0)) for step in steps) > 2.0**64

"""The join operator: chunks, their order, and the two ways to count."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine import operator
from recalljoin.engine.merging import in_order_of_roots
from recalljoin.engine.probe import Partials
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import slack_bin
from tests.unit.engine.inputs import bound, members, run


def chunk(*roots: int, source: int) -> Partials:
    n = len(roots)
    members = np.full((1, n), source)
    return Partials(members, np.array(roots), np.zeros(n, dtype=np.int64), np.zeros(n, np.int64))


def test_chunks_of_several_sources_come_out_in_order_of_their_roots() -> None:
    sources = [
        iter([chunk(0, 0, 3, source=0), chunk(3, 9, source=0)]),
        iter([chunk(1, 2, source=1), chunk(4, source=1), chunk(4, 8, source=1)]),
        iter([]),
    ]
    merged = list(in_order_of_roots(sources))
    roots = [int(root) for part in merged for root in part.root]
    origins = [int(source) for part in merged for source in part.members[0]]
    assert roots == [0, 0, 1, 2, 3, 3, 4, 4, 8, 9]
    assert origins == [0, 0, 1, 1, 0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("condition", ["s1.a = s2.a", "s1.a <= s2.a", None])
def test_a_trigger_with_more_results_than_a_chunk_gives_several_and_loses_none(
    condition: str | None,
) -> None:
    query = bound(condition, windows=(10, 10, 10))
    rows = [(1, 0, 1)] * 60 + [(2, 0, 1)] * 60 + [(3, 0, 1)]
    with mock.patch.object(operator, "CHUNK", 1200):
        results, steps = run(query, rows)
    assert len(set(members(results))) == len(results) == 3600
    assert sum(step.n_produced for step in steps) == 3600


@pytest.mark.parametrize("stretch", [1, 2, 5, 1000])
def test_where_the_join_sequence_is_cut_into_stretches_does_not_matter(stretch: int) -> None:
    query = bound("s1.a = s2.a", windows=(7, 9))
    drawn = np.random.default_rng(5).integers((1, -9, 0), (3, 2, 3), (300, 3)).tolist()
    rows = [(s, n + delay, a) for n, (s, delay, a) in enumerate(drawn)]
    settings = EngineSettings(slack=True)
    expected, wanted = run(query, rows, k=2, settings=settings)
    with mock.patch.object(operator, "STRETCH", stretch):
        results, steps = run(query, rows, k=2, settings=settings)
    assert results == expected
    for step, other in zip(steps, wanted, strict=True):
        assert step.n_join.tolist() == other.n_join.tolist()
        assert step.slack.tolist() == other.slack.tolist()


@pytest.mark.parametrize("rows_too", [False, True])
def test_a_histogram_ends_with_the_largest_slack_in_it(rows_too: bool) -> None:
    query = bound("s1.a = s2.a", windows=(2**40, 2**40))
    rows = [(1, 0, 0), (2, 0, 0), (1, 2**39, 1), (2, 2**39, 1), (1, 5, 0), (1, 2**39 + 1, 1)]
    _, (step, last) = run(query, rows, settings=EngineSettings(slack=True, rows=rows_too))
    assert step.slack[1, -1] == 1
    assert step.slack.shape[1] - 1 == slack_bin(2**39, 5)
    # What was told once is not told again.
    assert last.slack[1].sum() == 0


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize(
    ("condition", "windows"),
    [
        ("s1.a = s2.a", (40, 40)),
        ("s1.a = s2.a AND s1.b = s2.b", (30, 60)),
        ("s1.a = s2.a AND s2.a = s3.a", (20, 20, 20)),
        # From the first stream to the third one, the chain begins at a tuple that is no root.
        ("s1.a = s2.a AND s2.b = s3.b AND s1.n <> s3.n", (20, 20, 20)),
    ],
)
def test_walked_and_copied_chains_give_the_same_results_in_the_same_order(
    condition: str, windows: tuple[int, ...], k: int
) -> None:
    # Most keys are rare; one key has a third of all tuples, and its chain is long.
    rng = np.random.default_rng(11)
    n = 900
    keys = np.where(rng.random(n) < 0.33, 0, rng.integers(1, 200, n))
    delays = rng.choice((0, 0, 0, 5, 30, 90), n)
    drawn = zip(rng.integers(1, len(windows) + 1, n), keys, rng.integers(0, 2, n), strict=True)
    rows = [
        (int(s), at // 2 - int(delays[at]), int(a), int(b)) for at, (s, a, b) in enumerate(drawn)
    ]
    types = {"a": pa.int64(), "b": pa.int64()}
    query = bound(condition, windows=windows, types=types)
    # Tuples are kept long enough to count all that is lost.
    settings = EngineSettings(slack=True, folded=False, retention=1000)
    outcomes = []
    for short in (0, operator.SHORT, 1000):
        with (
            mock.patch.object(operator, "SHORT", short),
            mock.patch.object(operator, "CHUNK", 600),
            mock.patch.object(operator, "STRETCH", 250),
        ):
            outcomes.append(run(query, rows, k=k, settings=settings))
    (expected, wanted), *others = outcomes
    assert sum(int(step.late.sum()) for step in wanted) > 100
    in_order, _ = run(query, sorted(rows, key=lambda row: row[1]), k=0)
    assert len(in_order) == sum(int(step.n_join.sum()) for step in wanted) > len(expected) > 500
    for results, steps in others:
        assert results == expected
        for step, other in zip(steps, wanted, strict=True):
            assert step.n_join.tolist() == other.n_join.tolist()
            assert step.slack.tolist() == other.slack.tolist()


def test_a_chain_that_is_copied_anew_while_its_results_go_out_gives_them_all_once() -> None:
    # The trigger at 100 has more partners than a chunk. Meanwhile a late tuple of the same key,
    # behind tuples of many other keys, asks for partners from before the window of the trigger.
    query = bound("s1.a = s2.a", windows=(40, 40))
    partners = [(2, 20 + n // 10, 0) for n in range(800)]
    others = [(s, 100 + key, key) for key in range(1, 41) for s in (2, 1)]
    rows = [*partners, (1, 100, 0), *others, (2, 200, 99), (1, 50, 0), (1, 141, 0)]
    settings = EngineSettings(slack=True, folded=False, retention=1000)
    expected, _ = run(query, rows, settings=settings)
    # A stretch ends with the partners, and no root that follows in order needs all of them.
    with mock.patch.multiple(operator, CHUNK=100, SHORT=0, STRETCH=len(partners)):
        results, steps = run(query, rows, settings=settings)
    # From 60 to 99 for the trigger, and from 20 to 90 for the late one.
    assert sum(int(step.n_join.sum()) for step in steps) == 400 + 40 + 710
    assert len(expected) == 400 + 40
    assert results == expected

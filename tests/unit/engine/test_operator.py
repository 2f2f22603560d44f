"""The join operator: chunks, their order, and the two ways to count."""

from __future__ import annotations

from unittest import mock

import numpy as np
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

"""Settings, messages, and what a step tells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.slack_bins import ENOUGH, N_BINS
from recalljoin.engine.step import drain
from recalljoin.errors import InvalidSetting
from tests.unit.engine.inputs import bound, members, rows_of, run


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arrival": "batch"}, "`arrival` must be 'tuple' or 'tick', got 'batch'"),
        ({"retention": -1}, "`retention` must be between 0 and 2**61, got -1"),
        ({"retention": 2**61 + 1}, f"`retention` must be between 0 and 2**61, got {2**61 + 1}"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        EngineSettings(**given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("k", [-1, 2**61 + 1, np.array([0, -1])])
def test_a_slack_out_of_range_is_refused(k: Any) -> None:
    query = bound()
    rows = rows_of(query, [(1, 0, 0), (2, 0, 0)])
    with pytest.raises(InvalidSetting, match=r"`k` must be between 0 and 2\*\*61, got"):
        drain(Pipeline(query).push(rows, k=k))


def test_the_mode_of_arrival_is_fixed() -> None:
    query = bound()
    rows = rows_of(query, [(1, 0, 0)])
    with pytest.raises(InvalidSetting) as caught:
        drain(Pipeline(query, EngineSettings(arrival="tick")).push(rows, k=0))
    assert str(caught.value).startswith("this pipeline is set to `arrival='tick'`, not 'tuple'")
    with pytest.raises(InvalidSetting, match="set to `arrival='tuple'`, not 'tick'"):
        drain(Pipeline(query).push_ticks(rows, np.array([0]), n_ticks=1, k=0))


def test_a_refused_call_changes_nothing() -> None:
    query = bound()
    pipeline = Pipeline(query)
    rows = rows_of(query, [(1, 0, 7), (2, 0, 7)])
    with pytest.raises(InvalidSetting):
        drain(pipeline.push(rows, k=-5))
    assert pipeline.n_buffered == 0
    batches, _ = drain(pipeline.push(rows, k=0))
    rest, _ = drain(pipeline.flush())
    assert members([row for batch in [*batches, *rest] for row in batch.to_pylist()]) == [(0, 1)]


def test_a_step_tells_of_every_tuple_in_join_order() -> None:
    query = bound("s1.a = s2.a", windows=(10, 10))
    # K = 0. s1:5 is late behind s1:9, which waits for the other stream.
    _, (step, rest) = run(
        query, [(1, 3, 0), (2, 3, 0), (1, 9, 0), (2, 12, 0), (1, 5, 0), (1, 11, 0)]
    )
    assert step.ts.tolist() == [3, 3, 9, 5, 11]
    assert step.stream.tolist() == [0, 1, 0, 0, 0]
    assert step.row.tolist() == [0, 0, 1, 2, 3]
    assert step.late.tolist() == [False, False, False, True, False]
    assert step.delay.tolist() == [0, 0, 0, 4, 0]
    assert step.n_join.tolist() == [0, 1, 1, 1, 1]
    assert step.n_cross.tolist() == [0, 1, 1, 0, 1]
    assert (step.n_produced, step.n_lost, step.n_late) == (3, 1, 1)
    assert (step.lost_ts.tolist(), step.lost_n.tolist()) == ([5], [1])
    assert (step.join_time, step.base_time) == (11, 11)
    assert rest.ts.tolist() == [12]
    # s2:12 meets s1 at 3, 5, 9 and 11: the late one is in its window.
    assert rest.n_join.tolist() == [4]


def test_results_come_while_the_step_is_still_under_way() -> None:
    query = bound(None, windows=(10, 10))
    pipeline = Pipeline(query)
    rows = rows_of(query, [(1, 0, 0)] * 400 + [(2, 0, 0)] * 400 + [(1, 20, 0), (2, 20, 0)])
    steps = pipeline.push(rows, k=0)
    first = next(steps)
    assert 0 < first.num_rows <= 65_536
    others, step = drain(steps)
    assert first.num_rows + sum(batch.num_rows for batch in others) == step.n_produced == 160_001


def test_marks_of_other_instances_move_the_clocks() -> None:
    # This instance sees only a share of the tuples; the marks say how far the streams have come.
    query = bound("s1.a = s2.a")
    pipeline = Pipeline(query, EngineSettings(arrival="tick"))
    rows = rows_of(query, [(1, 10, 0), (2, 12, 0)])
    never = np.iinfo(np.int64).min
    marks = np.array([[10, 12], [50, 50], [never, never]])
    batches, step = drain(pipeline.push_ticks(rows, np.array([0, 0]), n_ticks=3, k=5, marks=marks))
    assert (step.join_time, step.base_time) == (45, 50)
    assert sum(batch.num_rows for batch in batches) == 1
    assert pipeline.local_times.tolist() == [50, 50]


def test_ticks_without_tuples_let_go_of_what_is_old() -> None:
    query = bound("s1.a = s2.a")
    pipeline = Pipeline(query, EngineSettings(arrival="tick"))
    rows = rows_of(query, [(1, 10, 0), (2, 12, 0)])
    drain(pipeline.push_ticks(rows, np.array([0, 0]), n_ticks=1, k=0))
    assert pipeline.n_kept == 1
    nothing = rows_of(query, [])
    marks = np.array([[1000, 1000]])
    drain(pipeline.push_ticks(nothing, np.empty(0, dtype=np.int64), n_ticks=1, k=0, marks=marks))
    assert pipeline.n_kept == 0


def test_nothing_pushed_is_a_step_of_nothing() -> None:
    query = bound()
    pipeline = Pipeline(query)
    batches, step = drain(pipeline.push(rows_of(query, []), k=0))
    assert batches == []
    assert (len(step.ts), step.n_produced, step.slack.sum()) == (0, 0, 0)
    ticks = Pipeline(query, EngineSettings(arrival="tick"))
    none = np.empty(0, dtype=np.int64)
    assert drain(ticks.push_ticks(rows_of(query, []), none, n_ticks=0, k=0))[0] == []


def test_what_arrives_after_the_end_of_input_is_late_in_ticks() -> None:
    query = bound()
    pipeline = Pipeline(query, EngineSettings(arrival="tick"))
    drain(pipeline.push_ticks(rows_of(query, [(1, 5, 0)]), np.array([0]), n_ticks=1, k=0))
    drain(pipeline.flush())
    rows = rows_of(query, [(2, 6, 0)])
    _, step = drain(pipeline.push_ticks(rows, np.array([0]), n_ticks=1, k=0))
    assert step.late.tolist() == [True]


def test_the_query_may_ask_for_counts_whatever_the_settings_say() -> None:
    query = bound(select="count(*)")
    pipeline = Pipeline(query, EngineSettings(rows=True))
    assert pipeline.output is None
    batches, step = drain(pipeline.push(rows_of(query, [(1, 0, 0), (2, 0, 0)]), k=0))
    assert (batches, step.n_produced) == ([], 1)


def test_only_columns_that_somebody_reads_are_kept() -> None:
    types = {"a": pa.int64(), "x": pa.int64(), "long": pa.string()}
    counting = Pipeline(bound("s1.a = s2.a", types=types, select="count(*)"))
    assert [payload.schema.names for payload in counting.payloads] == [[], []]
    checking = Pipeline(bound("s1.a = s2.a AND s1.x < s2.x", types=types, select="count(*)"))
    assert [payload.schema.names for payload in checking.payloads] == [["x"], ["x"]]
    projecting = Pipeline(bound("s1.a = s2.a", types=types, select="s1.long"))
    assert [payload.schema.names for payload in projecting.payloads] == [["long"], []]


@pytest.mark.parametrize("k", [0, 4000])
@pytest.mark.parametrize("rows_too", [False, True])
@pytest.mark.parametrize("cuts", [[], range(7, 4000, 7)])
def test_results_lost_per_tuple_needed_more_slack_than_there_was(
    k: int, rows_too: bool, cuts: list[int]
) -> None:
    # Times of s1 are whole tens of seconds, some of them 20 s late; s2 lags behind by 22 s.
    # A late tuple waits in its buffer for up to ten seconds, until s1 goes on, and s2 lets the
    # join pass it meanwhile. By the base time of its arrival, which is that of s2, results lost
    # with it would be said to need a negative slack, and K would never rise.
    rng = np.random.default_rng(3)
    rows = []
    for now in range(20_000, 220_000, 100):
        late = 20_000 * int(rng.random() < 0.2)
        rows.append((1, now // 10_000 * 10_000 - late, int(rng.integers(5))))
        rows.append((2, now - 22_000, int(rng.integers(5))))
    query = bound("s1.a = s2.a", windows=(3000, 3000))
    pipeline = Pipeline(query, EngineSettings(slack=True, rows=rows_too, retention=30_000))
    arrivals = rows_of(query, rows)
    lost = np.zeros(N_BINS, dtype=np.int64)
    n_below = 0
    for begin, end in pairwise([0, *cuts, len(rows)]):
        _, step = drain(pipeline.push(arrivals.slice(begin, end), k=k))
        lost[: step.slack.shape[1]] += step.slack[1]
        n_below += int(step.n_join[step.late & (step.base < step.ts + k)].sum())
    assert n_below > 0
    assert lost[k < ENOUGH].sum() == lost.sum() >= n_below

"""Recorded streams under a recall, and answers that do not depend on what was asked before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin import InvalidSetting, InvalidTarget, Quality, Query, Replayed, Stream, replay
from recalljoin.engine.arrivals import arrivals_of
from recalljoin.quality import replayed as module
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings

TEXT = "SELECT a.x, a.n, b.n AS m FROM a [300 MS], b [300 MS] WHERE a.x = b.x"
TARGET = " WITH RECALL 0.9 OVER 5 SEC"


def streams(n: int = 3000, arrival: str = "arrival") -> dict[str, pa.Table]:
    """Two streams of a tuple every 10 ms; a fifth comes up to 2 s late, in the second half more."""
    rng = np.random.default_rng(5)
    tables = {}
    for name in "ab":
        ts = 10 * np.arange(n)
        late = rng.random(n) < np.where(np.arange(n) < n // 2, 0.1, 0.3)
        at = ts + np.where(late, rng.integers(100, 2000, n), 0)
        table = pa.table(
            {"ts": ts, "x": rng.integers(0, 10, n), "n": np.arange(n), arrival: at + 7_000}
        )
        # In any order: the column of arrival says when a row came.
        tables[name] = table.take(pa.array(rng.permutation(n)))
    return tables


def rows(joined: Replayed) -> list[Any]:
    return sorted(tuple(row.values()) for row in joined.table().to_pylist())


@pytest.mark.parametrize("tick", [None, "100 ms"])
def test_a_recall_is_reached_with_less_waiting_than_everything_needs(tick: str | None) -> None:
    joined = replay(TEXT + TARGET, streams(), tick=tick)
    everything = replay(TEXT, streams(), k="3 s", tick=tick)
    assert everything.recall == 1.0
    assert 0.9 <= joined.recall < 1
    assert joined.produced + joined.lost == everything.produced
    assert set(rows(joined)) < set(rows(everything))
    assert joined.adaptation is not None
    assert 0 < joined.adaptation.mean_k < 2000
    assert everything.adaptation is None


@pytest.mark.parametrize("tick", [None, 100])
def test_k_is_what_an_evaluation_chooses_and_results_are_those_it_counts(tick: int | None) -> None:
    inputs = streams()
    query = Query(
        streams=[Stream(name, window=300, arrival="arrival") for name in "ab"],
        condition="a.x = b.x",
        quality=Quality(recall=0.9, period="5 s"),
    ).bind({name: table.schema for name, table in inputs.items()})
    settings = PolicySettings.of(query)
    record = run_adaptive(
        query,
        arrivals_of(query, inputs),
        make_policy("slack", settings),
        settings,
        arrival="tuple" if tick is None else "tick",
        tick=tick,
    )
    joined = replay(TEXT + TARGET, inputs, tick=tick)
    assert joined.table().num_rows == joined.produced == record.n_produced
    assert joined.late == record.n_late
    assert joined.adaptation is not None
    assert np.array_equal(joined.adaptation.k, record.k)
    # K falls and rises on the way: a schedule that never changes would show nothing.
    assert len(record.schedule.k) > 3


def test_a_recall_beside_the_query_goes_before_the_one_in_it() -> None:
    low = replay(TEXT + TARGET, streams(), recall=0.5)
    query = Query(
        streams=[Stream("a", window=300), Stream("b", window=300)],
        condition="a.x = b.x",
        select="a.x, a.n, b.n AS m",
        quality=Quality(recall=0.5, period="5 s"),
    )
    assert low.query.quality is not None
    assert (low.query.quality.recall, low.query.quality.period) == (0.5, 5000)
    assert rows(low) == rows(replay(query, streams()))
    assert low.recall < replay(TEXT + TARGET, streams()).recall
    assert rows(replay(TEXT, streams(), recall=0.5, period="5 s")) == rows(low)


def test_a_fixed_wait_goes_before_the_recall_of_the_text() -> None:
    assert rows(replay(TEXT + TARGET, streams(), k=50)) == rows(replay(TEXT, streams(), k=50))


def test_answers_come_after_the_join_whatever_is_asked_first() -> None:
    first = replay(TEXT, streams(), k=0)
    assert "not run yet" in repr(first)
    recall = first.recall
    assert recall < 1
    table = first.table()
    assert table.num_rows == first.produced
    assert first.table().equals(table)
    assert pa.Table.from_batches(list(first)).equals(table)
    assert (first.recall, first.table().num_rows) == (recall, table.num_rows)
    other = replay(TEXT, streams(), k=0)
    assert other.table().equals(table)
    assert repr(other) == (
        f"<Replayed: {first.produced:,} results, {first.lost:,} lost, recall {recall:.4f}; "
        f"{first.late:,} tuples late>"
    )


def test_results_can_be_left_half_read() -> None:
    joined = replay(TEXT, streams(), k="1 s")
    next(iter(joined))
    assert joined.table().num_rows == joined.produced == replay(TEXT, streams(), k="1 s").produced


def test_a_column_of_arrival_is_honoured_by_its_usual_name_or_as_declared() -> None:
    declared = Query(
        streams=[Stream("a", window=300, arrival="at"), Stream("b", window=300, arrival="at")],
        condition="a.x = b.x",
        select="a.x, a.n, b.n AS m",
    )
    usual = replay(TEXT, streams(), k="100 ms")
    assert rows(replay(declared, streams(arrival="at"), k="100 ms")) == rows(usual)
    assert rows(replay(TEXT, streams(arrival="at"), arrival="at", k="100 ms")) == rows(usual)
    # Without it, rows arrive in the order of the tables.
    in_step = replay(TEXT, streams(arrival="at"), k="100 ms")
    assert rows(in_step) != rows(usual)


def test_only_some_inputs_with_an_arrival_are_refused() -> None:
    inputs = streams()
    inputs["b"] = inputs["b"].drop_columns("arrival")
    with pytest.raises(InvalidSetting, match="`arrival` must be known of all inputs or of none"):
        replay(TEXT, inputs)


def test_streams_may_carry_their_tables() -> None:
    inputs = streams()
    query = Query(
        streams=[Stream(name, inputs[name], window=300) for name in "ab"],
        condition="a.x = b.x",
        select="a.x, a.n, b.n AS m",
    )
    assert rows(replay(query, k=50)) == rows(replay(TEXT, inputs, k=50))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"k": 5, "recall": 0.9}, InvalidSetting, "leaves no use for `recall`, got 5 and 0.9"),
        ({"k": 5, "period": "1 s"}, InvalidSetting, "no use for `period`, got 5 and '1 s'"),
        ({"period": "1 s"}, InvalidSetting, "`period` goes with a `recall`, got '1 s' alone"),
        ({"recall": 95}, InvalidTarget, "write 0.95 for 95 %"),
        ({"tick": 0}, InvalidSetting, "`tick` must be positive"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        replay(TEXT, streams(10), **settings)


def test_data_that_are_no_table_are_refused() -> None:
    inputs: Any = {"a": [], "b": []}
    with pytest.raises(InvalidSetting, match="stream `a` must be an Arrow table, got list"):
        replay(TEXT, inputs)


def test_too_many_ticks_to_adapt_over_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TICKS", 100)
    with pytest.raises(InvalidSetting, match="`tick` cuts the recording into more than 100 slices"):
        replay(TEXT, streams(), recall=0.9, tick="1 ms")

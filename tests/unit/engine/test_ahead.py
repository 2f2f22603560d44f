"""A time absurdly far ahead of its stream is refused, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recalljoin as rj
from recalljoin.engine.ahead import far_ahead, max_ahead_of
from recalljoin.engine.times import FAR_AHEAD
from recalljoin.errors import InvalidSetting
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality

if TYPE_CHECKING:
    from recalljoin.query.durations import DurationLike

HOUR = 3_600_000
YEAR_2200 = 7_258_118_400_000
QUERY = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k"


def streams(n: int = 300, *, seed: int = 1) -> dict[str, pa.Table]:
    """Two streams over some minutes, a fifth of each half a minute late."""
    random = np.random.default_rng(seed)
    tables = {}
    for name in "ab":
        arrival = np.arange(n) * 1000
        ts = arrival - np.where(random.random(n) < 0.2, 30_000, 0)
        tables[name] = pa.table({"ts": ts, "arrival": arrival, "k": random.integers(0, 5, n)})
    return tables


def with_row(table: pa.Table, place: int, ts: int) -> pa.Table:
    """The table with one more row that has another row's key and time of arrival."""
    row = table.slice(place, 1).set_column(0, "ts", pa.array([ts]))
    return pa.concat_tables([table.slice(0, place), row, table.slice(place)])


def rows(joined: rj.Replayed) -> list[dict[str, Any]]:
    return sorted(joined.table().to_pylist(), key=repr)


@pytest.mark.parametrize("place", [0, 1, 100, 295])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"arrival": "arrival"},
        {"arrival": "arrival", "tick": "2 seconds"},
    ],
)
def test_one_absurd_time_in_each_stream_takes_no_result_away(
    place: int, how: dict[str, Any]
) -> None:
    tables = streams()
    spoiled = {name: with_row(table, place, YEAR_2200) for name, table in tables.items()}
    expected = rj.replay(QUERY, tables, k="40 seconds", **how)
    found = rj.replay(QUERY, spoiled, k="40 seconds", **how)
    assert rows(found) == rows(expected)
    assert expected.produced > 600
    assert {key: t.num_rows for key, t in found.refused.items()} == {
        ("a", FAR_AHEAD): 1,
        ("b", FAR_AHEAD): 1,
    }
    unguarded = rj.replay(QUERY, spoiled, k="40 seconds", max_ahead=None, **how)
    assert not unguarded.refused
    if "tick" in how or place > 1:
        # The clocks of both streams jump, and everything that comes later is late. Per tuple, a
        # K-slack component whose stream never grows lets nothing go before the end of the input.
        unguarded.table()
        assert unguarded.produced < expected.produced


def test_an_absurd_time_at_the_very_end_is_harmless_and_taken() -> None:
    spoiled = {name: with_row(table, 299, YEAR_2200) for name, table in streams().items()}
    assert not rj.replay(QUERY, spoiled).refused


def test_a_share_of_absurd_times_never_confirms_itself() -> None:
    random = np.random.default_rng(3)
    sane = np.arange(100_000) * 100
    absurd = random.random(len(sane)) < 0.1
    ts = np.where(absurd, YEAR_2200 + random.integers(0, 10**9, len(sane)), sane)
    # Nothing comes after the last rows that could contradict them.
    assert (far_ahead(ts, HOUR) == absurd)[:-10].all()


@pytest.mark.parametrize(
    "ts",
    [
        # The source was silent for a night.
        [*range(0, 100_000, 1000), *range(12 * HOUR, 12 * HOUR + 100_000, 1000)],
        # A row a day.
        [day * 24 * HOUR for day in range(50)],
        # A row a day, each followed by one that is late.
        [day * 24 * HOUR - late for day in range(50) for late in (0, 1000)],
        # A clock that was set after the first rows.
        [0, 1, 2, *range(1_700_000_000_000, 1_700_000_100_000, 1000)],
        # A jump close to the end.
        [*range(0, 100_000, 1000), 24 * HOUR, 24 * HOUR + 1],
        [5],
        [24 * HOUR, 0],
        [],
    ],
)
def test_a_stream_that_goes_on_from_a_time_is_believed(ts: list[int]) -> None:
    assert not far_ahead(np.array(ts, dtype=np.int64), HOUR).any()


def test_a_table_in_no_order_at_all_keeps_its_rows() -> None:
    ts = np.random.default_rng(5).integers(0, 240 * HOUR, 20_000)
    assert not far_ahead(ts, HOUR).any()


def test_a_time_no_later_than_its_arrival_is_believed_whatever_comes_next() -> None:
    # A live row between the rows of a backlog.
    ts = np.array([*range(50), 5 * HOUR, *range(50, 100)])
    assert far_ahead(ts, HOUR).tolist() == [t == 5 * HOUR for t in ts]
    assert not far_ahead(ts, HOUR, clock=np.full(len(ts), 5 * HOUR)).any()
    assert far_ahead(ts, HOUR, clock=np.full(len(ts), 3 * HOUR)).sum() == 1


@given(
    steps=st.lists(st.integers(-100, 100), max_size=60),
    start=st.integers(-(10**12), 10**12),
)
def test_disorder_alone_never_refuses_a_row(steps: list[int], start: int) -> None:
    moves = np.array(steps, dtype=np.int64)
    clock = start + np.cumsum(np.maximum(moves, 0))
    ts = clock + np.minimum(moves, 0)
    assert not far_ahead(ts, 100).any()


@pytest.mark.parametrize("ancient", [0, -(2**61), -62_135_596_800_000])
def test_an_ancient_time_costs_neither_results_nor_memory(ancient: int) -> None:
    tables = {
        name: table.set_column(0, "ts", pa.array(table["ts"].to_numpy() + 1_700_000_000_000))
        for name, table in streams().items()
    }
    expected = rows(rj.replay(QUERY, tables, k="40 seconds"))
    for place in (0, 100):
        spoiled = {name: with_row(table, place, ancient) for name, table in tables.items()}
        found = rj.replay(QUERY, spoiled, k="40 seconds")
        assert not found.refused
        ours = [row for row in rows(found) if row["result_time"] > 10**12]
        assert ours == expected


@pytest.mark.parametrize(
    ("given", "window", "period", "expected"),
    [
        ("auto", "5 s", None, HOUR),
        ("auto", "5 s", "1 h", 10 * HOUR),
        ("auto", "1 day", "1 h", 240 * HOUR),
        ("10 s", "1 day", None, 10_000),
        (7, "5 s", None, 7),
        (None, "5 s", None, None),
    ],
)
def test_how_far_ahead_a_time_may_be(
    given: DurationLike | None, window: str, period: str | None, expected: int | None
) -> None:
    quality = None if period is None else Quality(recall=0.9, period=period)
    query = Query(streams=[Stream("a", window=window), Stream("b", window="5 s")], quality=quality)
    schema = pa.schema({"ts": pa.int64()})
    bound = query.bind({"a": schema, "b": schema})
    assert max_ahead_of(bound, given) == expected


def test_a_max_ahead_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidSetting) as caught:
        rj.replay(QUERY, streams(), max_ahead=0)
    assert str(caught.value) == "`max_ahead` must be longer than 0, got 0; None turns it off"

"""Recorded streams through one operator instance."""

from __future__ import annotations

from datetime import timedelta
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from recalljoin import InvalidQuery, InvalidSetting, Query, Stream, replay
from recalljoin.quality import replayed as module

TEXT = "SELECT a.x, b.x AS y FROM a [10 ms], b [10 ms] WHERE a.x = b.x"
COUNT = "SELECT count(*) FROM a [10 ms], b [10 ms] WHERE a.x = b.x"


def streams(n: int = 200) -> dict[str, pa.Table]:
    """Two streams that arrive in turns, every fifth tuple 7 ms late."""
    return {
        name: pa.table(
            {
                "ts": np.arange(n) - np.where(np.arange(n) % 5 == 4, 7, 0),
                "x": np.arange(n) % 3,
                "at": 2 * np.arange(n) + first,
            }
        )
        for first, name in enumerate("ab")
    }


def true_results(inputs: dict[str, pa.Table]) -> int:
    a, b = (
        list(zip(t["ts"].to_pylist(), t["x"].to_pylist(), strict=True)) for t in inputs.values()
    )
    return sum(abs(s - t) <= 10 and x == y for s, x in a for t, y in b)


def test_every_lost_result_is_counted_however_late_its_last_member_comes() -> None:
    # The pair of key 7 comes to light an hour after everybody has forgotten it.
    ts = [*range(0, 3_600_000, 60_000), 30_000]
    a = pa.table({"ts": ts, "x": [1] * 60 + [7]})
    b = pa.table({"ts": [30_500, *range(60_000, 3_660_000, 60_000)], "x": [7] + [1] * 60})
    query = "SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x"
    for tick in (None, "1 s"):
        tables = {
            name: table.append_column("at", pa.array(range(0, 61_000, 1000)))
            for name, table in (("a", a), ("b", b))
        }
        found = replay(query, tables, arrival="at", tick=tick)
        found.table()
        assert (found.lost, found.beyond) == (1, 0)
        forgetful = replay(query, tables, arrival="at", tick=tick, retention="1 s")
        forgetful.table()
        assert (forgetful.lost, forgetful.beyond) == (0, 1)


def test_enough_slack_gives_all_results() -> None:
    inputs = streams()
    joined = replay(TEXT, inputs, k="8 ms")
    table = joined.table()
    assert table.num_rows == joined.produced == true_results(inputs)
    assert (joined.lost, joined.late, joined.beyond, joined.recall) == (0, 0, 0, 1.0)
    assert table.column_names == ["x", "y", "result_time"]


def test_too_little_slack_is_told() -> None:
    inputs = streams()
    joined = replay(TEXT, inputs, k=0)
    produced = sum(batch.num_rows for batch in joined)
    assert joined.late > 0
    assert produced == joined.produced
    assert joined.produced + joined.lost == true_results(inputs)
    assert 0 < joined.recall < 1


def test_a_query_that_counts_gives_its_count() -> None:
    inputs = streams()
    assert replay(COUNT, inputs, k=20).table().to_pylist() == [{"count": true_results(inputs)}]


@pytest.mark.parametrize("k", [8, "8 ms", timedelta(milliseconds=8)])
def test_durations_may_be_text_milliseconds_or_timedeltas(k: int | str | timedelta) -> None:
    assert replay(COUNT, streams(), k=k, retention=k).recall == 1.0


@pytest.mark.parametrize("tick", [None, "5 ms"])
@pytest.mark.parametrize("slice_size", [1, 7, 1 << 16])
def test_how_much_is_pushed_at_once_does_not_matter(tick: str | None, slice_size: int) -> None:
    inputs = streams()
    expected = replay(TEXT, inputs, k=3, arrival="at", tick=tick).table()
    with mock.patch.object(module, "SLICE", slice_size):
        assert replay(TEXT, inputs, k=3, arrival="at", tick=tick).table().equals(expected)


def test_ticks_see_what_arrives_together_at_once() -> None:
    inputs = streams()
    one_by_one = replay(COUNT, inputs, k=0, arrival="at")
    in_ticks = replay(COUNT, inputs, k=0, arrival="at", tick="40 ms")
    one_by_one.table()
    in_ticks.table()
    assert in_ticks.late < one_by_one.late
    # In one tick there is nobody to be late to.
    everything = replay(COUNT, inputs, k=0, arrival="at", tick="1 hour")
    assert everything.table().to_pylist() == [{"count": true_results(inputs)}]


def test_a_long_silence_between_ticks_is_no_work() -> None:
    one = pa.table({"ts": [0, 1, 10**12], "x": [1, 1, 1], "at": [0, 1, 10**12]})
    joined = replay(COUNT, {"a": one, "b": one}, arrival="at", tick="1 ms")
    assert joined.table().to_pylist() == [{"count": 5}]


def test_the_time_column_may_be_named_for_all_streams() -> None:
    inputs = {name: table.rename_columns(["when", "x", "at"]) for name, table in streams().items()}
    assert replay(COUNT, inputs, k=8, time="when").table().to_pylist()[0]["count"] > 0
    with pytest.raises(InvalidQuery, match="has no time column `ts`"):
        replay(COUNT, inputs)


def test_rows_that_cannot_take_part_can_be_read_back() -> None:
    inputs = streams(3)
    inputs["a"] = inputs["a"].set_column(0, "ts", pa.array([0, None, 2**62]))
    joined = replay(COUNT, inputs)
    assert {place: rows.num_rows for place, rows in joined.refused.items()} == {
        ("a", "null time"): 1,
        ("a", "time out of range"): 1,
    }


def test_two_streams_may_read_one_table() -> None:
    table = streams()["a"]
    text = "SELECT count(*) FROM t [0 ms] AS one, t [0 ms] AS two WHERE one.ts = two.ts"
    assert replay(text, {"t": table}, k=10).table()["count"].to_pylist() == [200 + _ties()]


def _ties() -> int:
    """Pairs of different rows with equal times."""
    ts: list[int] = streams()["a"]["ts"].to_pylist()
    return sum(ts.count(t) for t in ts) - len(ts)


def test_names_ignore_case() -> None:
    text = "SELECT count(*) FROM A [10 ms], B [10 ms] WHERE a.x = b.x"
    assert replay(text, streams(), k=8).table().to_pylist() == [{"count": true_results(streams())}]


def test_a_stream_without_input_is_named() -> None:
    with pytest.raises(InvalidQuery, match="no input is given for stream `b`"):
        replay(COUNT, {"a": streams()["a"]})


def test_ticks_need_times_of_arrival() -> None:
    with pytest.raises(InvalidSetting, match="every stream needs an `arrival` column"):
        list(replay(COUNT, streams(), tick="5 ms"))


def test_a_query_object_is_as_good_as_text() -> None:
    query = Query(
        streams=[Stream("a", window=10), Stream("b", window=10)],
        condition="a.x = b.x",
        select="count(*)",
    )
    assert replay(query, streams(), k=8).table() == replay(COUNT, streams(), k=8).table()


def test_no_input_at_all_gives_an_empty_table() -> None:
    empty = {name: table.slice(0, 0) for name, table in streams().items()}
    joined = replay(TEXT, empty)
    table = joined.table()
    assert (table.num_rows, table.column_names) == (0, ["x", "y", "result_time"])
    assert joined.recall == 1.0


@pytest.mark.parametrize(
    "devices",
    [
        pa.array(["x", "y", None, "x"]).dictionary_encode(),
        pa.array([b"x" * 16, b"y" * 16, None, b"x" * 16], pa.uuid()),
        pa.array([0.0, float("nan"), None, 0.0]),
        pa.array([b"x", b"y", None, b"x"]),
    ],
)
def test_sources_may_be_named_by_values_of_any_flat_type(devices: pa.Array) -> None:
    # Source y, and the one without a name, are silent from 1 s on; x goes on to 60 s.
    table = pa.table({"ts": [0, 0, 0, 60_000], "arrival": [0, 0, 0, 1], "k": [1, 1, 1, 1]})
    named = table.append_column("device", pa.array([1, 2, 3, 1]))
    text = "SELECT * FROM a [5 SEC SOURCE device], b [5 SEC] WHERE a.k = b.k"
    runs = [
        replay(text, {"a": one, "b": table}, recall=0.9, tick=1)
        for one in (named, table.append_column("device", devices))
    ]
    assert runs[1].table().num_rows == 3 * 3 + 1
    assert runs[1].table().drop_columns("a") == runs[0].table().drop_columns("a")

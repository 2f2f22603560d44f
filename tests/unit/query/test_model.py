from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.errors import InvalidQuery
from recalljoin.query.functions import Functions
from recalljoin.query.model import Query, Stream
from recalljoin.query.quality import Quality

SCHEMA = pa.schema({"ts": pa.int64(), "id": pa.int64(), "amount": pa.float64()})
TWO = (Stream("a", window="5 s"), Stream("b", window="5 s"))


@pytest.mark.parametrize(
    ("name", "settings", "fault"),
    [
        ("", {}, "`name` of a stream must be a name, got ''; write 'orders' instead"),
        (7, {}, "`name` of a stream must be a name, got 7; write 'orders' instead"),
        ("a", {"time": None}, "`time` of a stream must be a name, got None; write 'ts' instead"),
        (
            "a",
            {"arrival": ""},
            "`arrival` of a stream must be a name, got ''; write 'arrived' instead",
        ),
        (
            "a",
            {"window": -1},
            "stream `a`: `window` must not be negative, got -1; write a duration of 0 or more",
        ),
    ],
)
def test_a_wrong_stream_is_refused(name: Any, settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        Stream(name, **settings)
    assert caught.value.faults == (fault,)


def test_a_window_of_zero_is_legal() -> None:
    streams = [Stream("a", window=0), Stream("b", window="0 s")]
    bound = Query(streams=streams).bind({"a": SCHEMA, "b": SCHEMA})
    assert [stream.window for stream in bound.streams] == [0, 0]


def test_windows_may_differ_and_be_written_in_any_way() -> None:
    streams = [
        Stream("a", window="1 minute"),
        Stream("b", window=1500),
        Stream("c", window=timedelta(seconds=2)),
        Stream("d", window="1999 us"),
    ]
    bound = Query(streams=streams).bind(dict.fromkeys("abcd", SCHEMA))
    assert [stream.window for stream in bound.streams] == [60_000, 1500, 2000, 1]


def test_a_query_is_checked_as_it_is_made() -> None:
    with pytest.raises(InvalidQuery) as caught:
        Query(
            streams=[Stream("a", window="5 s")],
            condition="a.x = c.y AND rand() < a.x",
            select="avg(a.x)",
        )
    assert caught.value.faults == (
        "a join takes at least two streams, got 1; add another",
        "in `a.x = c.y`: no stream `c` in FROM; known streams: `a`",
        "in `rand() < a.x`: `rand` may give another value each time, and a condition may be "
        "checked at any time; add what it gives to the stream as a column",
        "in `avg(a.x)`: `avg` is an aggregate; the only one is SELECT count(*), on its own",
    )


def test_two_streams_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidQuery) as caught:
        Query(
            streams=[
                Stream("a", window="5 s"),
                Stream("b", window="5 s"),
                Stream("A", window="5 s"),
            ],
            condition="nonsense(",
        )
    assert caught.value.faults == (
        "two streams are called `A` (names ignore case); give one an alias, as in `A AS other`",
    )


def test_a_syntax_error_and_a_wrong_output_are_reported_together() -> None:
    with pytest.raises(InvalidQuery) as caught:
        Query(streams=TWO, condition="a.id = ", select="sum(a.id)")
    first, second = caught.value.faults
    assert first.startswith("syntax error in the condition, line 1, column")
    assert second.startswith("in `sum(a.id)`: `sum` is an aggregate")


def test_a_query_cannot_be_changed_afterwards() -> None:
    functions = Functions()
    query = Query(streams=list(TWO), functions=functions)
    functions.register(np.logaddexp)
    assert not query.functions
    assert query.streams == TWO
    with pytest.raises(FrozenInstanceError):
        query.condition = "TRUE"  # type: ignore[misc]


def test_queries_survive_the_way_between_processes() -> None:
    functions = Functions()
    functions.register(np.logaddexp)
    query = Query(
        streams=TWO,
        condition="logaddexp(a.amount, b.amount) < 1 AND a.id = b.id",
        functions=functions,
    )
    assert pickle.loads(pickle.dumps(query)) == query
    bound = query.bind({"a": SCHEMA, "b": SCHEMA})
    assert pickle.loads(pickle.dumps(bound)) == bound
    assert hash(bound) == hash(pickle.loads(pickle.dumps(bound)))


def test_a_query_needs_a_window_of_every_stream_and_says_so_with_all_other_faults() -> None:
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    query = Query(
        streams=[Stream("a"), Stream("b", time="at"), Stream("c", window=0)],
        quality=Quality(recall=0.9),
    )
    with pytest.raises(InvalidQuery) as error:
        query.bind(dict.fromkeys("abc", schema))
    first, second, third = error.value.faults
    assert "no time column `at`" in first
    assert second == "stream `a` has no window; write `a [5 SEC]` or window='5 seconds'"
    assert third == "stream `b` has no window; write `b [5 SEC]` or window='5 seconds'"


def test_a_window_that_a_mended_condition_may_give_is_not_asked_for() -> None:
    schema = pa.schema({"ts": pa.int64(), "x": pa.int64()})
    query = Query(
        streams=[Stream("a"), Stream("b", window=5)], condition="b.ts <= a.ts + 5 AND a.nope = b.x"
    )
    with pytest.raises(InvalidQuery) as error:
        query.bind(dict.fromkeys("ab", schema))
    (only,) = error.value.faults
    assert "no column `nope`" in only


def test_no_window_is_asked_for_where_the_times_of_the_condition_may_be_another_column() -> None:
    schema = pa.schema({"at": pa.int64(), "x": pa.int64()})
    between = Query(
        streams=[Stream("a", window=5), Stream("b")], condition="b.at BETWEEN a.at AND a.at + 5"
    )
    with pytest.raises(InvalidQuery) as error:
        between.bind(dict.fromkeys("ab", schema))
    assert [fault[:29] for fault in error.value.faults] == [
        "stream `a` has no time column",
        "stream `b` has no time column",
    ]

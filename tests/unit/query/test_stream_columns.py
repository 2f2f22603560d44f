"""Columns that are said beside a query."""

from __future__ import annotations

import pyarrow as pa
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.query.stream_columns import with_columns, with_usual_arrival
from recalljoin.query.text import parse_query

QUERY = parse_query("SELECT * FROM a [1 SEC], b [1 SEC] WHERE a.x = b.x")
WITHOUT = pa.schema({"ts": pa.int64(), "x": pa.int64()})
WITH = WITHOUT.append(pa.field("arrival", pa.int64()))


def test_columns_that_are_given_hold_for_all_streams() -> None:
    query = with_columns(QUERY, time="at", arrival="came")
    assert [(stream.time, stream.arrival) for stream in query.streams] == [("at", "came")] * 2


def test_columns_that_are_not_given_stay_as_the_query_has_them() -> None:
    stated = with_columns(QUERY, time="at", arrival="came")
    assert with_columns(stated) == stated


def test_the_usual_column_of_arrival_is_taken_if_every_input_has_it() -> None:
    found = with_usual_arrival(QUERY, {"a": WITH, "b": WITH})
    assert [stream.arrival for stream in found.streams] == ["arrival"] * 2
    assert with_usual_arrival(QUERY, {"a": WITHOUT, "b": WITHOUT}) == QUERY


def test_a_query_that_names_its_own_column_keeps_it() -> None:
    stated = with_columns(QUERY, arrival="x")
    assert with_usual_arrival(stated, {"a": WITH, "b": WITH}) == stated


def test_it_is_an_error_if_only_some_inputs_have_it() -> None:
    with pytest.raises(InvalidSetting, match="and `b` has no column 'arrival'; name the column"):
        with_usual_arrival(QUERY, {"a": WITH, "b": WITHOUT})

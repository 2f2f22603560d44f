"""Recordings as rows that arrive: their order, their pace, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="rows are written through Spark")

from recalljoin.errors import DatasetError
from recalljoin.jobs.job_file import parse_job
from recalljoin.jobs.produce import check_streams, recorded, seconds_of
from tests.jobs.test_job_file import ORDERS

JOB = parse_job(ORDERS.encode(), Path("/jobs"), {})
PAYMENTS = JOB.streams["p"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_rows_arrive_at_their_column_of_arrival_in_whatever_unit(unit: str) -> None:
    seconds = pa.array([100, 102, 101, 107]).cast(pa.timestamp("s"))
    table = pa.table(
        {
            "order_id": pa.array([1, 2, 3, 4], pa.int32()),
            "at": pa.array([5, 6, 7, 8]).cast(pa.timestamp("us", "UTC")),
            "came": seconds.cast(pa.timestamp(unit)),
        }
    )
    found = recorded("p", PAYMENTS, table, arrival="came", time_unit="ms")
    # A row cannot arrive before the row that stands before it.
    assert found.arrival.tolist() == [100_000, 102_000, 102_000, 107_000]
    assert found.rows.schema == PAYMENTS.schema


def test_without_arrivals_rows_come_when_their_event_times_have_been_reached() -> None:
    at = pa.array([5_000, 3_000, None, 9_000]).cast(pa.timestamp("ms", "UTC"))
    table = pa.table({"order_id": [1, 2, 3, 4], "at": at})
    found = recorded("p", PAYMENTS, table, arrival="arrival", time_unit="ms")
    assert found.arrival.tolist() == [5_000, 5_000, 5_000, 9_000]
    table = pa.table({"order_id": [1, 2, 3], "at": at[:3], "n": [-(2**63), 7, 2**63 - 1]})
    found = recorded("p", PAYMENTS, table, arrival="n", time_unit="s")
    assert found.arrival.tolist() == [7_000, 7_000, 7_000]


def test_a_recording_that_does_not_fit_is_refused() -> None:
    at = pa.array([1], pa.timestamp("us", "UTC"))
    with pytest.raises(DatasetError, match=r"no column `order_id`; did you mean `orderid`\?"):
        recorded("p", PAYMENTS, pa.table({"orderid": [1], "at": at}), arrival="x", time_unit="ms")
    table = pa.table({"order_id": ["x"], "at": at})
    with pytest.raises(DatasetError, match="does not fit its `schema`"):
        recorded("p", PAYMENTS, table, arrival="x", time_unit="ms")


def test_every_stream_has_one_recording_and_no_other_is_given() -> None:
    table = pa.table({"id": [1]})
    with pytest.raises(DatasetError) as caught:
        check_streams(JOB, {"o": table, "q": table}, {"o": "idd", "x": "id"})
    assert str(caught.value) == (
        "there is no recording of stream `p`; `q` is no stream of the job; it has `o`, `p`; "
        "stream `o` has no column `idd` for its key; did you mean `id`?; "
        "a key is named for `x`, which has no recording"
    )


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (("came", pa.array(["a"])), "column `came` of the recording of stream `p` says when a row"),
        (("came", pa.array([1.5])), "must be an integer or a timestamp, got double; name another"),
        (("came", pa.nulls(1)), "must be an integer or a timestamp, got null; name another one"),
        (("order_id", pa.array([2])), "the recording of stream `p` has several columns `order_id`"),
    ],
)
def test_a_recording_with_a_column_that_cannot_be_is_refused(column: Any, fault: str) -> None:
    at = pa.array([1], pa.timestamp("us", "UTC"))
    table = pa.table({"order_id": [1], "at": at}).append_column(*column)
    with pytest.raises(DatasetError) as caught:
        recorded("p", PAYMENTS, table, arrival="came", time_unit="ms")
    assert fault in str(caught.value)


def test_the_time_that_a_replay_takes_is_known_beforehand() -> None:
    far = pa.array([0, 7_258_118_400_000]).cast(pa.timestamp("ms", "UTC"))
    table = pa.table({"order_id": [1, 2], "at": far})
    streams = {"p": recorded("p", PAYMENTS, table, arrival="arrival", time_unit="ms")}
    assert seconds_of(streams, 2.0) == 3_629_059_200
    assert seconds_of(streams, None) == 0
    empty = {"p": recorded("p", PAYMENTS, table[:0], arrival="arrival", time_unit="ms")}
    assert seconds_of(empty, 1.0) == 0

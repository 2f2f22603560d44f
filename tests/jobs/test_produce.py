"""Recordings as rows that arrive: their order, their pace, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="rows are written through Spark")

from recalljoin.errors import DatasetError
from recalljoin.jobs.job_file import parse_job
from recalljoin.jobs.produce import check_streams, recorded
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


def test_a_recording_that_does_not_fit_is_refused() -> None:
    at = pa.array([1], pa.timestamp("us", "UTC"))
    with pytest.raises(DatasetError, match=r"no column `order_id`; did you mean `orderid`\?"):
        recorded("p", PAYMENTS, pa.table({"orderid": [1], "at": at}), arrival="x", time_unit="ms")
    table = pa.table({"order_id": ["x"], "at": at})
    with pytest.raises(DatasetError, match="does not fit its `schema`"):
        recorded("p", PAYMENTS, table, arrival="x", time_unit="ms")


def test_every_stream_has_one_recording_and_no_other_is_given() -> None:
    with pytest.raises(DatasetError) as caught:
        check_streams(JOB, {"o": 1, "q": 2})
    assert str(caught.value) == (
        "there is no recording of stream `p`; `q` is no stream of the job; it has `o`, `p`"
    )

"""Waits of results are found from when files came, batches began, and the sink had them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.inputs import Input
from benchmarks.spark_latency import PARTS, Arrivals, split

if TYPE_CHECKING:
    from pathlib import Path

US = pa.timestamp("us", "UTC")


def came(folder: Path, files: list[tuple[float, list[int], list[float]]]) -> Arrivals:
    """A stream of files: when each came, its times, and its values."""
    arrivals = Arrivals(Input(10, 1))
    for at, ts, values in files:
        columns = {"ts": pa.array(np.array(ts) * 1000).cast(US), "value": values}
        pq.write_table(pa.table(columns), folder / "file.parquet")
        arrivals.add(folder / "file.parquet", at)
    return arrivals


@pytest.fixture
def arrivals(tmp_path: Path) -> dict[str, Arrivals]:
    return {
        "a": came(tmp_path, [(1.0, [100], [0.0]), (2.0, [1200], [1.0])]),
        "b": came(tmp_path, [(1.5, [110], [0.0]), (3.0, [1300], [1.0])]),
    }


BATCHES = [
    (
        7,
        4.5,
        pa.table(
            {
                "ats": pa.array([100_000]).cast(US),
                "avalue": [0.0],
                "bts": pa.array([110_000]).cast(US),
                "bvalue": [0.0],
            }
        ),
    )
]


def test_a_result_waits_for_the_slower_stream_then_for_its_batch_then_for_the_sink(
    arrivals: dict[str, Arrivals],
) -> None:
    # Its time is 110, so K = 1000 lets it go when both streams have come to 1110: at 3.0.
    waits = split(BATCHES, {7: 3.75}, arrivals, 1000)
    assert {name: wait.tolist() for name, wait in waits.items()} == {
        "came": [1.5],
        "total": [3.0],
        "for K": [1.5],
        "for the batch": [0.75],
        "processing": [0.75],
    }


def test_results_at_once_wait_for_no_tuples(arrivals: dict[str, Arrivals]) -> None:
    waits = split(BATCHES, {7: 1.25}, arrivals, 0)
    # The batch has begun before the member came, and found it all the same.
    assert [waits[part].tolist() for part in PARTS] == [[0.0], [0.0], [3.0]]

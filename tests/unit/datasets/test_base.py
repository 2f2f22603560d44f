"""What all data sets have in common, on a tiny one whose rows can be read off."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recalljoin.datasets import (
    Dataset,
    ReadReport,
    Recording,
    SimulatedMatch,
    make_syn_x3,
    make_syn_x4,
)
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

TINY = Recording(
    name="tiny",
    query="SELECT * FROM s1 [1 SEC], s2 [1 SEC]",
    tables={
        "s1": pa.table({"arrival": [1, 2, 3, 4, 5], "ts": [1, 0, 3, 2, 5]}),
        "s2": pa.table({"arrival": pa.array([], pa.int64()), "ts": pa.array([], pa.int64())}),
    },
    report=ReadReport(5),
    block_rows=2,
)

EVERY_KIND: list[Dataset] = [
    TINY,
    make_syn_x3(1, duration=5_000, block_rows=70),
    make_syn_x4(1, duration=5_000, block_rows=70),
    SimulatedMatch(seed=1, duration=5_000, block_length=700),
]


@pytest.mark.parametrize("dataset", EVERY_KIND, ids=lambda dataset: dataset.name)
class TestEveryDataset:
    def test_follows_the_protocol(self, dataset: Dataset) -> None:
        assert isinstance(dataset, Dataset)

    def test_every_table_starts_with_both_times_in_arrival_order(self, dataset: Dataset) -> None:
        for stream in dataset.streams:
            table = dataset.table(stream)
            assert table.schema.names[:2] == ["arrival", "ts"]
            assert table.schema == dataset.schema(stream)
            arrival = table["arrival"].to_pylist()
            assert arrival == sorted(arrival)

    def test_blocks_made_last_to_first_are_the_table(self, dataset: Dataset) -> None:
        for stream in dataset.streams:
            backwards = [
                dataset.block(stream, index) for index in reversed(range(dataset.blocks(stream)))
            ]
            joined = pa.Table.from_batches(backwards[::-1], schema=dataset.schema(stream))
            assert joined.equals(dataset.table(stream))

    def test_a_copy_sent_to_another_process_makes_the_same_rows(self, dataset: Dataset) -> None:
        copy = pickle.loads(pickle.dumps(dataset))
        assert copy.table("s1").equals(dataset.table("s1"))

    def test_written_files_hold_the_tables_and_say_whether_they_are_simulated(
        self, dataset: Dataset, tmp_path: Path
    ) -> None:
        paths = dataset.write(tmp_path / "new" / "folder")
        assert [path.name for path in paths] == [f"{name}.parquet" for name in dataset.streams]
        for stream, path in zip(dataset.streams, paths, strict=True):
            written = pq.read_table(path)
            assert written.equals(dataset.table(stream))
            assert written.schema.metadata == {
                b"recalljoin.dataset": dataset.name.encode(),
                b"recalljoin.simulated": str(dataset.simulated).lower().encode(),
            }

    def test_its_query_names_all_its_streams(self, dataset: Dataset) -> None:
        for stream in dataset.streams:
            assert f"{stream} [" in dataset.query


def test_a_recording_is_cut_into_blocks_of_the_given_size() -> None:
    assert TINY.blocks("s1") == 3
    assert [TINY.block("s1", index)["ts"].to_pylist() for index in range(3)] == [
        [1, 0],
        [3, 2],
        [5],
    ]
    assert TINY.blocks("s2") == 0


@pytest.mark.parametrize("index", [-1, 3])
def test_a_block_that_does_not_exist_is_refused(index: int) -> None:
    with pytest.raises(DatasetError) as caught:
        TINY.block("s1", index)
    assert str(caught.value) == (
        f"`index` must be in [0, 3) for stream 's1' of tiny, got {index}; "
        "`blocks('s1')` tells the number of blocks"
    )


@pytest.mark.parametrize("ask", ["block", "table", "schema", "blocks"])
def test_a_stream_that_does_not_exist_is_refused(ask: str) -> None:
    arguments = ("s3", 0) if ask == "block" else ("s3",)
    with pytest.raises(DatasetError) as caught:
        getattr(TINY, ask)(*arguments)
    assert str(caught.value) == "`stream` must be one of s1, s2 in tiny, got 's3'"


def test_generated_data_is_simulated_and_recorded_data_is_not() -> None:
    assert [dataset.simulated for dataset in EVERY_KIND] == [False, True, True, True]


def test_a_report_is_one_readable_line() -> None:
    report = ReadReport(12, skipped={"ball": 2, "referee": 1}, rejected={"not JSON": 1})
    assert str(report) == "12 rows kept; skipped 3 (2 ball, 1 referee); rejected 1 (1 not JSON)"
    assert str(ReadReport(3)) == "3 rows kept"

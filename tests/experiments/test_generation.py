"""Spark's tasks make the rows that the generators make, however many tasks there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from recalljoin.datasets import Dataset, SimulatedMatch, make_syn_x3, make_syn_x4
from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETS: dict[str, Dataset] = {
    "x3": make_syn_x3(7, duration=30_000, delay_step=50, block_rows=700),
    "x4": make_syn_x4(7, duration=20_000, block_rows=999),
    "soccer": SimulatedMatch(seed=7, duration=20_000, block_length=3_000),
}


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("name", SETS)
def test_the_rows_and_their_order_are_the_same_for_any_number_of_partitions(
    spark: SparkSession, tmp_path: Path, name: str, partitions: int
) -> None:
    from recalljoin.experiments import write_dataset

    dataset = SETS[name]
    paths = write_dataset(spark, dataset, tmp_path / "out", partitions=partitions)
    assert list(paths) == list(dataset.streams)
    for stream, path in paths.items():
        parts = sorted(path.glob("*.parquet"))
        assert len(parts) == min(partitions, dataset.blocks(stream))
        table = pq.read_table(path)
        expected = dataset.table(stream)
        assert table.num_rows == expected.num_rows > 0
        assert table.column_names == expected.column_names
        for column in table.column_names:
            assert table[column].to_pylist() == expected[column].to_pylist()


def test_beside_the_streams_are_their_query_and_what_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    from recalljoin.experiments import write_dataset

    dataset = SETS["soccer"]
    paths = write_dataset(spark, dataset, tmp_path)
    assert (tmp_path / "query.sql").read_text() == f"{dataset.query}\n"
    label = json.loads((tmp_path / "dataset.json").read_text())
    assert label["recalljoin.dataset"] == "soccer_simulated"
    assert label["recalljoin.simulated"] is True
    assert "seed=7" in label["settings"]
    # The files say it themselves, should they be moved elsewhere.
    (arrival, *_) = spark.read.parquet(str(paths["s1"])).schema.fields
    assert arrival.metadata == {
        "recalljoin.dataset": "soccer_simulated",
        "recalljoin.simulated": True,
    }


def test_what_is_there_is_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    from recalljoin.experiments import write_dataset

    (tmp_path / "s2.parquet").mkdir()
    with pytest.raises(DatasetError, match=r"s2.parquet exists already; name another folder"):
        write_dataset(spark, SETS["x3"], tmp_path)


def test_generated_streams_can_be_evaluated_from_their_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    from recalljoin.experiments import Setup, evaluate, write_dataset
    from recalljoin.quality.adaptive import true_results
    from tests.experiments.bound import bound_arrivals

    dataset = SETS["x3"]
    paths = write_dataset(spark, dataset, tmp_path, partitions=3)
    record = evaluate(dataset.query, paths, Setup(policy="none"), spark=spark)
    query, arrivals = bound_arrivals(
        dataset.query, {stream: dataset.table(stream) for stream in dataset.streams}
    )
    assert record.n_true == true_results(query, arrivals).total > record.n_produced

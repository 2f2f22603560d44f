"""Data sets made by Spark's tasks: block by block, the same rows however the blocks are dealt out.

A block of a data set depends on its number alone, so any task can make any block. Blocks stay in
order: within a file, and from file to file, rows are in order of arrival.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from recalljoin.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from recalljoin.datasets import Dataset

QUERY_FILE, LABEL_FILE = "query.sql", "dataset.json"


@dataclass(frozen=True)
class _Maker:
    dataset: Dataset
    stream: str

    def make(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A function for mapInArrow that makes blocks from their numbers."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.dataset.block(self.stream, number)


def make_frame(
    spark: SparkSession, dataset: Dataset, stream: str, *, partitions: int | None = None
) -> DataFrame:
    """One stream of a data set, its rows in order of arrival.

    Parameters
    ----------
    spark
        The session that makes the rows.
    dataset
        The data set.
    stream
        Name of the stream.
    partitions
        Number of tasks that make the blocks, and of files written; by default one for each core.
        It changes neither the rows nor their order.
    """
    n = dataset.blocks(stream)
    tasks = partitions or spark.sparkContext.defaultParallelism
    numbers = spark.range(0, n, 1, min(tasks, max(n, 1)))
    schema = from_arrow_schema(dataset.schema(stream))
    made = numbers.mapInArrow(_Maker(dataset, stream).make, schema)
    # Spark keeps this metadata in the files, beside the column: readers can tell what the rows are.
    first, *others = made.columns
    return made.select(sf.col(first).alias(first, metadata=_label(dataset)), *others)


def write_dataset(
    spark: SparkSession, dataset: Dataset, directory: str | Path, *, partitions: int | None = None
) -> dict[str, Path]:
    """Write every stream as a folder of Parquet files (``s1.parquet``, ...) in arrival order.

    Beside the folders are the query that belongs to the data set (``query.sql``), and the name and
    settings of the data set (``dataset.json``).

    Returns
    -------
    dict
        For each stream its folder.

    Raises
    ------
    DatasetError
        When one of the folders exists already.
    """
    folder = Path(directory)
    paths = {stream: folder / f"{stream}.parquet" for stream in dataset.streams}
    there = [str(path) for path in paths.values() if path.exists()]
    if there:
        message = f"{', '.join(there)} exists already; name another folder or remove it"
        raise DatasetError(message)
    folder.mkdir(parents=True, exist_ok=True)
    for stream, path in paths.items():
        frame = make_frame(spark, dataset, stream, partitions=partitions)
        frame.write.parquet(str(path.resolve()))
    (folder / QUERY_FILE).write_text(dataset.query + "\n", encoding="utf-8")
    label = {**_label(dataset), "settings": repr(dataset)}
    (folder / LABEL_FILE).write_text(json.dumps(label, indent=1) + "\n", encoding="utf-8")
    return paths


def _label(dataset: Dataset) -> dict[str, str | bool]:
    return {"recalljoin.dataset": dataset.name, "recalljoin.simulated": dataset.simulated}

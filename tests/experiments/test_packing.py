"""Inputs leave Spark's tasks in any order and are put together as they were."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.experiments.files import FILE, START
from recalljoin.experiments.packing import packed, unpacked

SCHEMA = pa.schema({"n": pa.int64()})


def rows(numbers: range, file: str, start: int) -> pa.RecordBatch:
    n = len(numbers)
    return pa.record_batch({"n": list(numbers), FILE: [file] * n, START: [start] * n})


def test_rows_are_in_the_order_of_files_and_of_pieces_within_files() -> None:
    # Two tasks; the first has two pieces of different files, one of them in two batches.
    one = [rows(range(4, 6), "f1", 900), rows(range(6, 8), "f1", 900), rows(range(8, 9), "f2", 4)]
    two = [rows(range(9, 12), "f2", 70), rows(range(4), "f1", 4)]
    pieces = [*packed(0)(one), *packed(0)(two)]
    random.Random(5).shuffle(pieces)
    (table,) = unpacked(pieces, [SCHEMA])
    assert table["n"].to_pylist() == list(range(12))


def test_a_batch_with_rows_of_several_files_is_taken_apart() -> None:
    batch = pa.Table.from_batches([rows(range(2, 5), "g", 4), rows(range(2), "f", 4)])
    pieces = packed(0)(batch.combine_chunks().to_batches())
    (table,) = unpacked(pieces, [SCHEMA])
    assert table["n"].to_pylist() == [0, 1, 2, 3, 4]


def test_inputs_are_told_apart_and_may_be_empty() -> None:
    batch = pa.record_batch({"n": [7, 8]})
    tables = unpacked(packed(1)([batch]), [SCHEMA, SCHEMA])
    assert [table["n"].to_pylist() for table in tables] == [[], [7, 8]]

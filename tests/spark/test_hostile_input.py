"""Input as it should not be: every row is joined as it is, or refused and counted."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LONG = 10_000_000
SECOND = 1_700_000_000_000
"""A time of our days, in milliseconds."""
MANY = (
    f'{{"ts": {SECOND}, "key": 1.0, "text": "one"}}',
    f'{{"ts": {SECOND + 1}, "key": NaN, "text": "not a number"}}',
    f'{{"ts": {SECOND + 2}, "key": null, "text": "no key"}}',
    '{"key": 1.0, "text": "no time"}',
    '{"ts": "yesterday", "key": 1.0, "text": "a word for a time"}',
    "not JSON at all",
    "",
    f'{{"ts": {2**63 - 1}, "key": 1.0, "text": "the end of time"}}',
    f'{{"ts": {-(2**63)}, "key": 1.0, "text": "the beginning of time"}}',
    f'{{"ts": {SECOND + 200 * 365 * 86_400_000}, "key": 1.0, "text": "in 200 years"}}',
    f'{{"ts": {SECOND + 3}, "key": 2.0, "text": "twice"}}',
    f'{{"ts": {SECOND + 3}, "key": 2.0, "text": "twice"}}',
    f'{{"ts": {SECOND + 4}, "key": 3.0, "text": "{"x" * LONG}"}}',
)


def parsed(spark: SparkSession, folder: Path, *files: tuple[str, ...]) -> DataFrame:
    """A stream of JSON in lines of text, as it may come from a topic."""
    folder.mkdir()
    for n, lines in enumerate(files):
        (folder / f"{n}.txt").write_text("\n".join(lines))
    texts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    schema = "ts bigint, key double, text string"
    return texts.selectExpr(f"from_json(value, '{schema}') AS row").select("row.*")


def test_rows_are_joined_as_they_are_or_refused_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    more = tuple(f'{{"ts": {SECOND + n}, "key": 9.0}}' for n in range(5, 15))
    left, right = (parsed(spark, tmp_path / name, MANY, more) for name in ("l", "r"))
    joined = rj.join(
        rj.Stream("l", left, window="5 seconds"),
        rj.Stream("r", right, window="5 seconds"),
        on="l.key = r.key",
        select="l.key, length(l.text) AS n, substring(r.text, 1, 12) AS text",
        k=0,
        control_log=str(tmp_path / "log"),
        flush=True,
        cells=2,
    )
    run(joined, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    found = Counter((str(row["key"]), row["n"], row["text"]) for row in rows)
    assert found == Counter({
        ("1.0", 3, "one"): 1,
        ("nan", 12, "not a number"): 1,
        ("2.0", 5, "twice"): 4,
        ("3.0", LONG, "x" * 12): 1,
        ("9.0", None, None): 100,
    })  # fmt: skip
    log = rj.open(str(tmp_path / "log"))
    last = log.progress().orderBy("batch").collect()
    refused: Counter[str] = Counter()
    for row in last:
        refused.update(row["refused_by"])
    assert refused == Counter({
        f"{name}: {reason}": n
        for name in ("l", "r")
        for reason, n in (("null time", 4), ("time out of range", 2),
                          ("time far ahead of its stream", 1))
    })  # fmt: skip
    texts = {row["l"]["text"] for row in log.refused("l").collect()}
    assert {"no time", "the end of time", "the beginning of time", "in 200 years"} <= texts


def test_twelve_streams_join(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    spark.range(6).selectExpr("id AS ts", "id % 3 AS a").write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema("ts bigint, a bigint").parquet(str(tmp_path / "in"))
    names = [f"s{n}" for n in range(12)]
    how: dict[str, Any] = {"k": 0, "flush": True, "cells": 2}
    joined = rj.join(
        *(rj.Stream(name, frame, window=100) for name in names),
        on=" AND ".join(f"{one}.a = {other}.a" for one, other in pairwise(names)),
        select=", ".join(f"{name}.ts AS {name}" for name in names),
        control_log=str(tmp_path / "log"),
        **how,
    )
    run(joined, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    # Each of three keys has two tuples in each of twelve streams.
    assert len(rows) == len({tuple(row) for row in rows}) == 3 * 2**12
    assert all(reduce(lambda a, b: a if a == b else -1, (row[n] % 3 for n in names)) >= 0
               for row in rows)  # fmt: skip

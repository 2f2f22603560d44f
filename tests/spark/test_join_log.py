"""A join is read from its control log, or found from its query."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import recalljoin as rj
from recalljoin.errors import InvalidSetting
from recalljoin.spark.batch_planner import CONTROL_LOG
from recalljoin.spark.control_log import ControlLog

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "ts bigint, a bigint"


def test_a_folder_without_a_control_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").touch()
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidSetting) as error:
            rj.open(folder)
        assert str(error.value) == (
            f"`control_log` {str(folder)!r} holds nothing that a join has written; give the folder "
            "that the join was given as `control_log`"
        )


def test_what_is_neither_a_folder_nor_a_query_is_refused() -> None:
    number: Any = 7
    with pytest.raises(InvalidSetting, match="the folder of a control log or a StreamingQuery"):
        rj.open(number)


def test_a_join_that_has_not_ended_a_batch_can_be_opened(tmp_path: Path) -> None:
    ControlLog(str(tmp_path)).own("a query")
    assert repr(rj.open(tmp_path)) == f"<JoinLog {str(tmp_path)!r}: no batch yet>"


@pytest.mark.parametrize(
    ("folder", "address"),
    [
        ("/logs/orders", "/logs/orders"),
        ("s3://bucket/orders", "s3://bucket/orders"),
        ("s3://key:secret@bucket/orders", None),
    ],
)
def test_offsets_tell_no_password(folder: str, address: str | None) -> None:
    # Offsets stand in the checkpoint and in the progress, which many may read.
    assert ControlLog(folder).address == address


def test_a_query_whose_log_must_not_be_told_asks_for_the_folder() -> None:
    # What Spark reports of such a query; a store that asks for a password is not at hand.
    progress = {"sources": [{"endOffset": json.dumps({CONTROL_LOG: None})}]}
    query: Any = SimpleNamespace(name="orders", recentProgress=[progress])
    with pytest.raises(InvalidSetting, match="query orders does not say where its control log is"):
        rj.open(query)


def test_a_relative_folder_is_told_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ControlLog("log").address == str(tmp_path / "log")


def test_without_a_session_one_is_asked_for(tmp_path: Path) -> None:
    ControlLog(str(tmp_path)).own("a query")
    # In a process of its own: other tests may have started a session here.
    program = "import sys, recalljoin as rj\n"
    program += "try:\n    rj.open(sys.argv[1]).progress()\n"
    program += "except rj.InvalidSetting as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "there is no Spark session; give one, as in rj.open(control_log, spark=spark)"
    )


def write(spark: SparkSession, folder: Path, first: int) -> None:
    """One file for either stream, with the times from ``first`` on."""
    for name in "lr":
        rows = spark.range(first, first + 10).selectExpr("id AS ts", "id % 3 AS a")
        rows.coalesce(1).write.mode("append").parquet(str(folder / name))


def streams(spark: SparkSession, folder: Path) -> list[rj.Stream]:
    return [
        rj.Stream(name, spark.readStream.schema(SCHEMA).parquet(str(folder / name)), window=5)
        for name in "lr"
    ]


def run(frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


@pytest.mark.spark
def test_a_query_leads_to_its_log_even_a_temporary_one_and_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    arrived = []
    for first in (0, 10):
        write(spark, tmp_path, first)
        joined = rj.join(*streams(spark, tmp_path), on="l.a = r.a", k="1 ms")
        opened = rj.open(run(joined, tmp_path / "checkpoint"), spark=spark)
        assert "recalljoin-" in opened.control_log
        assert repr(opened).startswith(f"<JoinLog {opened.control_log!r}: streams l, r; batch ")
        assert "; K 1 ms; recall " in repr(opened)
        arrived.append(sum(row["arrived"] for row in opened.progress().collect()))
    # Each run had a temporary folder of its own.
    assert arrived == [20, 20]


@pytest.mark.spark
def test_a_query_that_has_not_ended_a_batch_cannot_say_where_its_log_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(spark, tmp_path, 0)
    joined = rj.join(*streams(spark, tmp_path), on="l.a = r.a", k=0)
    # A batch takes longer than it takes to ask.
    query = joined.writeStream.format("noop").queryName("orders").start()
    try:
        with pytest.raises(InvalidSetting, match="query orders has not ended its first batch"):
            rj.open(query)
        query.processAllAvailable()
        assert rj.open(query).progress().count() > 0
    finally:
        query.stop()


@pytest.mark.spark
def test_a_query_without_a_join_or_with_two_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, tmp_path, 0)
    plain = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "l"))
    with pytest.raises(InvalidSetting, match=r"query .* has no join of recalljoin in it"):
        rj.open(run(plain, tmp_path / "plain"))
    one, other = (
        rj.join(
            *streams(spark, tmp_path),
            on="l.a = r.a",
            k=0,
            name=name,
            control_log=str(tmp_path / name),
        )
        for name in ("one", "other")
    )
    with pytest.raises(InvalidSetting) as error:
        rj.open(run(one.unionAll(other), tmp_path / "both"))
    assert str(error.value).endswith(
        "has 2 joins in it; give the `control_log` of one: "
        f"{tmp_path / 'one'}, {tmp_path / 'other'}"
    )

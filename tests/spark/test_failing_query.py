"""Queries that fail say why in their first line, and go on from their checkpoint."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.test_chained import N_FILES, Three, all_results, recorded
from tests.spark.test_running_query import Inputs, pairs
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def failed(frame: DataFrame, folder: Path) -> str:
    """The first line of what a query says when it fails."""
    query = started(frame, folder)
    with pytest.raises(Exception, match=r"recalljoin\.errors"):
        query.awaitTermination()
    return str(query.exception()).partition("\n")[0]


def started(frame: DataFrame, folder: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def test_what_a_query_says_begins_with_our_sentence_wherever_it_fails(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 1, 2)
    inputs.write("s2", 1, 2)
    functions = rj.Functions()

    @functions.register(returns="double")
    def broken(one: NDArray[np.int64], _two: NDArray[np.int64]) -> Any:
        message = f"cannot do this with {one.dtype}"
        raise ValueError(message)

    on = "s1.a = s2.a AND broken(s1.ts, s2.ts) > 0"
    line = failed(inputs.joined(k=0, on=on, functions=functions, flush=True), tmp_path)
    # In a cell, behind 67 characters of Spark's.
    assert line.endswith(
        ": recalljoin.errors.FunctionError: function `broken` failed: ValueError: cannot do this "
        "with int64"
    )
    assert line.index("recalljoin.errors") < 100
    # In the control source: the log belongs to the query above, which has another checkpoint.
    line = failed(inputs.joined(k=0), tmp_path / "other")
    assert ": recalljoin.errors.InvalidSetting: `control_log` '" in line
    assert line.index("recalljoin.errors") < 130


def test_a_log_that_cannot_be_written_stops_the_query_and_a_restart_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 100, 110)
    inputs.write("s2", 105)
    run(inputs.joined(k=0), tmp_path)
    inputs.write("s1", 120)
    inputs.write("s2", 130)
    shutil.move(tmp_path / "log" / "reports", tmp_path / "reports")
    (tmp_path / "log" / "reports").write_text("in the way")
    line = failed(inputs.joined(k=0, flush=True), tmp_path)
    assert "recalljoin.errors.ControlLogError: `control_log` '" in line
    assert "once the folder can be used again, start the query again from its checkpoint" in line
    (tmp_path / "log" / "reports").unlink()
    shutil.move(tmp_path / "reports", tmp_path / "log" / "reports")
    run(inputs.joined(k=0, flush=True), tmp_path)
    every = [(one, other) for one in (100, 110, 120) for other in (105, 130)]
    assert pairs(spark, tmp_path) == every


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of half a megabyte."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_under_the_checkpoint_stops_the_query_and_a_restart_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Inputs(spark, tmp_path)
    inputs.write("s1", 100, 110)
    inputs.write("s2", 105)
    with small_disk(tmp_path / "checkpoint"):
        run(inputs.joined(k=0), tmp_path)
        inputs.write("s1", 120)
        inputs.write("s2", 130)
        filler = tmp_path / "checkpoint" / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free))
        with pytest.raises(Exception, match="No space left on device"):
            started(inputs.joined(k=0, flush=True), tmp_path).awaitTermination()
        filler.unlink()
        run(inputs.joined(k=0, flush=True), tmp_path)
    every = [(one, other) for one in (100, 110, 120) for other in (105, 130)]
    assert pairs(spark, tmp_path) == every


class Sink:
    """A folder with a file a batch, that fails when each of some batches comes for the first time.

    Half of them fail before anything is written, half after.
    """

    def __init__(self, folder: Path, *failing: int) -> None:
        self.folder, self.failing = folder, set(failing)
        folder.mkdir()

    @property
    def write(self) -> Callable[[DataFrame, int], None]:
        def write(rows: DataFrame, batch: int) -> None:
            fails = batch in self.failing
            self.failing.discard(batch)
            if fails and batch % 2:
                message = "the sink is away"
                raise ConnectionError(message)
            pq.write_table(rows.toArrow(), self.folder / f"{batch:04d}.parquet")
            if fails:
                message = "the sink is away again"
                raise ConnectionError(message)

        return write

    def rows(self) -> list[tuple[int, ...]]:
        table = pa.concat_tables([pq.read_table(file) for file in sorted(self.folder.iterdir())])
        return sorted(tuple(row.values())[:3] for row in table.to_pylist())


def test_a_sink_that_fails_for_a_while_gets_every_result_of_a_join_of_a_join_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Three(spark, tmp_path)
    times = recorded(5)
    inputs.write_all(times)
    sink = Sink(tmp_path / "sink", 0, 3, N_FILES, N_FILES + 1, N_FILES + 2)
    n_failures = 0
    for _ in range(9):
        query = (
            inputs.chained()
            .writeStream.foreachBatch(sink.write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        with suppress(Exception):
            query.awaitTermination()
        if query.exception() is None:
            break
        assert "the sink is away" in str(query.exception())
        n_failures += 1
    assert n_failures == 5
    assert sink.rows() == all_results(times)

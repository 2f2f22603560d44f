"""What Spark's Python processes load, and how soon they answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle

import recalljoin as rj
from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream
from recalljoin.spark.batch_planner import BatchPlanner, ControlPlan
from recalljoin.spark.cells import Layout, make_grid
from recalljoin.spark.control import ControlReader
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.packing import Router
from recalljoin.spark.processor import CellProcessor
from recalljoin.spark.routing import routing
from recalljoin.spark.sealed import Sealed
from recalljoin.spark.starting import _STARTED, STARTS, quick_start
from recalljoin.spark.workers import _connection, settle
from tests.spark.local_cells import LocalJoin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("x", pa.float64())])
QUERY = Query(
    streams=[Stream("a", time="ts", window=10), Stream("b", time="ts", window=10)],
    condition="a.key = b.key AND abs(a.x - b.x) < 1",
)
BOUND = QUERY.bind({"a": SCHEMA, "b": SCHEMA})
LARGE = ("pandas", "sqlglot", "numba", "pyarrow.parquet", "scipy", "pyspark.pandas")
LOADED = f"""
import sys
from pyspark import cloudpickle
made = cloudpickle.loads(sys.stdin.buffer.read())
print([name for name in {LARGE!r} if name in sys.modules])
"""


def loaded_by(value: Any) -> list[str]:
    """Large libraries that a new process has loaded when it has received a value."""
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    run = subprocess.run(
        [sys.executable, "-c", LOADED], input=content, capture_output=True, check=True
    )
    names: list[str] = json.loads(run.stdout.decode().replace("'", '"'))
    return names


def test_a_routing_task_loads_no_kernels_no_policies_and_no_parser(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    router = Router(join.plan.query, join.plan.layout, 0)
    assert loaded_by([routing(join.plan, 0, watches=True), router]) == []
    # The measure sees what there is to see: a cell needs its kernels.
    assert "numba" in loaded_by(join.plan)


def test_a_process_that_only_asks_for_the_state_loads_nothing_large(tmp_path: Path) -> None:
    assert loaded_by(CellProcessor(LocalJoin(BOUND, 2, tmp_path).plan)) == []


def test_planning_batches_loads_no_pandas_and_no_parser(tmp_path: Path) -> None:
    settings = PolicySettings.of(BOUND)
    plan = ControlPlan(
        log=ControlLog(str(tmp_path)),
        layout=Layout(make_grid(BOUND, 1), 1),
        identity="{}",
        policy=PolicyPlan(settings, "slack"),
        horizon=HorizonPlan(settings),
    )
    assert {"pandas", "sqlglot"} & set(loaded_by(BatchPlanner(plan))) == set()
    # The processes that have a control source, but plan no batches, have less to load.
    assert loaded_by(ControlReader(Sealed.of(plan))) == []


def test_a_sealed_value_is_opened_once() -> None:
    sealed = Sealed.of([1, 2])
    assert sealed.open() == [1, 2]
    assert sealed.open() is Sealed(sealed.content).open()


def _found(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import gc

    settle()
    connection = _connection()
    asked = [each.__qualname__ for each in gc.callbacks if "acknowledge" in each.__qualname__]
    yield pa.RecordBatch.from_pydict({"found": [connection is not None], "asked": [len(asked)]})


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no quick acknowledgement")
def test_a_worker_finds_its_connection_and_acknowledges_at_once(spark: SparkSession) -> None:
    for _ in range(2):  # also in a worker's later tasks, and only once in each worker
        rows = spark.range(2, numPartitions=2).mapInArrow(_found, "found boolean, asked long")
        assert {tuple(row) for row in rows.collect()} == {(True, 1)}


def _daemons() -> set[str]:
    """Processes from which Spark forks the workers of tasks."""
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, check=True, text=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    # Workers are children of a daemon, and have its arguments.
    return {parent for parent, what in rows if what.endswith("pyspark.daemon pyspark.worker")}


def _zipped(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyspark

    yield pa.RecordBatch.from_pydict({"path": [pyspark.__file__]})


@pytest.mark.spark
def test_workers_import_what_is_installed_and_not_a_zip_file(spark: SparkSession) -> None:
    with quick_start(spark):
        ours = spark.range(1).mapInArrow(_zipped, "path string")
    theirs = spark.range(1).mapInArrow(_zipped, "path string")
    assert ours.first() == (pyspark.__file__,)
    # Nothing changes for other queries of the session, and there is something to save.
    assert ".zip" in str(theirs.first())


@pytest.mark.spark
def test_workers_that_were_started_ahead_are_used(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        spark.range(4).selectExpr("id AS ts", "id AS key").write.parquet(str(tmp_path / name))
    read = spark.readStream.schema("ts long, key long")
    frames = [rj.Stream(n, read.parquet(str(tmp_path / n)), window=1) for n in "ab"]
    _STARTED.clear()
    joined = rj.join(*frames, on="a.key = b.key", k=0, control_log=str(tmp_path / "log"))
    for thread in threading.enumerate():
        if thread.name == STARTS:
            thread.join()
    started = _daemons()
    query = (
        joined.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(p["observedMetrics"]["recalljoin"]["produced"] for p in query.recentProgress) == 4
    # Spark has a daemon for each environment; the workers of this join needed no other.
    assert _daemons() <= started


def test_outside_a_worker_there_is_no_connection() -> None:
    assert _connection() is None

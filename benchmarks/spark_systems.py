"""Systems that run on Spark over the same files, each run in a process of its own.

Besides the joins there are queries that join nothing: they say what Spark itself takes for a batch.

    python -m benchmarks.spark_systems recalljoin FOLDER --made '{"n": 100000, "n_batches": 4}'
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.inputs import Input
from benchmarks.measure import printed, processor_seconds, python_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

OURS, *OTHERS = JOINS = ("recalljoin", "spark-rocksdb", "spark-hdfs")
"""Inner joins; with "left" behind the name a left outer join, with "eager" results at once."""
DROP, PYTHON, FLOOR, SHAPE = EMPTY = (
    "drops everything",
    "an empty mapInArrow",
    "groupBy().count()",
    "a join that does nothing",
)
"""Queries over the same sources that join nothing. The last two keep a little state in RocksDB. The
last one has the stages of our join: Python tasks that read, and a stateful operator in Python."""
AS_OURS = " (files as ours)"
"""Behind the name of another system: its checkpoint is written in the way that ours is."""
CELLS = 2
COLUMN = "{stream}{column}"
"""How the results of all of them name the columns of streams."""


@dataclass(frozen=True)
class Measured:
    """One run."""

    system: str
    n_tuples: int
    n_batches: int
    start: float
    """Seconds from the start of the query until its first batch was committed."""
    seconds: float
    """Of all batches but those that warm up; the first of them starts the workers."""
    processor_seconds: float
    """Of all processes together, their start included: on a busy machine the slope of these tells
    more than that of the clock."""
    n_results: int
    n_pairs: int
    """Results that have a tuple of every stream."""
    checksum: int
    """Of these."""
    state_bytes: int
    """What Spark says the state takes in memory, at most."""
    checkpoint_bytes: int
    """What the state takes on disk at the end."""
    python_bytes: int
    """Memory of the Python processes that Spark has started, at the end; shared pages in parts."""
    median_batch: float
    """Seconds, over the later half of the batches."""
    parts: dict[str, float]
    """Milliseconds of each part of a batch, as Spark has it: medians over the later half."""
    stages: dict[str, float]
    """Of ours, seconds of each stage of all batches together."""


def session(system: str, cores: int) -> SparkSession:
    """A local session."""
    from pyspark.sql import SparkSession

    from recalljoin.spark.session import FILE_MANAGER, FILE_SYSTEM

    os.environ["PYSPARK_PYTHON"] = sys.executable
    provider = (
        "HDFSBackedStateStoreProvider"
        if system.startswith("spark-hdfs")
        else "RocksDBStateStoreProvider"
    )
    state = "spark.sql.streaming.stateStore"
    builder = SparkSession.builder.master(f"local[{cores}]")
    if system.endswith(AS_OURS):
        builder = builder.config(FILE_MANAGER, FILE_SYSTEM)
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(cores) if system.startswith("spark-") else "1")
        .config(
            f"{state}.providerClass", f"org.apache.spark.sql.execution.streaming.state.{provider}"
        )
        .config(f"{state}.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def under_test(
    system: str, frames: dict[str, DataFrame], work: Path, made: Input, *, cells: int
) -> DataFrame:
    """The query of a system."""
    from pyspark.sql import functions as sf

    system = system.removesuffix(AS_OURS)
    name, *kind = system.split()
    if name == OURS:
        return _ours(frames, work, kind, made, cells=cells)
    if name in OTHERS:
        return _sparks_own(frames, "left" if "left" in kind else "inner", made)
    together = reduce(lambda one, other: one.unionAll(other), frames.values())
    if system == PYTHON:
        return together.mapInArrow(lambda batches: batches, together.schema)
    if system == FLOOR:
        return together.groupBy((sf.col("key") % 2).alias("key")).count()
    if system == SHAPE:
        return _doing_nothing(frames)
    return together


def _doing_nothing(frames: dict[str, DataFrame]) -> DataFrame:
    """The stages of our join: each task sends on one row, and the state is written once a batch."""
    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    import recalljoin as rj

    rj.prepare(next(iter(frames.values())).sparkSession)

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        n = sum(len(batch) for batch in batches)
        yield pa.RecordBatch.from_pydict({"key": pa.array([0]), "n": pa.array([n])})

    class Nothing(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._values = handle.getMapState("cells", "place bigint", "content binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002 - Spark's names
            n = sum(int(frame["n"].sum()) for frame in rows)
            self._values.updateValue((0,), (n.to_bytes(8, "big"),))
            yield pa.table({"key": [0], "n": [n]}).to_pandas()

        def close(self) -> None: ...

    schema = "key bigint, n bigint"
    read = [frame.mapInArrow(counted, schema) for frame in frames.values()]
    together = reduce(lambda one, other: one.unionAll(other), read)
    return together.groupBy("key").transformWithStateInPandas(Nothing(), schema, "Append", "None")


def _ours(
    frames: dict[str, DataFrame], work: Path, kind: list[str], made: Input, *, cells: int
) -> DataFrame:
    import recalljoin as rj

    rj.prepare(next(iter(frames.values())).sparkSession)
    named = (f"{s}.{name} AS {s}{name}" for s in frames for name in made.columns)
    return rj.join(
        *(rj.Stream(name, frame, window=made.window) for name, frame in frames.items()),
        on=made.condition,
        select=", ".join(named),
        how="left" if "left" in kind else "inner",
        emit="eager" if "eager" in kind else "ordered",
        k=made.delay,
        cells=cells,
        control_log=str(work / "log"),
    )


def _sparks_own(frames: dict[str, DataFrame], how: str, made: Input) -> DataFrame:
    from pyspark.sql import functions as sf

    reach = sf.expr(f"INTERVAL {made.window} MILLISECONDS")

    def near(one: str, other: str) -> Column:
        one_ts, other_ts = sf.col(f"{one}ts"), sf.col(f"{other}ts")
        return (one_ts >= other_ts - reach) & (other_ts >= one_ts - reach)

    joined: DataFrame | None = None
    before: list[str] = []
    at = "key" if made.kind == "equal" else "cell"
    for name, frame in frames.items():
        # Without any delay Spark forgets tuples that lie on the edge of the window a moment too
        # early.
        own = frame.select(
            *(sf.col(column).alias(name + column) for column in made.columns)
        ).withWatermark(f"{name}ts", f"{made.delay + 10} milliseconds")
        if made.kind != "equal":
            cell = sf.expr(made.cell(name))
            if joined is None:
                cell = sf.explode(sf.array(*(cell + step for step in made.around)))
            own = own.withColumn(f"{name}cell", cell)
        if joined is None:
            joined = own
        else:
            matches = sf.col(f"{before[0]}{at}") == sf.col(f"{name}{at}")
            for other in before:
                matches = matches & near(other, name)
            if made.kind != "equal":
                matches = matches & sf.expr(made.residual(COLUMN))
            joined = joined.join(own, matches, how)
            if len(before) + 1 < len(frames):
                # Spark lets only one event time go into the next join; a sum is none.
                plain = sf.col(f"{name}ts") + sf.expr("INTERVAL 0 SECONDS")
                joined = joined.withColumn(f"{name}ts", plain)
        before.append(name)
    assert joined is not None
    return joined.drop(*(f"{name}cell" for name in before))


def read(spark: SparkSession, folder: Path, made: Input, **options: int) -> DataFrame:
    """A stream of the files in a folder."""
    return spark.readStream.schema(made.schema).options(**options).parquet(str(folder))


def run(
    system: str, folder: Path, made: Input, *, cores: int, work: Path | None, files: int
) -> Measured:
    """Run one system over the input in ``folder``.

    ``work``, where checkpoint and log are, is kept if it is given; ``files`` is the number of
    batches to be read, counting from the first file.
    """
    from pyspark.sql import functions as sf

    spark = session(system, cores)
    spark.range(1).count()  # The session is there, whatever is measured.
    frames = {
        name: read(spark, folder / name / _first(files), made, maxFilesPerTrigger=2)
        for name in made.streams
    }
    kept = work is not None
    work = work or Path(tempfile.mkdtemp(dir=folder))
    tested = under_test(system, frames, work, made, cells=cores)
    is_join = system.split(maxsplit=1)[0] in JOINS
    last = f"{max(frames)}key" if is_join else tested.columns[0]
    checksum = sf.expr(made.checksum(COLUMN)) if is_join else sf.lit(0)
    counted = tested.observe(
        "results",
        sf.count(sf.lit(1)).alias("n"),
        sf.count(sf.col(last)).alias("pairs"),
        sf.coalesce(sf.sum(checksum), sf.lit(0)).alias("checksum"),
    )
    begin = time.perf_counter()
    checkpoint = work / "checkpoint"
    n_before = len(list((checkpoint / "commits").glob("[0-9]*")))
    query = (
        counted.writeStream.format("noop")
        .outputMode("update" if system.startswith(FLOOR) else "append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive and len(list((checkpoint / "commits").glob("[0-9]*"))) <= n_before:
        time.sleep(0.005)
    start = time.perf_counter() - begin
    query.awaitTermination()
    progress = query.recentProgress
    with_data = [p for p in progress if p["numInputRows"] > 2 * cores][made.n_warm_up :]
    durations = [p["durationMs"]["triggerExecution"] / 1000 for p in with_data]
    later = with_data[len(with_data) // 2 :]
    operators = [p["stateOperators"][0] for p in progress if p["stateOperators"]]
    measured = Measured(
        system,
        len(frames) * made.n,
        len(with_data),
        start,
        sum(durations),
        processor_seconds(os.getpid()),
        _observed(progress, "n"),
        _observed(progress, "pairs"),
        _observed(progress, "checksum"),
        max((o["memoryUsedBytes"] for o in operators), default=0),
        sum(f.stat().st_size for f in (checkpoint / "state").rglob("*") if f.is_file()),
        python_bytes(os.getpid()),
        statistics.median(durations[len(durations) // 2 :]) if durations else 0.0,
        {
            part: statistics.median(p["durationMs"].get(part, 0) for p in later)
            for part in (later[0]["durationMs"] if later else ())
        },
        _stages(work) if system.startswith(OURS) else {},
    )
    spark.stop()
    if not kept:
        shutil.rmtree(work)
    return measured


def _observed(progress: list[Any], name: str) -> int:
    return sum(p["observedMetrics"].get("results", {name: 0})[name] for p in progress)


def _first(n_batches: int) -> str:
    """A pattern for the files of the first batches; there are fewer than 10,000."""
    return (
        "*.parquet"
        if not n_batches
        else "{" + ",".join(f"{b:04d}-*" for b in range(n_batches)) + "}"
    )


def _stages(work: Path) -> dict[str, float]:
    from recalljoin.spark.control_log import ControlLog
    from recalljoin.spark.progress import progress_table

    stages: dict[str, float] = {}
    for row in progress_table(ControlLog(str(work / "log"))).to_pylist()[1:]:
        for stage, value in row["seconds"]:
            stages[stage] = stages.get(stage, 0.0) + value
    return stages


def in_process(
    system: str,
    made: Input,
    folder: Path,
    *,
    cores: int = CELLS,
    work: Path | None = None,
    files: int = 0,
    timeout: float | None = None,
) -> Measured:
    """Run one system over an input in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.spark_systems", system, str(made.write(folder)),
        "--made", json.dumps(asdict(made)), "--cores", str(cores),
        "--files", str(files), *(() if work is None else ("--work", str(work))),
    ]  # fmt: skip
    return Measured(**printed(command, timeout=timeout))


def same_results(runs: Iterable[Measured], count: str = "n_results") -> None:
    """See that all systems have found the same results, or the same pairs."""
    found = {one.system: (getattr(one, count), one.checksum) for one in runs}
    assert len(set(found.values())) == 1, found


def main() -> None:
    """Run one system, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--made", type=json.loads, required=True)
    parser.add_argument("--cores", type=int, default=CELLS)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--files", type=int, default=0)
    given = parser.parse_args()
    measured = run(
        given.system,
        given.folder,
        Input(**given.made),
        cores=given.cores,
        work=given.work,
        files=given.files,
    )
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()

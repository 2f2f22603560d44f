"""Systems that run on Spark over the same files, each run in a process of its own.

The streams are in order, and are joined on a key within a window each way. Besides the joins there
are queries that join nothing: they say what Spark itself takes for a batch.

    python -m benchmarks.spark_systems recalljoin FOLDER --size 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

WINDOW = 500
"""Milliseconds, each way."""
PER_MS = 100
"""Tuples of a stream that have the same time."""
STREAMS = ("a", "b", "c")
SCHEMA = "ts timestamp, key bigint, value double"
OURS, *OTHERS = JOINS = ("recalljoin", "spark-rocksdb", "spark-hdfs")
"""Inner joins; with "left" behind the name a left outer join, with "eager" results at once."""
DROP, PYTHON, FLOOR = EMPTY = ("drops everything", "an empty mapInArrow", "groupBy().count()")
"""Queries over the same sources that join nothing. The last keeps a little state in RocksDB."""
CELLS = 2


@dataclass(frozen=True)
class Measured:
    """One run."""

    system: str
    n_tuples: int
    n_batches: int
    start: float
    """Seconds from the start of the query until its first batch was committed."""
    seconds: float
    """Of all batches but the first, which starts the workers."""
    processor_seconds: float
    """Of all processes together, their start included: on a busy machine the slope of these tells
    more than that of the clock."""
    n_results: int
    n_pairs: int
    """Results that have a tuple of every stream."""
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


@dataclass(frozen=True)
class Input:
    """Recorded streams: ``n`` tuples each, in as many batches, after a first small batch."""

    n: int
    n_batches: int
    matches: float = 1
    n_streams: int = 2
    window: int = WINDOW

    def write(self, folder: Path) -> Path:
        """Write the files, once."""
        made = folder / "-".join(f"{value:g}" for value in asdict(self).values())
        if not made.exists():
            for s, stream in enumerate(STREAMS[: self.n_streams]):
                (made / stream).mkdir(parents=True)
                for batch, table in enumerate(self._tables(np.random.default_rng(7 + s))):
                    _write(made / stream, batch, table)
        return made

    def _tables(self, random: np.random.Generator) -> Iterator[pa.Table]:
        n_keys = max(1, round(PER_MS * self.window / self.matches))
        # The first batch warms up, and is the same whatever the size.
        warm_up = 20_000
        # Not from 1970 on: Spark's first watermark lies there, and what is not after it is late.
        ts = 1_000_000 + np.arange(warm_up + self.n) // PER_MS
        keys = random.integers(0, n_keys, len(ts))
        # Tuples of one time come together.
        ends = np.linspace(warm_up, len(ts), self.n_batches + 1).astype(int) // PER_MS * PER_MS
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            yield pa.table(
                {
                    "ts": pa.array(ts[begin:end] * 1000).cast(pa.timestamp("us", "UTC")),
                    "key": pa.array(keys[begin:end]),
                    "value": pa.array(random.random(end - begin)),
                }
            )


def _write(folder: Path, batch: int, table: pa.Table) -> None:
    # Two files a batch, so that two tasks read.
    for half in range(2):
        path = folder / f"{batch:04d}-{half}.parquet"
        pq.write_table(table.slice(half * len(table) // 2, len(table) // 2 + half), path)
        date = 1_000_000_000 + 10 * batch + half
        os.utime(path, (date, date))


def session(system: str, cores: int) -> SparkSession:
    """A local session."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    provider = (
        "HDFSBackedStateStoreProvider"
        if system.startswith("spark-hdfs")
        else "RocksDBStateStoreProvider"
    )
    state = "spark.sql.streaming.stateStore"
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
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
    system: str, frames: dict[str, DataFrame], work: Path, *, cells: int, window: int
) -> DataFrame:
    """The query of a system."""
    from pyspark.sql import functions as sf

    name, *kind = system.split()
    if name == OURS:
        return _ours(frames, work, kind, cells=cells, window=window)
    if name in OTHERS:
        return _sparks_own(frames, "left" if "left" in kind else "inner", window=window)
    together = reduce(lambda one, other: one.unionAll(other), frames.values())
    if system == PYTHON:
        return together.mapInArrow(lambda batches: batches, together.schema)
    if system == FLOOR:
        return together.groupBy((sf.col("key") % 2).alias("key")).count()
    return together


def _ours(
    frames: dict[str, DataFrame], work: Path, kind: list[str], *, cells: int, window: int
) -> DataFrame:
    import recalljoin as rj

    first, *others = frames
    rj.prepare(frames[first].sparkSession)
    named = (f"{s}.{name} AS {s}{name}" for s in frames for name in ("ts", "key", "value"))
    return rj.join(
        *(rj.Stream(name, frame, window=window) for name, frame in frames.items()),
        on=" AND ".join(f"{first}.key = {other}.key" for other in others),
        select=", ".join(named),
        how="left" if "left" in kind else "inner",
        emit="eager" if "eager" in kind else "ordered",
        k=0,
        cells=cells,
        control_log=str(work / "log"),
    )


def _sparks_own(frames: dict[str, DataFrame], how: str, *, window: int) -> DataFrame:
    from pyspark.sql import functions as sf

    reach = sf.expr(f"INTERVAL {window} MILLISECONDS")

    def near(one: str, other: str) -> Column:
        one_ts, other_ts = sf.col(f"{one}ts"), sf.col(f"{other}ts")
        return (one_ts >= other_ts - reach) & (other_ts >= one_ts - reach)

    joined: DataFrame | None = None
    before: list[str] = []
    for name, frame in frames.items():
        # Without any delay Spark forgets tuples that lie on the edge of the window a moment too
        # early.
        own = frame.select(
            *(sf.col(column).alias(name + column) for column in ("ts", "key", "value"))
        ).withWatermark(f"{name}ts", "10 milliseconds")
        if joined is None:
            joined = own
        else:
            matches = sf.col(f"{before[0]}key") == sf.col(f"{name}key")
            for other in before:
                matches = matches & near(other, name)
            joined = joined.join(own, matches, how)
        before.append(name)
    assert joined is not None
    return joined


def run(
    system: str, folder: Path, n: int, *, cores: int, window: int, work: Path | None, files: int
) -> Measured:
    """Run one system over the input in ``folder``.

    ``work``, where checkpoint and log are, is kept if it is given; ``files`` is the number of
    batches to be read, counting from the first file.
    """
    from pyspark.sql import functions as sf

    spark = session(system, cores)
    spark.range(1).count()  # The session is there, whatever is measured.
    frames = {
        each.name: spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(each / _first(files)))
        for each in sorted(path for path in folder.iterdir() if path.name in STREAMS)
    }
    kept = work is not None
    work = work or Path(tempfile.mkdtemp(dir=folder))
    tested = under_test(system, frames, work, cells=cores, window=window)
    last = f"{max(frames)}key" if f"{max(frames)}key" in tested.columns else tested.columns[0]
    counted = tested.observe(
        "results", sf.count(sf.lit(1)).alias("n"), sf.count(sf.col(last)).alias("pairs")
    )
    begin = time.perf_counter()
    checkpoint = work / "checkpoint"
    n_before = len(list((checkpoint / "commits").glob("[0-9]*")))
    query = (
        counted.writeStream.format("noop")
        .outputMode("update" if system == FLOOR else "append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive and len(list((checkpoint / "commits").glob("[0-9]*"))) <= n_before:
        time.sleep(0.005)
    start = time.perf_counter() - begin
    query.awaitTermination()
    progress = query.recentProgress
    with_data = [p for p in progress if p["numInputRows"] > 2 * cores][1:]
    durations = [p["durationMs"]["triggerExecution"] / 1000 for p in with_data]
    later = with_data[len(with_data) // 2 :]
    operators = [p["stateOperators"][0] for p in progress if p["stateOperators"]]
    measured = Measured(
        system,
        len(frames) * n,
        len(with_data),
        start,
        sum(durations),
        processor_seconds(os.getpid()),
        _observed(progress, "n"),
        _observed(progress, "pairs"),
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


def descendants(root: int) -> dict[int, list[str]]:
    """The fields of ``stat`` of a process and of all that descend from it."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
    parents = {process: int(fields[1]) for process, fields in found.items()}

    def descends(process: int) -> bool:
        while process not in (root, 0):
            process = parents.get(process, 0)
        return process == root

    return {process: fields for process, fields in found.items() if descends(process)}


def processor_seconds(root: int) -> float:
    """Processor time of a process and all that descend from it."""
    # Its own time, and that of children it has waited for.
    ticks = sum(sum(map(int, fields[11:15])) for fields in descendants(root).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def python_bytes(root: int) -> int:
    """Memory of the Python processes below a process; a page that several share counts in parts."""
    total = 0
    for process in descendants(root):
        try:
            is_python = "python" in Path(f"/proc/{process}/exe").resolve().name
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        if is_python and process != root:
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def in_process(
    system: str,
    made: Input,
    folder: Path,
    *,
    cores: int = CELLS,
    work: Path | None = None,
    files: int = 0,
) -> Measured:
    """Run one system over an input in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.spark_systems", system, str(made.write(folder)),
        "--size", str(made.n), "--cores", str(cores), "--window", str(made.window),
        "--files", str(files), *(() if work is None else ("--work", str(work))),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-4000:])
    content: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Measured(**content)


def same_results(runs: Iterable[Measured], count: str = "n_results") -> None:
    """See that all systems have found the same number of results, or of pairs."""
    found = {one.system: getattr(one, count) for one in runs}
    assert len(set(found.values())) == 1, found


def main() -> None:
    """Run one system, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--cores", type=int, default=CELLS)
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--files", type=int, default=0)
    given = parser.parse_args()
    measured = run(
        given.system,
        given.folder,
        given.size,
        cores=given.cores,
        window=given.window,
        work=given.work,
        files=given.files,
    )
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()

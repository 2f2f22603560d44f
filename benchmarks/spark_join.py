"""The join on Spark beside Spark's own stream-stream join: cost of a tuple, cost of a batch.

Every run is a process of its own over the same files: two streams, in order, joined on a key within
a window each way. Two sizes with the same number of micro-batches give the marginal cost of a tuple
(the slope) and what a batch costs whatever its size (the rest). Results are counted in both and
must be equal.

    python -m benchmarks.spark_join --sizes 400000 2000000 --matches 1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = 500
"""Milliseconds, each way."""
PER_MS = 100
"""Tuples of a stream that have the same time."""
SYSTEMS = ("recalljoin", "spark-rocksdb", "spark-hdfs")


@dataclass(frozen=True)
class Measured:
    """One run."""

    system: str
    n_tuples: int
    n_batches: int
    seconds: float
    """Of all batches but the first, which starts the workers."""
    processor_seconds: float
    """Of all processes together, their start included: on a busy machine the slope of these tells
    more than that of the clock."""
    n_results: int
    state_bytes: int
    stages: dict[str, float]


def write_input(folder: Path, n: int, n_batches: int, matches: float) -> None:
    """Two streams of ``n`` tuples in as many files as batches, after a first small one."""
    n_keys = max(1, round(PER_MS * WINDOW / matches))
    random = np.random.default_rng(7)
    # The first batch warms up, and is the same whatever the size.
    warm_up = 20_000
    for stream in ("l", "r"):
        (folder / stream).mkdir(parents=True)
        ts = np.arange(warm_up + n) // PER_MS
        keys = random.integers(0, n_keys, len(ts))
        ends = [0, *np.linspace(warm_up, len(ts), n_batches + 1).astype(int)]
        for batch in range(n_batches + 1):
            part = slice(ends[batch], ends[batch + 1])
            columns = {
                "ts": pa.array(ts[part] * 1000).cast(pa.timestamp("us", "UTC")),
                "key": pa.array(keys[part]),
                "value": pa.array(random.random(ends[batch + 1] - ends[batch])),
            }
            # Two files a batch, so that two tasks read.
            table = pa.table(columns)
            for half in range(2):
                path = folder / stream / f"{batch:04d}-{half}.parquet"
                pq.write_table(table.slice(half * len(table) // 2, len(table) // 2 + half), path)
                date = 1_000_000_000 + 10 * batch + half
                os.utime(path, (date, date))


def session(system: str, cells: int) -> SparkSession:
    """A local session on two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    provider = (
        "HDFSBackedStateStoreProvider" if system == "spark-hdfs" else "RocksDBStateStoreProvider"
    )
    state = "spark.sql.streaming.stateStore"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1" if system == "recalljoin" else str(cells))
        .config(
            f"{state}.providerClass", f"org.apache.spark.sql.execution.streaming.state.{provider}"
        )
        .config(f"{state}.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def joined(system: str, left: DataFrame, right: DataFrame, folder: Path, cells: int) -> DataFrame:
    """The join under test, with the columns of both streams flat."""
    from pyspark.sql import functions as sf

    if system == "recalljoin":
        import recalljoin.spark as rj

        return rj.join(
            rj.stream(left, name="l", window=WINDOW),
            rj.stream(right, name="r", window=WINDOW),
            on="l.key = r.key",
            select="l.ts AS lts, l.key AS lkey, l.value AS lvalue, "
            "r.ts AS rts, r.key AS rkey, r.value AS rvalue",
            k=0,
            cells=cells,
            control_log=str(folder / "log"),
        )
    # Without any delay Spark forgets tuples that lie on the edge of the window a moment too early.
    left, right = (
        frame.select(*(sf.col(name).alias(prefix + name) for name in ("ts", "key", "value")))
        .withWatermark(f"{prefix}ts", "10 milliseconds")
        for prefix, frame in (("l", left), ("r", right))
    )  # fmt: skip
    reach = sf.expr(f"INTERVAL {WINDOW} MILLISECONDS")
    near = (sf.col("lts") >= sf.col("rts") - reach) & (sf.col("rts") >= sf.col("lts") - reach)
    return left.join(right, (sf.col("lkey") == sf.col("rkey")) & near)


def run(system: str, folder: Path, n: int, cells: int) -> Measured:
    """Run one system over the input in ``folder``."""
    from pyspark.sql import functions as sf

    spark = session(system, cells)
    schema = "ts timestamp, key bigint, value double"
    left, right = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(folder / name))
        for name in ("l", "r")
    )
    work = Path(tempfile.mkdtemp(dir=folder))
    counted = joined(system, left, right, work, cells).observe(
        "results", sf.count(sf.lit(1)).alias("n")
    )
    query = (
        counted.writeStream.format("noop")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress
    with_data = [p for p in progress if p["numInputRows"] > 2 * cells][1:]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in with_data) / 1000
    stages: dict[str, float] = {}
    if system == "recalljoin":
        from recalljoin.spark.progress import progress_table

        for row in progress_table(str(work / "log")).to_pylist()[1:]:
            for stage, value in row["seconds"]:
                stages[stage] = stages.get(stage, 0.0) + value
    operators = [p["stateOperators"][0] for p in progress if p["stateOperators"]]
    measured = Measured(
        system,
        2 * n,
        len(with_data),
        seconds,
        processor_seconds(os.getpid()),
        sum(p["observedMetrics"]["results"]["n"] for p in progress),
        max(o["memoryUsedBytes"] for o in operators),
        stages,
    )
    spark.stop()
    return measured


def processor_seconds(root: int) -> float:
    """Processor time of a process and all that descend from it."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        # Its own time, and that of children it has waited for.
        used[int(folder.name)] = sum(int(value) for value in fields[11:15])
    total = 0
    for process, ticks in used.items():
        ancestor = process
        while ancestor not in (root, 0):
            ancestor = parents.get(ancestor, 0)
        total += ticks if ancestor == root else 0
    return total / os.sysconf("SC_CLK_TCK")


def in_process(system: str, folder: Path, n: int, n_batches: int, cells: int) -> Measured:
    """The same in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.spark_join", "--run", system, "--folder", str(folder),
        "--sizes", str(n), "--batches", str(n_batches), "--cells", str(cells),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    content: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Measured(**content)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--matches", type=float, default=1.0)
    parser.add_argument("--cells", type=int, default=2)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--run", choices=SYSTEMS)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args(arguments)
    if given.run:
        measured = run(given.run, given.folder, given.sizes[0], given.cells)
        print(json.dumps(asdict(measured)))
        return
    with tempfile.TemporaryDirectory() as made:
        for n in given.sizes:
            write_input(Path(made) / str(n), n, given.batches, given.matches)
        print(f"{'system':<15}{'tuples':>9}{'results':>10}{'s':>8}{'cpu s':>8}{'s/batch':>9}"
              f"{'us/tuple':>10}{'cpu us':>8}{'tuples/s':>11}{'state MB':>10}")  # fmt: skip
        for system in given.systems:
            runs = []
            for n in given.sizes:
                one = in_process(system, Path(made) / str(n), n, given.batches, given.cells)
                runs.append(one)
                print(f"{system:<15}{one.n_tuples:>9}{one.n_results:>10}{one.seconds:>8.2f}"
                      f"{one.processor_seconds:>8.1f}{one.seconds / one.n_batches:>9.2f}"
                      f"{'':>29}{one.state_bytes / 1e6:>10.1f}", flush=True)  # fmt: skip
                if one.stages:
                    print("   " + ", ".join(f"{k} {v:.2f}" for k, v in one.stages.items()))
            if len(runs) > 1:
                small, large = runs[0], runs[-1]
                more = large.n_tuples - small.n_tuples
                slope = (large.seconds - small.seconds) / more
                processor = (large.processor_seconds - small.processor_seconds) / more
                fixed = (small.seconds - slope * small.n_tuples) / small.n_batches
                print(f"{system:<15}{'slope':>9}{'':>26}{fixed:>9.2f}{slope * 1e6:>10.2f}"
                      f"{processor * 1e6:>8.2f}{1 / slope:>11.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

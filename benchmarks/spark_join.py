"""The join on Spark beside Spark's own stream-stream join: cost of a tuple, cost of a batch.

Every run is a process of its own over the same files: two streams, in order, joined on a key within
a window each way, in as many micro-batches. Results are counted and must be equal. Two sizes give
the marginal cost of a tuple (the slope), a run of very small batches what a batch costs whatever
its size. What takes one system a minute takes another a moment, so the faster one is also run on
more data of the same kind, and its slope taken there.

    python -m benchmarks.spark_join --write docs/performance.md
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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Report, machine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

WINDOW = 500
"""Milliseconds, each way."""
PER_MS = 100
"""Tuples of a stream that have the same time."""
OURS, *OTHERS = SYSTEMS = ("recalljoin", "spark-rocksdb", "spark-hdfs")
CELLS = 2
N_BATCHES = 4
SMALL, N_SMALL_BATCHES = 1_000, 16
"""Tuples of a stream in a batch, and batches, to tell what a batch costs whatever its size."""
SECTION = "## On Spark"
"""Where the tables stand in the file they are written to."""


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
    """What Spark says the state takes in memory, at most."""
    checkpoint_bytes: int
    """What it takes on disk at the end."""
    median_batch: float
    """Seconds, over the later half of the batches."""
    stages: dict[str, float]
    """Of ours, where the time went."""


def write_input(folder: Path, n: int, n_batches: int, matches: float) -> None:
    """Two streams of ``n`` tuples in as many files as batches, after a first small one."""
    n_keys = max(1, round(PER_MS * WINDOW / matches))
    random = np.random.default_rng(7)
    # The first batch warms up, and is the same whatever the size.
    warm_up = 20_000
    for stream in ("l", "r"):
        (folder / stream).mkdir(parents=True)
        # Not from 1970 on: Spark's first watermark lies there, and what is not after it is late.
        ts = 1_000_000 + np.arange(warm_up + n) // PER_MS
        keys = random.integers(0, n_keys, len(ts))
        # Tuples of one time come together.
        ends = np.linspace(warm_up, len(ts), n_batches + 1).astype(int) // PER_MS * PER_MS
        ends = np.concatenate(([0], ends))
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
        import recalljoin as rj

        rj.prepare(left.sparkSession)
        return rj.join(
            rj.Stream("l", left, window=WINDOW),
            rj.Stream("r", right, window=WINDOW),
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
    durations = [p["durationMs"]["triggerExecution"] / 1000 for p in with_data]
    seconds = sum(durations)
    stages: dict[str, float] = {}
    if system == "recalljoin":
        from recalljoin.spark.control_log import ControlLog
        from recalljoin.spark.progress import progress_table

        for row in progress_table(ControlLog(str(work / "log"))).to_pylist()[1:]:
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
        sum(f.stat().st_size for f in (work / "checkpoint" / "state").rglob("*") if f.is_file()),
        statistics.median(durations[len(durations) // 2 :]),
        stages,
    )
    spark.stop()
    shutil.rmtree(work)
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


def in_process(system: str, folder: Path, n: int) -> Measured:
    """The same in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.spark_join",
        "--run", system, "--folder", str(folder), "--size", str(n),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-4000:])
    content: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Measured(**content)


@dataclass(frozen=True)
class Slope:
    """What two runs of a system say about its costs."""

    small: Measured
    large: Measured

    def _per_tuple(self, name: str) -> float:
        more = self.large.n_tuples - self.small.n_tuples
        difference: float = getattr(self.large, name) - getattr(self.small, name)
        return difference / more

    @property
    def seconds(self) -> float:
        """Marginal cost of a tuple, by the clock; on a busy machine it may come out as nothing."""
        return self._per_tuple("seconds")

    @property
    def processor_seconds(self) -> float:
        """The same in processor time of all processes."""
        return self._per_tuple("processor_seconds")


class Bench:
    """Runs systems over inputs that are made once."""

    def __init__(self, folder: Path, *, matches: float, title: str) -> None:
        self.folder, self.matches = folder, matches
        self.report = Report(
            title,
            ("system", "tuples", "results", "s", "processor s", "state MB", "on disk MB"),
            note=f"Window {WINDOW} ms each way, about {matches:g} matches a tuple, {N_BATCHES} "
            f"micro-batches ({N_SMALL_BATCHES} of the smallest) after one that warms up.",
        )

    def run(self, system: str, n: int, n_batches: int = N_BATCHES) -> Measured:
        """One system over two streams of ``n`` tuples."""
        inputs = self.folder / f"{self.matches:g}-{n}"
        if not inputs.exists():
            write_input(inputs, n, n_batches, self.matches)
        one = in_process(system, inputs, n)
        assert one.n_batches == n_batches, one
        self.report.add(
            system, f"{one.n_tuples:,}", f"{one.n_results:,}", f"{one.seconds:.2f}",
            f"{one.processor_seconds:.1f}", f"{one.state_bytes / 1e6:.1f}",
            f"{one.checkpoint_bytes / 1e6:.1f}",
        )  # fmt: skip
        if one.stages:
            parts = (f"{name} {value:.2f}" for name, value in one.stages.items())
            print("    seconds in all cells: " + ", ".join(parts), flush=True)
        return one


def few_matches(folder: Path, sizes: list[int], ours_sizes: list[int]) -> list[Report]:
    """About one match a tuple: marginal cost of a tuple and fixed cost of a batch."""
    bench = Bench(folder, matches=1, title="On Spark: 2-way equi-join, one match a tuple")
    small = {
        system: bench.run(system, SMALL * N_SMALL_BATCHES, N_SMALL_BATCHES) for system in SYSTEMS
    }
    runs = {system: [bench.run(system, n) for n in sizes] for system in SYSTEMS}
    _check(small.values())
    for same in zip(*runs.values(), strict=True):
        _check(same)
    slopes = {system: Slope(*of_system) for system, of_system in runs.items()}
    slopes[OURS] = Slope(*(bench.run(OURS, n) for n in ours_sizes))
    costs = Report(
        "On Spark: marginal and fixed costs",
        ("system", "us a tuple", "processor us", "tuples/s", "times ours", "s a batch"),
        note="Targets: at most a tenth of Spark's cost of a tuple, 1,000,000 tuples/s on two "
        "cores, no higher fixed cost of a batch.",
    )
    ours = slopes[OURS].seconds
    for system, slope in slopes.items():
        is_known = slope.seconds > 0
        costs.add(
            system, f"{slope.seconds * 1e6:.2f}", f"{slope.processor_seconds * 1e6:.2f}",
            f"{1 / slope.seconds:,.0f}" if is_known else "too noisy",
            f"{slope.seconds / ours:.1f}" if is_known and ours > 0 else "too noisy",
            f"{small[system].median_batch:.2f}",
        )  # fmt: skip
    return [bench.report, costs]


def many_matches(folder: Path, sizes: list[int]) -> list[Report]:
    """Sixteen matches a tuple: throughput of whole runs.

    Spark forgets tuples between batches only, and looks at all those of a key: the more of them a
    batch has, the more each costs it. So there is no slope, but a run for each size of a batch.
    """
    bench = Bench(folder, matches=16, title="On Spark: 16 matches a tuple")
    rates = Report(
        "On Spark: throughput at 16 matches a tuple",
        ("tuples in a batch", "system", "tuples/s", "results/s", "ours to it"),
        note="Target: at least 30 times Spark's throughput. Spark's own join costs more for each "
        "tuple the more of them are in a batch, ours does not.",
    )
    for n in sizes:
        runs = [bench.run(system, n) for system in SYSTEMS]
        _check(runs)
        for one in runs:
            rates.add(
                f"{one.n_tuples // one.n_batches:,}",
                one.system,
                f"{one.n_tuples / one.seconds:,.0f}",
                f"{one.n_results / one.seconds:,.0f}",
                f"{one.seconds / runs[0].seconds:.1f}",
            )
    return [bench.report, rates]


def _check(runs: Iterable[Measured]) -> None:
    found = {one.system: one.n_results for one in runs}
    assert len(set(found.values())) == 1, found


def with_section(text: str, reports: list[Report]) -> str:
    """A Markdown text with the tables on Spark as its last part."""
    before = text.partition(SECTION)[0].rstrip()
    made = f"{SECTION}\n\nMade by `python -m benchmarks.spark_join --write docs/performance.md`.\n"
    made += f"Machine: {machine()}; {datetime.now(UTC).date()}."
    tables = [each.markdown().replace("## On Spark: ", "### ", 1) for each in reports]
    return "\n\n".join([before, made, *tables]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", type=Path, help="keep the tables in this Markdown file")
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    parser.add_argument("--run", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run:
        print(json.dumps(asdict(run(given.run, given.folder, given.size, CELLS))))
        return
    scale = 20 if given.quick else 1
    print(machine())
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        reports = few_matches(
            folder, [200_000 // scale, 1_000_000 // scale], [1_000_000 // scale, 4_000_000 // scale]
        )
        reports += many_matches(folder, [1_000_000 // scale, 2_000_000 // scale])
    if given.write is not None:
        given.write.write_text(with_section(given.write.read_text(), reports))


if __name__ == "__main__":
    main()

"""One run of a join on a standalone cluster, in a process of its own; prints what was measured.

python -m benchmarks.cluster_run MASTER FOLDER QUERY --cells 4 --groups 2
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.inputs import Input
from recalljoin.datasets import SimulatedMatch, make_syn_x3, make_syn_x4

if TYPE_CHECKING:
    from collections.abc import Callable

    from recalljoin.datasets import Dataset

K_MS = 300
N_BATCHES = 6
"""Batches with tuples, of which the first, which starts the workers, does not count."""
PAIR = "2-way equi-join"
PAIR_SQL = "SELECT * FROM a [500 ms], b [500 ms] WHERE a.key = b.key"
PAPER: dict[str, Callable[[int], Dataset]] = {
    "soccer x2": lambda ms: SimulatedMatch(seed=0, duration=ms),
    "D_syn x3": lambda ms: make_syn_x3(0, duration=ms),
    "D_syn x4": lambda ms: make_syn_x4(0, duration=ms),
}
"""The paper's three queries, over streams of some milliseconds."""


@dataclass(frozen=True)
class Ran:
    """What one run has shown."""

    n_tuples: int
    n_results: int
    rate: float
    """Tuples a second, in all batches with tuples but the first."""
    batch: float
    """Seconds of a batch with tuples: the median of all but the first."""
    idle: float
    """Seconds of a batch without tuples."""
    copies: float
    """Cells that a tuple was sent to, on average."""
    shuffled: int
    """Bytes that tasks wrote for other tasks, in the whole run, without compression."""
    n_map_tasks: int
    """Tasks that wrote them."""
    at_once: float
    """Tasks that handed results to the sink at the same time, on average."""


def write_input(folder: Path, query: str, size: int) -> Path:
    """Write the streams of a query, once: ``size`` tuples each, or as many milliseconds."""
    if query == PAIR:
        return Input(size, N_BATCHES - 1).write(folder)
    made = folder / f"{query.replace(' ', '-')}-{size}"
    if not made.exists():
        data = PAPER[query](size)
        for stream in data.streams:
            table = data.table(stream)
            (made / stream).mkdir(parents=True)
            ends = np.linspace(0, table.num_rows, 2 * N_BATCHES + 1).astype(int)
            for part in range(2 * N_BATCHES):
                _write(made / stream, part, table.slice(ends[part], ends[part + 1] - ends[part]))
    return made


def _write(folder: Path, part: int, table: pa.Table) -> None:
    path = folder / f"{part // 2:04d}-{part % 2}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + part, 1_000_000_000 + part))


def text_of(query: str) -> str:
    """The text of a query."""
    return PAIR_SQL if query == PAIR else PAPER[query](1000).query


def run(master: str, folder: Path, query: str, *, cells: int, groups: int) -> Ran:
    """Run a query over the streams in ``folder``."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    import recalljoin as rj
    from recalljoin.spark.control_log import ControlLog

    os.environ["PYSPARK_PYTHON"] = sys.executable
    work = Path(tempfile.mkdtemp(dir=folder))
    (work / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.executor.cores": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (work / "events").as_uri(),
        # What tasks write is to be counted as it is.
        "spark.shuffle.compress": "false",
    }
    builder = SparkSession.builder.master(master).appName("scaling")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rj.prepare(spark, groups=groups)
    frames = {
        each.name: spark.readStream.schema(spark.read.parquet(str(each)).schema)
        .option("maxFilesPerTrigger", 2)
        .parquet(str(each))
        for each in sorted(folder.iterdir())
        if list(each.glob("0000-*.parquet"))
    }
    joined = rj.sql(
        text_of(query),
        frames,
        k=K_MS,
        cells=cells,
        groups=groups,
        flush=True,
        control_log=str(work / "log"),
    )
    counted = joined.observe("results", sf.count(sf.lit(1)).alias("n"))
    started = (
        counted.writeStream.format("noop")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    started.awaitTermination()
    progress = started.recentProgress
    spark.stop()
    reports = list(ControlLog(str(work / "log")).reports_after(-1))
    arrived = {r.batch: sum(r.n_arrived) for r in reports if sum(r.n_arrived)}
    seconds = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1000 for p in progress}
    later = [batch for batch in arrived if batch]
    n_tuples = sum(arrived.values())
    shuffled, n_map_tasks, at_once = _from_events(work / "events")
    return Ran(
        n_tuples,
        sum(p["observedMetrics"].get("results", {"n": 0})["n"] for p in progress),
        sum(arrived[batch] for batch in later) / sum(seconds[batch] for batch in later),
        statistics.median(seconds[batch] for batch in later),
        statistics.median(s for batch, s in seconds.items() if batch not in arrived),
        sum(r.n_delivered for r in reports) / n_tuples,
        shuffled,
        n_map_tasks,
        at_once,
    )


def _from_events(folder: Path) -> tuple[int, int, float]:
    """Bytes shuffled, tasks that wrote them, and result tasks at the same time, from Spark's log.

    Tasks of one stage run at the same time if the sum of their times is more than the time from the
    first start to the last end.
    """
    shuffled = n_map_tasks = 0
    stages: dict[int, list[tuple[int, int]]] = {}
    (path,) = folder.iterdir()
    for line in path.read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["Event"] != "SparkListenerTaskEnd" or event.get("Task Metrics") is None:
            continue
        written = event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        shuffled += written
        n_map_tasks += written > 0
        if event["Task Type"] == "ResultTask":
            info = event["Task Info"]
            span = (info["Launch Time"], info["Finish Time"])
            stages.setdefault(event["Stage ID"], []).append(span)
    spans = [each for each in stages.values() if len(each) > 1]
    busy = sum(end - begin for each in spans for begin, end in each)
    passed = sum(max(e for _, e in each) - min(b for b, _ in each) for each in spans)
    return shuffled, n_map_tasks, busy / passed if passed else 1.0


def in_process(master: str, folder: Path, query: str, *, cells: int, groups: int) -> Ran:
    """Run a query in a process of its own."""
    command = [
        sys.executable, "-m", "benchmarks.cluster_run", master, str(folder), query,
        "--cells", str(cells), "--groups", str(groups),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-4000:])
    return Ran(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run one query, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("master")
    parser.add_argument("folder", type=Path)
    parser.add_argument("query", choices=[PAIR, *PAPER])
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--groups", type=int, required=True)
    given = parser.parse_args()
    ran = run(given.master, given.folder, given.query, cells=given.cells, groups=given.groups)
    print(json.dumps(asdict(ran)))


if __name__ == "__main__":
    main()

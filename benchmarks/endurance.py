"""A streaming join over hours: what it holds in memory and on disk, and how long a batch takes.

    python -m benchmarks.endurance --minutes 120 --folder .cache/endurance

Two streams with disorder, made by Spark itself, go through one query batch by batch. Time in the
streams passes as fast as the machine goes, or with ``--paced`` as on the clock. What is measured
goes into ``endurance.csv`` and ``endurance.svg`` of the folder, and into one line for each column:
the mean of its last quarter beside that of the second quarter, which is 1 where nothing grows. At
the end the query goes on from its checkpoint in a new process: a restart after so many batches.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import statistics
import sys
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from matplotlib.figure import Figure

from benchmarks.measure import descendants, machine, printed
from benchmarks.spark_systems import OURS, session
from recalljoin.experiments.charts import COLOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW = 500
CELLS = 2
BEGIN = 1_700_000_000_000
COLOURED = [COLOURS[name] for name in ("slack", "noneqsel", "none")]
SHOWN = (
    ("memory (MB)", ("driver_mb", "jvm_mb", "workers_mb")),
    ("a batch (s)", ("batch_s",)),
    ("on disk (MB)", ("checkpoint_mb", "log_mb")),
    ("files", ("checkpoint_files", "log_files")),
)
"""Panels of the plot."""


@dataclass(frozen=True)
class Sample:
    """What was seen at one moment."""

    seconds: float
    """Since the start of the query."""
    minutes: float
    """Of event time that are through."""
    batches: int
    batch_s: float
    """Median of the batches since the sample before."""
    k_s: float
    recall: float | None
    driver_mb: float
    """Python of the driver."""
    jvm_mb: float
    workers_mb: float
    """Python processes that Spark has started; a page that several share counts in parts."""
    checkpoint_mb: float
    checkpoint_files: int
    log_mb: float
    log_files: int


def streams(spark: SparkSession, rate: int, batch_ms: int) -> dict[str, DataFrame]:
    """Two streams with half of the rate each; a fifth of the tuples is late, by 2 s at most."""
    rows = rate * batch_ms // 2000
    made = {}
    for seed, name in enumerate("ab"):
        source = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", rows)
            .option("numPartitions", 1)
            .option("startTimestamp", BEGIN)
            .option("advanceMillisPerBatch", batch_ms)
            .load()
        )
        drawn = f"pmod(xxhash64(value, {seed}), 10000)"
        delay = f"IF({drawn} < 2000, {drawn}, 0)"
        at = f"unix_millis(timestamp) + value % {rows} * {batch_ms} DIV {rows}"
        made[name] = source.selectExpr(
            f"timestamp_millis({at} - {delay}) AS ts",
            # About one match for a tuple.
            f"pmod(xxhash64(value, {seed + 2}), {max(1, rate * WINDOW // 1000)}) AS key",
            "CAST(value AS double) AS value",
        )
    return made


def start(
    spark: SparkSession, work: Path, *, rate: int, batch_ms: int, paced: bool
) -> StreamingQuery:
    """Start the query."""
    import recalljoin as rj

    rj.prepare(spark)
    joined = rj.join(
        *(rj.Stream(name, frame, window=WINDOW) for name, frame in
          streams(spark, rate, batch_ms).items()),
        on="a.key = b.key",
        select="a.ts AS ats, b.ts AS bts, a.value AS one, b.value AS other",
        recall=0.95,
        cells=CELLS,
        control_log=str(work / "log"),
    )  # fmt: skip
    writer = joined.writeStream.format("noop").option(
        "checkpointLocation", str(work / "checkpoint")
    )
    return writer.trigger(processingTime=f"{batch_ms if paced else 0} milliseconds").start()


def on_disk(folder: Path) -> tuple[float, int]:
    """Megabytes and files of a folder; files may go while they are counted."""
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append((Path(parent) / name).stat().st_size)
            except FileNotFoundError:
                continue
    return sum(sizes) / 1e6, len(sizes)


def memory() -> tuple[float, float, float]:
    """Megabytes of the driver's Python, of the JVM, and of the Python processes below it."""
    driver = jvm = workers = 0.0
    for process in descendants(os.getpid()):
        try:
            program = Path(f"/proc/{process}/exe").resolve().name
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        held = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000
        if process == os.getpid():
            driver += held
        elif "java" in program:
            jvm += held
        elif "python" in program:
            workers += held
    return driver, jvm, workers


def sample(
    query: StreamingQuery, work: Path, began: float, batch_ms: int, since: int
) -> Sample | None:
    """Look at the query; None if no batch has ended since batch ``since``."""
    new: list[Any] = [each for each in query.recentProgress if each["batchId"] > since]
    if not new:
        return None
    told = new[-1]["observedMetrics"].get(OURS) or {"k_ms": 0, "recall": None}
    n = new[-1]["batchId"] + 1
    return Sample(
        time.monotonic() - began,
        n * batch_ms / 60_000,
        n,
        statistics.median(each["durationMs"]["triggerExecution"] for each in new) / 1000,
        (told["k_ms"] or 0) / 1000,
        told["recall"],
        *memory(),
        *on_disk(work / "checkpoint"),
        *on_disk(work / "log"),
    )


def restart(work: Path, rate: int, batch_ms: int) -> dict[str, float]:
    """Go on from the checkpoint: seconds until the next batch is committed, and its number."""
    spark = session(OURS, CELLS)
    spark.range(1).count()
    commits = work / "checkpoint" / "commits"
    last = _last_commit(commits)
    began = time.monotonic()
    query = start(spark, work, rate=rate, batch_ms=batch_ms, paced=False)
    while query.isActive and _last_commit(commits) == last:
        time.sleep(0.005)
    seconds = time.monotonic() - began
    failure = query.exception()
    query.stop()
    spark.stop()
    if failure is not None:
        raise failure
    return {"seconds": seconds, "batch": last + 1}


def _last_commit(commits: Path) -> int:
    return max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)


def growth(samples: Sequence[Sample], column: str) -> float | None:
    """The mean of the last quarter as a multiple of the mean of the second; None if there is none.

    The first quarter warms up.
    """
    n = len(samples) // 4
    values = [float(getattr(each, column)) for each in samples]
    before, after = values[n : 2 * n], values[-n:] if n else []
    if not before or not sum(before):
        return None
    return statistics.mean(after) / statistics.mean(before)


def plot(samples: Sequence[Sample], title: str) -> Figure:
    """All columns over event time."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    figure.suptitle(title, fontsize=9)
    minutes = [each.minutes for each in samples]
    for axis, (label, columns) in zip(figure.subplots(2, 2, sharex=True).flat, SHOWN, strict=True):
        for column, colour in zip(columns, COLOURED, strict=False):
            values = [getattr(each, column) for each in samples]
            name = column.rpartition("_")[0]
            axis.plot(minutes, values, color=colour, lw=1.2, label=name)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
        if len(columns) > 1:
            axis.legend(frameon=False, fontsize=8)
    for axis in figure.axes[2:]:
        axis.set_xlabel("event time (min)")
    return figure


def write_csv(samples: Sequence[Sample], path: Path) -> None:
    """One row a sample."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([each.name for each in fields(Sample)])
        writer.writerows(astuple(each) for each in samples)


@click.command()
@click.option("--minutes", default=120.0, show_default=True, help="Event time to run through.")
@click.option("--rate", default=20_000, show_default=True, help="Tuples a second, both streams.")
@click.option("--batch-ms", default=500, show_default=True, help="Event time of a batch.")
@click.option("--every", default=5.0, show_default=True, help="Seconds between two samples.")
@click.option("--paced", is_flag=True, help="Let time pass as on the clock.")
@click.option(
    "--folder",
    default=Path(".cache/endurance"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where checkpoint, control log and outcome go.",
)
@click.option("--restart", "is_restart", is_flag=True, help="Only go on from the checkpoint there.")
def main(
    *,
    minutes: float,
    rate: int,
    batch_ms: int,
    every: float,
    paced: bool,
    folder: Path,
    is_restart: bool,
) -> None:
    """Run a join over hours of event time, and watch what it holds."""
    work = folder / "work"
    if is_restart:
        print(json.dumps(restart(work, rate, batch_ms)))
        return
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    print(machine(), flush=True)
    spark = session(OURS, CELLS)
    samples: list[Sample] = []
    query = start(spark, work, rate=rate, batch_ms=batch_ms, paced=paced)
    began = time.monotonic()
    try:
        while not samples or samples[-1].minutes < minutes:
            time.sleep(every)
            if not query.isActive:
                sys.exit(f"the query has ended: {query.exception()}")
            since = samples[-1].batches - 1 if samples else -1
            found = sample(query, work, began, batch_ms, since)
            if found is not None:
                samples.append(found)
                write_csv(samples, folder / "endurance.csv")
    finally:
        query.stop()
        spark.stop()
        if samples:
            tell(samples, rate, folder)
    again = printed([
        sys.executable, "-m", "benchmarks.endurance", "--restart", "--folder", str(folder),
        "--rate", str(rate), "--batch-ms", str(batch_ms),
    ])  # fmt: skip
    print(f"restart: batch {again['batch']:,} committed {again['seconds']:.1f} s after the start")


def tell(samples: Sequence[Sample], rate: int, folder: Path) -> None:
    """Print and draw what was seen, also of a run that was stopped."""
    last = samples[-1]
    title = (
        f"{last.minutes:.1f} minutes of event time at {rate:,} tuples/s in {last.batches:,} "
        f"batches, in {last.seconds / 60:.1f} minutes"
    )
    print(title)
    for column in (column for _, columns in SHOWN for column in columns):
        grown = growth(samples, column)
        shown = "too few samples" if grown is None else f"{grown:.2f} times the second quarter"
        print(f"{column:>18}: {getattr(last, column):10.2f} at the end; last quarter {shown}")
    write_csv(samples, folder / "endurance.csv")
    figure = plot(samples, title)
    figure.savefig(folder / "endurance.svg", metadata={"Date": None})
    figure.savefig(folder / "endurance.png", dpi=120)
    print(folder / "endurance.csv", folder / "endurance.svg")


if __name__ == "__main__":
    main()

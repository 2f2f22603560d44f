"""Results at once and left outer joins beside Spark's own: speed, latency and state.

python -m benchmarks.spark_kinds --write docs/performance.md
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Report
from benchmarks.spark_systems import (
    CELLS,
    OTHERS,
    OURS,
    SCHEMA,
    WINDOW,
    Input,
    in_process,
    same_results,
    session,
    under_test,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

INNER = (OURS, f"{OURS} eager", *OTHERS)
LEFT = (f"{OURS} left", f"{OURS} left eager", *(f"{system} left" for system in OTHERS))
EVERY = 0.25
"""Seconds between two files of a stream, where latency is measured."""


def kinds(folder: Path, n: int) -> Report:
    """Whole runs of every kind, and what they keep."""
    report = Report(
        "On Spark: results at once, and left outer joins",
        ("system", "s", "times ordered", "results", "state MB", "on disk MB"),
        note=f"{n:,} tuples a stream in 10 batches, about one match a tuple, no disorder and no "
        "wait: the recall of all is 1. A left join has a row for each tuple without a partner as "
        "well; the last of them, whose time is not over at the end of the input, differ by the "
        "batch in which Spark moves its watermark.",
    )
    made = Input(n, 10)
    for systems in (INNER, LEFT):
        runs = [in_process(system, made, folder) for system in systems]
        same_results(runs, "n_pairs")
        for one in runs:
            report.add(
                one.system, f"{one.seconds:.1f}", f"{one.seconds / runs[0].seconds:.2f}",
                f"{one.n_results:,}", f"{one.state_bytes / 1e6:.1f}",
                f"{one.checkpoint_bytes / 1e6:.1f}",
            )  # fmt: skip
    return report


def latency(folder: Path, n_files: int) -> Report:
    """From the arrival of a file until the batch that holds it has left."""
    report = Report(
        "On Spark: latency of results at once",
        ("system", "median s", "p95 s", "batches"),
        note=f"Seconds from the moment in which a file is there until the batch that reads it is "
        f"committed: with results at once, how long a result takes from the arrival of its last "
        f"member to the sink. Two streams, a file of 1,000 tuples each every {EVERY} s, the next "
        "batch as soon as the last is done, after the first 20 files.",
    )
    made = Input(1_000 * n_files, n_files).write(folder)
    for system in (f"{OURS} eager", *OTHERS):
        seconds, n_batches = live(system, made, folder)
        report.add(
            system, f"{statistics.median(seconds):.2f}",
            f"{statistics.quantiles(seconds, n=20)[-1]:.2f}", n_batches,
        )  # fmt: skip
    return report


def live(system: str, made: Path, folder: Path) -> tuple[list[float], int]:
    """Let files come one after the other; seconds from each file's arrival to its commit."""
    spark = session(system, CELLS)
    work = Path(tempfile.mkdtemp(dir=folder))
    names = sorted(path.name for path in made.iterdir() if path.is_dir() and len(path.name) == 1)
    for name in names:
        (work / "in" / name).mkdir(parents=True)
    frames = {
        name: spark.readStream.schema(SCHEMA).parquet(str(work / "in" / name)) for name in names
    }
    query = (
        under_test(system, frames, work, cells=CELLS, window=WINDOW)
        .writeStream.format("noop")
        .option("checkpointLocation", str(work / "checkpoint"))
        .start()
    )
    arrived: dict[str, float] = {}
    files = sorted(path.name for path in (made / names[0]).iterdir())
    begin = time.time()
    for i, file in enumerate(files):
        time.sleep(max(0.0, begin + i // 2 * EVERY - time.time()))
        for name in names:
            # A file appears as a whole.
            shutil.copy(made / name / file, work / f"{name}-{file}")
            (work / f"{name}-{file}").rename(work / "in" / name / file)
            arrived[f"{name}/{file}"] = time.time()
    query.processAllAvailable()
    query.stop()
    committed = {
        int(path.name): path.stat().st_mtime
        for path in (work / "checkpoint" / "commits").glob("[0-9]*")
    }
    seconds = [
        committed[batch] - arrived[file]
        for batch, file in _read_in(work / "checkpoint" / "sources")
        if batch in committed and int(Path(file).name[:4]) >= 20
    ]
    spark.stop()
    shutil.rmtree(work)
    return seconds, len(committed)


def _read_in(sources: Path) -> Iterable[tuple[int, str]]:
    """The files that each batch has read, as Spark's file sources note them."""
    for log in sources.rglob("[0-9]*"):
        if log.is_file():
            for line in log.read_text().splitlines()[1:]:
                entry: dict[str, Any] = json.loads(line)
                path = Path(entry["path"])
                yield entry["batchId"], f"{path.parent.name}/{path.name}"

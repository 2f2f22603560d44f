"""How long results take to the sink when tuples come live, beside Spark's own join.

The clock of a result begins when the last of its members arrives, and ends when the sink has it.
Between the two are up to three waits: for K, until tuples have come that let the result go; for the
batch that takes it up; and for what that batch does.

    python -m benchmarks.spark_join latency --write docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.inputs import WARM_UP, Input
from benchmarks.measure import Report, printed
from benchmarks.spark_systems import CELLS, OTHERS, OURS, read, session, under_test

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

RATE = 5_000
"""Tuples of a stream a second."""
EVERY = 0.2
"""Seconds between two files of a stream."""
DELAY = 1_000
"""Milliseconds: the longest delay, and the wait of the join in order."""
SYSTEMS = (OURS, f"{OURS} eager", *OTHERS)
TRIGGERS = ("0 seconds", "1 second")
PARTS = ("for K", "for the batch", "processing")
SHOWN = (50, 95, 99)


def latency(folder: Path, seconds: int) -> Report:
    """From the arrival of a result's last member to the sink."""
    report = Report(
        "On Spark: latency of live streams",
        ("trigger", "system", "results", "median s", "p95 s", "p99 s", *PARTS),
        note=f"Seconds from the arrival of a result's last member until the sink has it. Two "
        f"streams of {RATE:,} tuples/s each for {seconds} s, in a file every {EVERY} s; half of "
        f"the tuples are late, by up to {DELAY / 1000:g} s. All joins wait long enough to lose "
        "nothing. The parts are median / p95 / p99: until tuples have come that K waits for "
        "(results in order only), until the batch begins that takes the result up, and until the "
        "sink has the batch. A trigger of 0 seconds is the next batch as soon as the last is done. "
        "Spark's own joins run as Spark does when nothing is set; the table of a batch says how "
        "much less a batch of theirs takes with the one setting that ours makes.",
    )
    made = streams(seconds)
    made.write(folder)
    for trigger in TRIGGERS:
        counts = set()
        for system in SYSTEMS:
            found = printed([
                sys.executable, "-m", "benchmarks.spark_latency", system, str(folder),
                "--made", json.dumps(asdict(made)), "--trigger", trigger,
            ])  # fmt: skip
            counts.add(found["n_results"])
            report.add(
                trigger, system, f"{found['n_results']:,}",
                *(f"{value:.2f}" for value in found["total"]),
                *(" / ".join(f"{value:.2f}" for value in found[part]) for part in PARTS),
            )  # fmt: skip
        assert len(counts) == 1, counts
    return report


def streams(seconds: int) -> Input:
    """Streams that last so long."""
    return Input(RATE * seconds, round(seconds / EVERY), per_ms=RATE // 1000, delay=DELAY)


class Arrivals:
    """When tuples of one stream came."""

    def __init__(self, made: Input) -> None:
        self.by_value = np.zeros(made.n + WARM_UP)
        self.at: list[float] = []
        self.clock: list[int] = []

    def add(self, file: Path, at: float) -> None:
        """A file has come."""
        table = pq.read_table(file)
        values = table["value"].to_numpy().astype(np.int64)
        self.by_value[values[values >= 0]] = at
        latest = int(millis(table["ts"]).max(initial=0))
        self.at.append(at)
        self.clock.append(max(latest, *self.clock[-1:], 0))

    def reached(self, ts: npt.NDArray[np.int64]) -> Floats:
        """When the stream's time had come so far."""
        places = np.searchsorted(self.clock, ts)
        return np.append(self.at, np.inf)[places]


def millis(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Times as numbers."""
    numbers: npt.NDArray[np.int64] = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(numbers) // 1000


def live(system: str, folder: Path, made: Input, trigger: str) -> dict[str, Any]:
    """Let files come one after the other: quantiles of all waits and of their parts."""
    source = made.write(folder)
    work = folder / f"live-{time.time_ns()}"
    for name in made.streams:
        (work / "in" / name).mkdir(parents=True)
    spark = session(system, CELLS)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    frames = {name: read(spark, work / "in" / name, made) for name in made.streams}
    arrivals = {name: Arrivals(made) for name in made.streams}
    query = (
        under_test(system, frames, work, made, cells=CELLS)
        .writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(processingTime=trigger)
        .start()
    )
    begin = 0.0
    for batch in range(made.n_batches + 1):
        # The first batch starts the workers, and is through before the clock begins.
        if batch == 1:
            query.processAllAvailable()
            begin = time.time()
        time.sleep(max(0.0, begin + (batch - 1) * EVERY - time.time()))
        for name in made.streams:
            for file in sorted((source / name).glob(f"{batch:04d}-*")):
                # A file appears as a whole.
                shutil.copy(file, work / f"{name}-{file.name}")
                (work / f"{name}-{file.name}").rename(work / "in" / name / file.name)
                arrivals[name].add(file, time.time())
    end = time.time()
    query.processAllAvailable()
    query.stop()
    began = {
        p["batchId"]: datetime.fromisoformat(p["timestamp"]).timestamp()
        for p in query.recentProgress
    }
    spark.stop()
    waits = split(written(work / "out"), began, arrivals, 0 if is_at_once(system) else made.delay)
    # After the start, and before the end of the streams, which lets everything go at once.
    first = begin + min(10.0, (end - begin) / 4)
    is_steady = (waits["came"] >= first) & (waits["came"] <= end - 2 * made.delay / 1000 - EVERY)
    shutil.rmtree(work)
    return {
        part: [float(q) for q in np.percentile(waits[part][is_steady], SHOWN)]
        for part in ("total", *PARTS)
    } | {"n_results": len(is_steady)}


def is_at_once(system: str) -> bool:
    """Whether results leave as soon as their last member is there."""
    return system != OURS


def written(out: Path) -> list[tuple[int, float, pa.Table]]:
    """What each batch has written, and when it was there, as Spark's sink of files notes it."""
    logs = sorted((out / "_spark_metadata").glob("[0-9]*"), key=lambda log: int(log.stem))
    seen: set[str] = set()
    batches = []
    for log in logs:
        # Now and then a log repeats all that were before it.
        lines = (json.loads(line) for line in log.read_text().splitlines()[1:])
        new = [line["path"] for line in lines if line["path"] not in seen]
        seen.update(new)
        if new:
            tables = [pq.read_table(path.removeprefix("file://")) for path in new]
            batches.append((int(log.stem), log.stat().st_mtime, pa.concat_tables(tables)))
    return batches


def split(
    batches: list[tuple[int, float, pa.Table]],
    began: dict[int, float],
    arrivals: dict[str, Arrivals],
    k: int,
) -> dict[str, Floats]:
    """The waits of every result, in parts; ``came`` is when its last member did."""
    parts: dict[str, list[Floats]] = {name: [] for name in ("came", "total", *PARTS)}
    for batch, there, table in batches:
        came = np.max(
            [
                each.by_value[table[f"{name}value"].to_numpy().astype(np.int64)]
                for name, each in arrivals.items()
            ],
            axis=0,
        )
        time_of_result = np.max([millis(table[f"{name}ts"]) for name in arrivals], axis=0)
        free = came
        if k:
            reached = [each.reached(time_of_result + k) for each in arrivals.values()]
            free = np.maximum(came, np.max(reached, axis=0))
        taken_up = np.maximum(free, began[batch])
        parts["came"].append(came)
        parts["total"].append(there - came)
        for name, wait in zip(PARTS, (free - came, taken_up - free, there - taken_up), strict=True):
            parts[name].append(wait)
    return {name: np.concatenate(waits) for name, waits in parts.items()}


def main() -> None:
    """Run one system, and print what was measured as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--made", type=json.loads, required=True)
    parser.add_argument("--trigger", required=True)
    given = parser.parse_args()
    print(json.dumps(live(given.system, given.folder, Input(**given.made), given.trigger)))


if __name__ == "__main__":
    main()

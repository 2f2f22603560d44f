"""Kill a streaming join again and again, and see that nobody can tell from its output.

``python -m tests.spark.soak_crash [KILLS]``
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tests.spark.crash_driver import N_TICKS, SEED
from tests.spark.recorded import record

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    results: Counter[tuple[int, ...]]
    slacks: list[int]


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the driver, in a group of its own with all it starts."""
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.crash_driver", str(folder), *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the driver and everything it started, at once and without warning."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def outcome(folder: Path) -> Outcome:
    """Results that the sink has committed, and the slack of each batch with data."""
    files: dict[str, bool] = {}
    logs = (folder / "out" / "_spark_metadata").glob("[0-9]*")
    for log in sorted(logs, key=lambda p: int(p.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["path"].partition("://")[2]] = entry["action"] == "add"
    results: Counter[tuple[int, ...]] = Counter()
    for path, is_there in files.items():
        if is_there:
            for row in pq.read_table(path).to_pylist():
                results[row["s1"]["place"], row["s2"]["place"]] += 1
    slacks = []
    for batch in range(N_TICKS):
        log = folder / "checkpoint" / "offsets" / str(batch)
        slacks.append(json.loads(log.read_text().splitlines()[2])["k"])
    return Outcome(results, slacks)


def run_to_end(folder: Path, *arguments: str) -> Outcome:
    """The run nobody disturbs."""
    process = start(folder, *arguments)
    if process.wait(timeout=600) != 0:
        raise RuntimeError((folder / "driver.log").read_text()[-4000:])
    return outcome(folder)


def n_committed(folder: Path) -> int:
    """Batches Spark has committed."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def run_with_kills(folder: Path, *, kills: int, seed: int) -> tuple[Outcome, int]:
    """The same, killed up to ``kills`` times at random points; also the number of kills done.

    Each run gets on by a few batches, or none, and is killed at a random point of the next one:
    how long batches take on this machine does not matter.
    """
    chance = random.Random(seed)
    done = 0
    # Seconds: the first batch of a run starts the workers and takes longer than those after it.
    first_takes, others_take = 8.0, 1.0
    while done < kills:
        (folder / "running").unlink(missing_ok=True)
        before = n_committed(folder)
        process = start(folder)
        while not (folder / "running").exists() and process.poll() is None:
            time.sleep(0.02)
        since, seen = time.monotonic(), before
        enough = before + chance.choice([0, 1, 1, 2])
        while seen < enough and process.poll() is None:
            time.sleep(0.02)
            if n_committed(folder) > seen:
                took, since = time.monotonic() - since, time.monotonic()
                if seen == before:
                    first_takes = took
                else:
                    others_take = took
                seen = n_committed(folder)
        limit = first_takes if seen == before else others_take
        try:
            process.wait(timeout=chance.uniform(0, limit))
        except subprocess.TimeoutExpired:
            kill(process)
            done += 1
            continue
        if process.returncode != 0:
            raise RuntimeError((folder / "driver.log").read_text()[-4000:])
        break
    return run_to_end(folder), done


def compare(folder: Path, *, kills: int, seed: int = 0) -> int:
    """Run undisturbed and with kills; returns the number of kills done.

    Raises
    ------
    AssertionError
        When results or slacks differ.
    """
    recording = record(2, N_TICKS, seed=SEED)
    calm, hunted = folder / "calm", folder / "hunted"
    for each in (calm, hunted):
        recording.write(each / "in")
    expected = run_to_end(calm)
    assert sum(expected.results.values()) > 100
    assert len(set(expected.slacks)) > 1
    found, done = run_with_kills(hunted, kills=kills, seed=seed)
    assert found.slacks == expected.slacks
    assert found.results == expected.results
    return done


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    total = 0
    attempt = 0
    while total < wanted:
        with tempfile.TemporaryDirectory() as made:
            total += compare(Path(made), kills=wanted - total, seed=attempt)
        attempt += 1
    sys.stdout.write(f"{total} kills, same results and same slacks\n")

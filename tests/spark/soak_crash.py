"""Kill a streaming join again and again, and see that nobody can tell from its output.

``python -m tests.spark.soak_crash [KILLS [CASE ...]]``
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
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.kinds import has_nulls
from recalljoin.spark.control_log import ControlLog
from tests.reference.kinds import KindJoin
from tests.reference.model import MINUS_INFINITY
from tests.reference.tick import run_ticks
from tests.spark.crash_cases import CASES, N_TICKS, Case, case_in

if TYPE_CHECKING:
    from recalljoin.spark.report import Report
    from tests.reference.model import StreamTuple
    from tests.spark.recorded import Recording

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    results: Counter[tuple[int | None, ...]]
    """Results the sink has committed."""
    slacks: list[int]
    """K of each batch, from Spark's own log of offsets."""
    reports: list[Report]
    """What the cells have reported of each batch."""
    late: Counter[int]
    """Late tuples that were kept, by their place."""
    n_hot: int
    """Keys that are hot at the end."""

    @property
    def arrived(self) -> list[tuple[int, ...]]:
        """Tuples of each stream, batch by batch."""
        return [report.n_arrived for report in self.reports if report.has_data]


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
    """Read what a run left behind."""
    files: dict[str, bool] = {}
    logs = (folder / "out" / "_spark_metadata").glob("[0-9]*")
    for log in sorted(logs, key=lambda p: int(p.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["path"].partition("://")[2]] = entry["action"] == "add"
    results: Counter[tuple[int | None, ...]] = Counter()
    for path, is_there in files.items():
        if is_there:
            for row in pq.read_table(path).to_pylist():
                results[_members(row)] += 1
    offsets = (folder / "checkpoint" / "offsets").glob("[0-9]*")
    slacks = [
        json.loads(log.read_text().splitlines()[2])["k"]
        for log in sorted(offsets, key=lambda p: int(p.name))
    ]
    control = ControlLog(str(folder / "log"))
    late: Counter[int] = Counter()
    for kept in (folder / "log" / "late").glob("*/*.parquet"):
        late.update(row["place"] for row in pq.read_table(kept).to_pylist() if row["__owned"])
    n_hot = sum(len(keys) for version in control.read_versions()[-1:] for keys in version.hot.keys)
    return Outcome(results, slacks, list(control.reports_after(-1)), late, n_hot)


def _members(row: dict[str, Any]) -> tuple[int | None, ...]:
    """The places of the tuples in a result."""
    if "three" in row:
        return (row["one"], row["two"], row["three"])
    members = (row.get("s1"), row.get("s2"))
    return tuple(each and each["place"] for each in members)


def matches(one: StreamTuple, two: StreamTuple) -> bool:
    """Whether two tuples have the same key."""
    return one.row["a"] is not None and one.row["a"] == two.row["a"]


def check_chained(found: Outcome, recording: Recording, case: Case) -> None:
    """See that a join of a join has every result once: its slack is longer than any delay."""
    s1, s2, s3 = ([e for e in recording.tuples if e.stream == s] for s in range(3))
    pairs = [
        (a, b)
        for a, b in product(s1, s2)
        if matches(a, b) and -case.windows[0] <= a.ts - b.ts <= case.windows[1]
    ]
    expected = [
        (a.arrival, b.arrival, c.arrival)
        for (a, b), c in product(pairs, s3)
        if matches(a, c) and -case.windows[0] <= max(a.ts, b.ts) - c.ts <= case.windows[1]
    ]
    assert found.results == Counter(expected)


def check(found: Outcome, recording: Recording, case: Case) -> None:
    """See that a run is right in itself: results, and how each slack was chosen.

    Spark's file source notes which files a batch gets before Spark notes the batch. Killed between
    the two, it gives the next batch one more file: ticks are then cut otherwise than in a run
    nobody disturbs. So the reference is given the tuples as they were in fact delivered.
    """
    if case.chained:
        check_chained(found, recording, case)
        return
    waiting = [[e for e in recording.tuples if e.stream == s] for s in range(2)]
    delivered = []
    for tick, report in enumerate(found.reports):
        for s, n in enumerate(report.n_arrived):
            delivered += [replace(e, tick=tick) for e in waiting[s][:n]]
            del waiting[s][:n]
    assert waiting == [[], []]
    slacks = [report.k for report in found.reports]
    assert slacks == found.slacks
    query = recording.query(
        case.windows, lambda rows: rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"]
    )
    target = PolicySettings(
        windows=case.windows,
        recall=0.9,
        period=400,
        interval=50,
        granularity=10,
        basic_window=min(10, *case.windows),
    )
    expected = run_ticks(query, delivered, k=lambda n: slacks[n], n_ticks=len(slacks))
    if case.late_rows:
        before = (MINUS_INFINITY, *expected.watermarks)
        late = Counter(e.arrival for e in delivered if e.ts <= before[e.tick])
        assert found.late == late
        assert len(late) > 2
    if case.hot:
        assert found.n_hot >= 1
    if (case.how, case.emit) == ("inner", "ordered"):
        assert found.results == Counter(result.arrivals for result in expected.produced)
    else:
        join = KindJoin(query, how=case.how, emit=case.emit, horizon=found.reports[0].retention)
        for tick, report in enumerate(found.reports):
            join.remember_for(report.retention)
            join.step([e for e in delivered if e.tick == tick], k=report.k)
        join.flush()
        assert found.results == Counter(row.arrivals for row in join.rows)
        assert sum(r.profile.nulls.total for r in found.reports) == len(
            [row for row in join.rows if None in row.arrivals]
        )
        target = replace(target, null_precision=target.recall if has_nulls(case.how) else None)
    adaptation = PolicyPlan(target).adaptation(HorizonPlan(target))
    for report in found.reports:
        assert (report.k, report.retention) == (adaptation.k, adaptation.retention)
        report.show_to(adaptation)


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


def prepare(folder: Path, name: str, n_ticks: int) -> Recording:
    """Make the folder of a case; the tuples that arrive in it."""
    recording = CASES[name].recording(n_ticks)
    recording.write(folder / "in")
    (folder / "case").write_text(name)
    return recording


def hunt(folder: Path, name: str, *, kills: int, n_ticks: int, seed: int = 0) -> int:
    """Run with kills alone and see that the run is right in itself; the number of kills done."""
    recording = prepare(folder, name, n_ticks)
    found, done = run_with_kills(folder, kills=kills, seed=seed)
    check(found, recording, case_in(folder))
    assert sum(found.results.values()) > 10 * n_ticks
    return done


def compare(folder: Path, name: str, *, kills: int, seed: int = 0) -> tuple[int, bool]:
    """Run undisturbed and with kills.

    Returns the number of kills done, and whether batches were cut the same in both.

    Raises
    ------
    AssertionError
        When a run is not right in itself; when batches were cut the same, and results or slacks
        still differ.
    """
    case = CASES[name]
    calm, hunted = folder / "calm", folder / "hunted"
    recording = prepare(calm, name, N_TICKS)
    prepare(hunted, name, N_TICKS)
    expected = run_to_end(calm)
    check(expected, recording, case)
    assert sum(expected.results.values()) > 100
    assert case.chained or len(set(expected.slacks)) > 1
    found, done = run_with_kills(hunted, kills=kills, seed=seed)
    check(found, recording, case)
    same = found.arrived == expected.arrived
    if same:
        assert found.slacks[:N_TICKS] == expected.slacks[:N_TICKS]
        assert found.results == expected.results
    return done, same


def soak(name: str, wanted: int) -> None:
    """Kill a case as often as wanted, in as many runs as that takes."""
    total, attempt = 0, 0
    while total < wanted:
        with tempfile.TemporaryDirectory() as made:
            n_kills, cut_the_same = compare(Path(made), name, kills=wanted - total, seed=attempt)
        total += n_kills
        attempt += 1
        sys.stdout.write(
            f"{name}: {n_kills} kills, right in itself; batches "
            f"{'as in the undisturbed run, and so the output' if cut_the_same else 'cut anew'}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    for each in sys.argv[2:] or CASES:
        soak(each, int(sys.argv[1]) if len(sys.argv) > 1 else 20)

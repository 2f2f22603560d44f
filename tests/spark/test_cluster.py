"""A standalone master with two workers, each a process of its own, on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.reference.tick import run_ticks
from tests.spark.crash_cases import CASES, N_TICKS
from tests.spark.crash_driver import STRAGGLES_IN
from tests.spark.soak_crash import ROOT, prepare, run_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that two workers with one core each have joined."""
    import pyspark

    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        # Executors import the library and, for what is unpickled by name, the tests.
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as sink:
            started.append(
                subprocess.Popen(
                    [str(launcher), *arguments],
                    cwd=tmp_path,
                    env=environment,
                    stdout=sink,
                    stderr=sink,
                )
            )
        return log

    def wait_for(log: Path, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = re.search(pattern, log.read_text())
            if found:
                return found
            time.sleep(0.1)
        message = f"{pattern} is not in\n{log.read_text()}"
        raise AssertionError(message)

    deploy = "org.apache.spark.deploy"

    def at(host: str) -> tuple[str, ...]:
        return ("--host", host, "--port", "0", "--webui-port", "0")

    try:
        log = start("master", f"{deploy}.master.Master", *at("127.0.0.1"))
        address = wait_for(log, r"Starting Spark master at (spark://[\d.]+:\d+)")[1]
        # Spark starts no copy of a task on the machine that runs it: these are two to it.
        for number, host in enumerate(("127.0.0.1", "127.0.0.2")):
            worker = (f"{deploy}.worker.Worker", *at(host), "--cores", "1", "--memory", "1g")
            wait_for(start(f"worker{number}", *worker, address), "Successfully registered with")
        yield address
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=60)


@pytest.mark.timeout(900)
def test_two_executors_and_copies_of_slow_tasks_give_what_the_reference_gives(
    master: str, tmp_path: Path
) -> None:
    recording = prepare(tmp_path, "executors", N_TICKS // 2)
    found = run_to_end(tmp_path, master)
    query = recording.query(
        CASES["executors"].windows,
        lambda rows: rows[0]["a"] is not None and rows[0]["a"] == rows[1]["a"],
    )
    expected = run_ticks(query, recording.tuples, k=lambda n: found.slacks[n])
    assert found.results == Counter(result.arrivals for result in expected.produced)
    assert len(set(found.slacks)) > 1
    # Each executor had its group of cells.
    assert len(list((tmp_path / "work").glob("app-*/*/stderr"))) == 2
    # A task that was slow had a copy on the other executor, which came first.
    copied = {int(path.name) for path in (tmp_path / "copies").iterdir()}
    assert copied == set(STRAGGLES_IN)

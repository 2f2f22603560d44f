"""A driver killed with signal 9 and started again leaves the output it would have left.

One kill here; `make soak` does twenty of each case, and compares with a run nobody disturbs.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.spark.crash_cases import case_in
from tests.spark.soak_crash import check, hunt, n_committed, outcome, prepare, start

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_a_kill_of_an_eager_outer_join_with_late_rows_and_groups_is_not_seen(
    tmp_path: Path,
) -> None:
    assert hunt(tmp_path, "together", kills=1, n_ticks=6, seed=1) == 1


@pytest.mark.timeout(900)
def test_a_kill_of_a_join_of_a_join_is_not_seen_either(tmp_path: Path) -> None:
    assert hunt(tmp_path, "chained", kills=1, n_ticks=4, seed=2) == 1


@pytest.mark.timeout(900)
def test_a_kill_of_a_join_with_hot_keys_is_not_seen(tmp_path: Path) -> None:
    assert hunt(tmp_path, "hot-keys", kills=1, n_ticks=10, seed=3) == 1


def executors(group: int) -> list[int]:
    """The executors among the processes of a group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and os.getpgid(int(folder.name)) == group:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc")
def test_an_executor_that_is_killed_with_its_cells_is_not_missed(tmp_path: Path) -> None:
    recording = prepare(tmp_path, "executors", 6)
    driver = start(tmp_path)
    try:
        while n_committed(tmp_path) < 1 and driver.poll() is None:
            time.sleep(0.02)
        before = executors(driver.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        while not set(executors(driver.pid)) - set(before) and driver.poll() is None:
            time.sleep(0.02)
        assert n_committed(tmp_path) < 6, "the executor was killed too late to be missed"
        assert driver.wait(timeout=600) == 0
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
    found = outcome(tmp_path)
    check(found, recording, case_in(tmp_path))
    assert sum(found.results.values()) > 60

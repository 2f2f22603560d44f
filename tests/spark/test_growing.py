"""A join outgrows its cluster: it goes on with more cells and groups, even if killed on the way."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.spark.batch_planner import versions_in
from tests.spark.crash_cases import CASES, case_in, frames_in
from tests.spark.soak_crash import check, kill, n_committed, outcome, start
from tests.spark.test_streaming_query import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.recorded import Recording

pytestmark = [pytest.mark.spark, pytest.mark.slow]

N_TICKS = 7
HOT = {"hot_keys": {"s1.a": [0]}}


def prepare(folder: Path, name: str, **options: Any) -> Recording:
    """The first ticks of a case, to be run in two cells of one group."""
    recording = CASES[name].recording(N_TICKS)
    recording.write(folder / "in", ticks=range(3))
    (folder / "case").write_text(name)
    ask(folder, cells=2, groups=1, options={"flush": False, **options})
    return recording


def ask(folder: Path, **changes: Any) -> None:
    (folder / "changes").write_text(json.dumps(changes))


def go_on(spark: SparkSession, folder: Path) -> None:
    case = case_in(folder)
    run(case.joined(frames_in(case, spark, folder), folder), folder)


def check_grown(folder: Path, recording: Recording) -> None:
    found = outcome(folder)
    # Spark divides the state in a batch of its own, of which cells know nothing.
    found = replace(found, slacks=[report.k for report in found.reports])
    check(found, recording, case_in(folder))
    cells = [report.n_cells for report in found.reports]
    assert cells == sorted(cells)
    assert (cells[0], cells[-1]) == (2, 4)
    assert cells.count(4) > 3
    assert sum(found.results.values()) > 10 * N_TICKS


def n_partitions(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "state" / "0").glob("[0-9]*")))


@pytest.mark.timeout(600)
def test_a_join_goes_on_in_more_cells_and_groups(spark: SparkSession, tmp_path: Path) -> None:
    import recalljoin as rj

    recording = prepare(tmp_path, "late-rows", **HOT)
    go_on(spark, tmp_path)
    assert n_partitions(tmp_path) == 1
    checkpoint = str(tmp_path / "checkpoint")
    commits = tmp_path / "checkpoint" / "commits"
    last = max((each for each in commits.glob("[0-9]*")), key=lambda each: int(each.name))
    last.rename(tmp_path / "kept")
    with pytest.raises(InvalidSetting, match=r"has a batch that has not ended\. Stop the query if"):
        rj.grow(spark, checkpoint, groups=2, output=None)
    (tmp_path / "kept").rename(last)
    out = str(tmp_path / "out")
    assert rj.grow(spark, checkpoint, groups=2, output=None)
    # The file sink's log lacks the number of the batch: told so later, too, but no other folder is.
    assert not rj.grow(spark, checkpoint, groups=2, output=out)
    with pytest.raises(InvalidSetting, match="is not the folder that this query writes files to"):
        rj.grow(spark, checkpoint, groups=2, output=str(tmp_path / "in"))
    # As if killed before it was done: it says with which number to go on.
    divided = int(last.name) + 1
    for name in (str(divided), f".{divided}.crc"):
        (commits / name).unlink()
    with pytest.raises(InvalidSetting, match="is in the middle of a change to 2 groups; call this"):
        rj.grow(spark, checkpoint, groups=3, output=out)
    assert rj.grow(spark, checkpoint, groups=2, output=out)
    assert n_partitions(tmp_path) == 2
    recording.write(tmp_path / "in", ticks=range(3, N_TICKS))
    ask(tmp_path, cells=4, groups=2, options=HOT)
    go_on(spark, tmp_path)
    # Spark has put the entries of the first ten batches together.
    assert (tmp_path / "out" / "_spark_metadata" / "9.compact").exists()
    check_grown(tmp_path, recording)


def test_a_checkpoint_without_a_whole_batch_cannot_grow(
    spark: SparkSession, tmp_path: Path
) -> None:
    import recalljoin as rj

    with pytest.raises(InvalidSetting, match="has no batch that has ended, or is no checkpoint"):
        rj.grow(spark, str(tmp_path), groups=2, output=None)
    with pytest.raises(InvalidSetting, match="`groups` must be 1 or more, got 0"):
        rj.grow(spark, str(tmp_path), groups=0, output=None)


@pytest.mark.timeout(600)
def test_a_kill_in_the_first_batch_of_the_new_cells_is_not_seen(
    spark: SparkSession, tmp_path: Path
) -> None:
    recording = prepare(tmp_path, "together")
    go_on(spark, tmp_path)
    recording.write(tmp_path / "in", ticks=range(3, N_TICKS))
    ask(tmp_path, cells=4, groups=2)
    process = start(tmp_path)
    since = None
    while since is None or n_committed(tmp_path) < since:
        assert process.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        time.sleep(0.01)
        moves = list((tmp_path / "log" / "moves").glob("[0-9]*"))
        since = int(moves[0].name) if moves else None
    kill(process)
    offset = (tmp_path / "checkpoint" / "offsets" / str(since - 1)).read_text().splitlines()[2]
    assert versions_in(json.loads(offset))[-1][2:] == ((4,), 2)
    go_on(spark, tmp_path)
    check_grown(tmp_path, recording)

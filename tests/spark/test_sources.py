"""Sources in a running join: planned, joined in cells and restarted as Spark would do it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recalljoin.errors import InvalidSetting
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.progress import progress_table
from recalljoin.spark.report import FEW_SOURCES, Report
from recalljoin.spark.source_figures import lags_within, sources_table
from tests.spark.live import MINUTE, SECOND, Feed, Live

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.engine.arrays import Int64s

LENGTH = 6 * MINUTE
EVERY = 200
DEVICES = 5


def held_back(ts: Int64s, at: Int64s, mine: Any, begin: int, end: int) -> None:
    """Let tuples of some times arrive when a silence is over."""
    held = mine & (ts >= begin) & (ts < end)
    at[held] = end + (ts[held] - begin) // 50


def devices(
    seed: int, *, length: int = LENGTH, silences: int = 20, dies: int | None = None
) -> Feed:
    """Devices that send regularly, fall silent now and then, and catch up."""
    random = np.random.default_rng(seed)
    ts = np.concatenate([np.arange(n * EVERY // DEVICES, length, EVERY) for n in range(DEVICES)])
    device = np.repeat(np.arange(DEVICES), len(ts) // DEVICES)
    at = ts + random.integers(0, 50, len(ts))
    for begin in np.linspace(20 * SECOND, length - MINUTE, silences).astype(int).tolist():
        who = random.integers(0, DEVICES)
        held_back(ts, at, device == who, begin, begin + int(random.uniform(3, 9) * SECOND))
    alive = np.ones(len(ts), dtype=np.bool_) if dies is None else (device != 0) | (ts < dies)
    key = random.integers(0, 4, len(ts))
    return Feed.of(ts[alive], key[alive], at[alive], device[alive])


def feeds(seed: int, **more: Any) -> list[Feed]:
    """Two streams."""
    return [devices(2 * seed, **more), devices(2 * seed + 1, **more)]


def live(folder: Path, streams: list[Feed], **more: Any) -> Live:
    """A join that waits for sources."""
    settings: dict[str, Any] = {"recall": 0.99, "source": "device"} | more
    return Live(folder, streams, **settings)


def test_a_join_that_waits_for_sources_waits_less_and_loses_less(tmp_path: Path) -> None:
    streams = feeds(1)
    without = live(tmp_path / "without", streams, source=None).run(LENGTH, batch=SECOND)
    join = live(tmp_path / "with", streams).run(LENGTH, batch=SECOND)
    assert (join.recalls(3 * MINUTE) >= 0.99).mean() >= 0.95
    waits = [
        np.array(progress_table(each.every_batch)["wait"].to_pylist()[180:]).mean()
        for each in (without, join)
    ]
    assert waits[1] < waits[0] / 2
    progress = progress_table(join.every_batch).to_pylist()
    held = [row for row in progress[180:] if row["held_by"] is not None]
    assert held
    assert all(row["held_for"] > row["lead"] for row in held)
    assert {row["held_by"] for row in held} <= set(map(str, range(DEVICES)))
    assert {row["sources"] for row in progress[10:]} == {2 * DEVICES}


def test_the_sources_furthest_behind_are_told_by_name(tmp_path: Path) -> None:
    streams = feeds(1, length=2 * MINUTE, silences=0)
    # Devices 1 and 3 of the first stream fall silent one after the other, and do not come back.
    first = streams[0]
    silent = [(1, 80 * SECOND), (3, 85 * SECOND)]
    gone = [(first.device == who) & (first.ts >= since) for who, since in silent]
    kept = ~(gone[0] | gone[1])
    assert first.device is not None
    streams[0] = Feed.of(first.ts[kept], first.key[kept], first.at[kept], first.device[kept])
    runs = [live(tmp_path / name, streams, cells=n) for name, n in (("one", 1), ("three", 3))]
    told = []
    for join in runs:
        for until in (60, 95):
            join.run(until * SECOND, batch=SECOND)
            join.start()
        told.append(progress_table(join.every_batch)["furthest_behind"].to_pylist())
    last = told[0][-1]
    assert [each["source"] for each in last[:2]] == ["1", "3"]
    for each, since in zip(last, (80, 85), strict=False):
        assert abs(each["behind"] - timedelta(seconds=95 - since)) < timedelta(milliseconds=500)
    assert len(last) == 5
    assert all(each["behind"] < timedelta(seconds=1) for each in last[2:])
    assert told[1] == told[0]


def test_every_source_is_told_with_its_stream_and_how_far_all_are(tmp_path: Path) -> None:
    streams = feeds(1, length=MINUTE, silences=0)
    first = streams[0]
    assert first.device is not None
    kept = (first.device != 1) | (first.ts < 30 * SECOND)
    streams[0] = Feed.of(first.ts[kept], first.key[kept], first.at[kept], first.device[kept])
    for name, cells in (("one", 1), ("three", 3)):
        join = live(tmp_path / name, streams, cells=cells).run(40 * SECOND, batch=SECOND)
        last = join.every_batch.last_report()
        assert last is not None
        told = sources_table(last).to_pylist()
        assert {(row["stream"], row["source"]) for row in told} == {
            (stream, str(device)) for stream in ("s0", "s1") for device in range(DEVICES)
        }
        assert (told[0]["stream"], told[0]["source"]) == ("s0", "1")
        assert abs(told[0]["behind"] - timedelta(seconds=10)) < timedelta(milliseconds=500)
        assert told[0]["time"] < 30 * SECOND
        # One that is ahead of the slowest stream is not behind.
        assert told[-1]["behind"] == timedelta(0)
        behind = sorted(row["behind"] for row in told)
        within = progress_table(join.every_batch)["sources_behind"].to_pylist()[-1]
        assert within == {"p50": behind[4], "p90": behind[8], "p99": behind[9]}


def test_a_join_without_sources_tells_of_none(tmp_path: Path) -> None:
    join = live(tmp_path, feeds(1, length=MINUTE), source=None).run(10 * SECOND, batch=SECOND)
    assert sources_table(join.every_batch.last_report()).num_rows == 0
    assert set(progress_table(join.every_batch)["sources_behind"].to_pylist()) == {None}
    assert sources_table(None).num_rows == 0


def test_old_batches_keep_the_few_sources_that_were_furthest_behind(tmp_path: Path) -> None:
    join = live(tmp_path, feeds(1, length=3 * MINUTE)).run(150 * SECOND, batch=SECOND)
    log = ControlLog(join.log)
    n_told = [len(report.furthest) for report in log.reports_after(-1)]
    # The newest batches have reports of their own, the others share files.
    filed = max(last for last, _ in log.files())
    assert set(n_told[1 : filed + 1]) == {FEW_SOURCES}
    assert set(n_told[filed + 1 :]) == {2 * DEVICES}


def test_what_an_earlier_release_told_of_sources_is_read(tmp_path: Path) -> None:
    join = live(tmp_path, feeds(1, length=MINUTE)).run(10 * SECOND, batch=SECOND)
    last = join.every_batch.last_report()
    assert last is not None
    content = json.loads(last.to_json())
    del content["source_clocks"]
    content["furthest"] = [["3", 5_000], ["1", 6_000]]
    old = Report.from_json(json.dumps(content))
    (one, other) = sources_table(old).to_pylist()
    assert (one["source"], one["stream"], one["time"]) == ("3", None, 5_000)
    assert one["behind"] - other["behind"] == timedelta(seconds=1)
    assert lags_within(old) == {}


def test_cells_and_restarts_change_nothing(tmp_path: Path) -> None:
    streams = feeds(2, length=2 * MINUTE, silences=10)
    runs = []
    for name, cells in (("one", 1), ("three", 3), ("again", 2)):
        join = live(tmp_path / name, streams, cells=cells)
        for until, then in ((50, 5), (80, 1), (120, 2)) if name == "again" else ((120, cells),):
            join.run(until * SECOND, batch=SECOND)
            join.start(cells=then)
        runs.append(join)
    assert runs[2].plan.cells.log is not None
    n_cells = [report.n_cells for report in runs[2].plan.cells.log.reports_after(-1)]
    assert n_cells == [2] * 52 + [5] * 30 + [1] * 38
    held_by = [progress_table(each.every_batch)["held_by"].to_pylist() for each in runs]
    assert any(held_by[0])
    assert held_by[2] == held_by[0]
    assert max(runs[0].k) > 0
    leads = [progress_table(each.every_batch)["lead"].to_pylist() for each in runs]
    assert any(lead is not None for lead in leads[0])
    for other, of_other in zip(runs[1:], leads[1:], strict=True):
        assert of_other == leads[0]
        assert other.watermarks == runs[0].watermarks
        assert (other.produced.ts == runs[0].produced.ts).all()
        assert (other.produced.until == runs[0].produced.until).all()


def test_hot_keys_change_nothing(tmp_path: Path) -> None:
    streams = feeds(2, length=2 * MINUTE, silences=10)
    one = live(tmp_path / "one", streams).run(2 * MINUTE, batch=SECOND)
    spread = live(tmp_path / "hot", streams, cells=4, hot_keys={"s0.a": [0, 3]})
    for until, then in ((50, 4), (80, 2), (120, 2)):
        spread.run(until * SECOND, batch=SECOND)
        spread.start(cells=then)
    for name in ("held_by", "lead", "wait"):
        found = [progress_table(each.every_batch)[name].to_pylist() for each in (one, spread)]
        assert any(found[0])
        assert found[1] == found[0]
    assert spread.watermarks == one.watermarks
    assert (spread.produced.ts == one.produced.ts).all()
    assert (spread.produced.until == one.produced.until).all()


def test_a_source_that_dies_holds_the_join_for_two_periods_at_most(tmp_path: Path) -> None:
    dies = 3 * MINUTE
    join = live(tmp_path, feeds(3, dies=dies)).run(LENGTH, batch=SECOND)
    progress = progress_table(join.every_batch).to_pylist()
    assert max(row["wait"] for row in progress[180:]) > timedelta(seconds=20)
    held = [row["base_time"] for row in progress if row["held_by"] == "0" and row["batch"] > 190]
    assert held
    after = [row["wait"] for row, at in zip(progress, join.at, strict=True) if at > dies + 125_000]
    assert max(after) < timedelta(seconds=15)


def test_no_source_is_waited_for_longer_than_max_wait(tmp_path: Path) -> None:
    quality = {"max_wait": "5 seconds"}
    join = live(tmp_path, feeds(3, length=4 * MINUTE, dies=2 * MINUTE), quality=quality)
    join.run(4 * MINUTE, batch=SECOND)
    waits = progress_table(join.every_batch)["wait"].to_pylist()
    assert max(wait for wait in waits[60:] if wait is not None) <= timedelta(seconds=5)


def stopped(minutes: int, silences: int) -> list[Feed]:
    """Streams that are not read for some minutes.

    Then each source is read as fast as it goes, and some are minutes ahead.
    """
    stop, length = 3 * MINUTE, LENGTH + (minutes - 1) * MINUTE
    back = stop + minutes * MINUTE
    streams = []
    for feed in feeds(4, silences=silences, length=length):
        assert feed.device is not None
        at = feed.at.copy()
        backlog = (at >= stop) & (at < back)
        # Device n reads its backlog in n + 1 batches of a second.
        speed = (feed.device + 1) * SECOND
        at[backlog] = back + ((at[backlog] - stop) * speed[backlog]) // (back - stop)
        at[~backlog & (at >= back)] = np.maximum(at[~backlog & (at >= back)], back + 6 * SECOND)
        streams.append(Feed.of(feed.ts, feed.key, at, feed.device))
    return streams


def run_with_a_stop(join: Live, minutes: int) -> tuple[float, float]:
    """Recall before the stop, and of the time of the stop."""
    stop = 3 * MINUTE
    back = stop + minutes * MINUTE
    join.run(stop, batch=SECOND)
    join.start()
    join.now = back
    join.run(LENGTH + (minutes - 1) * MINUTE, batch=SECOND)
    return join.recall(MINUTE, stop - MINUTE), join.recall(stop, back)


@pytest.mark.parametrize(("recall", "minutes", "silences"), [(0.99, 1, 20), (0.95, 3, 0)])
def test_sources_that_run_apart_in_a_backlog_cost_no_recall(
    recall: float, minutes: int, silences: int, tmp_path: Path
) -> None:
    streams = stopped(minutes, silences)
    before, after = run_with_a_stop(live(tmp_path, streams, recall=recall), minutes)
    assert after >= min(before, recall)


@pytest.mark.parametrize(("recall", "minutes"), [(0.95, 3), (0.99, 2)])
def test_partitions_of_a_backlog_that_no_query_names_cost_no_recall(
    recall: float, minutes: int, tmp_path: Path
) -> None:
    streams = stopped(minutes, silences=0)
    more = {"recall": recall, "source": None}
    off = live(tmp_path / "off", streams, **more, partitions=True, follow_partitions=False)
    assert run_with_a_stop(off, minutes)[1] < 0.8
    join = live(tmp_path / "on", streams, **more, partitions=True)
    before, after = run_with_a_stop(join, minutes)
    assert after >= min(before, recall)
    # While all is well, nobody is waited for.
    n = 3 * MINUTE // SECOND
    assert join.k[:n] == off.k[:n]
    assert join.watermarks[:n] == off.watermarks[:n]
    assert {row["lead"] for row in progress_table(join.every_batch).to_pylist()[:n]} == {None}


def test_a_checkpoint_that_began_without_partitions_goes_on_without(tmp_path: Path) -> None:
    streams = stopped(3, silences=0)
    more = {"recall": 0.95, "source": None, "partitions": True}
    join = live(tmp_path, streams, **more, follow_partitions=False)
    join.run(3 * MINUTE, batch=SECOND)
    join._run = replace(join._run, follow_partitions=True)
    _, after = run_with_a_stop(join, 3)
    assert after < 0.8
    assert set(progress_table(join.every_batch)["sources"].to_pylist()) == {None}


def test_partitions_that_were_no_longer_followed_are_not_followed_again(tmp_path: Path) -> None:
    streams = feeds(5, length=MINUTE, silences=1)
    join = live(tmp_path, streams, recall=0.95, source=None, partitions=True)
    for follow, until in ((True, 10), (False, 20), (True, 30)):
        join._run = replace(join._run, follow_partitions=follow)
        join.start()
        join.run(until * SECOND, batch=SECOND)
    sources = progress_table(join.every_batch)["sources"].to_pylist()
    assert set(sources[1:10]) == {2 * DEVICES}
    assert set(sources[10:]) == {None}


def test_partitions_are_followed_or_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="`follow_partitions` must be True or False, got 3"):
        live(tmp_path, feeds(5, length=MINUTE, silences=1), follow_partitions=3)


def test_a_checkpoint_keeps_its_sources(tmp_path: Path) -> None:
    streams = feeds(5, length=MINUTE, silences=1)
    join = live(tmp_path, streams, source=None).run(10 * SECOND, batch=SECOND)
    other = live(tmp_path, streams)
    other._offset = join._offset
    with pytest.raises(InvalidSetting, match="sources"):
        other.run(11 * SECOND, batch=SECOND)


def test_sources_need_ticks(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="leave arrival='tuple' out"):
        live(tmp_path, feeds(5, length=MINUTE, silences=1), arrival="tuple")

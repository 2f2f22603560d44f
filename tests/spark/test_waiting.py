"""A stream that is behind: what may wait for it, and what becomes of what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.engine.times import NEVER
from recalljoin.errors import BufferFull, InvalidSetting
from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.query.model import Query, Stream
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.progress import progress_table
from recalljoin.spark.waiting import SILENT_BATCHES, WaitLimits
from tests.spark.local_cells import LocalJoin
from tests.spark.test_control import BOUND, NO_LIMIT, SCHEMA, SETTINGS, control_of, reader
from tests.spark.test_extreme_times import planned

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.quality.policy import State
    from recalljoin.spark.report import Report

N = 100
"""Tuples of a stream in a batch of 100 ms."""


def times(batch: int, n: int = N) -> pa.Table:
    return pa.table({"ts": np.arange(100 * batch, 100 * batch + n), "a": [1] * n}, schema=SCHEMA)


NOTHING = SCHEMA.empty_table()


class Join:
    """A join of two streams in two cells with a fixed K of 20, batch by batch."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.now = 1000.0
        monkeypatch.setattr("recalljoin.spark.batch_planner.time.time", lambda: self.now)
        monkeypatch.setattr("recalljoin.spark.batch_planner._SHORTEST_LOOK", 0.0)
        self._how: State = {
            "policy": PolicyPlan(SETTINGS, "fixed", {"k": 20}),
            "limits": WaitLimits(**limits),
        }
        self._folder = folder
        self.source = reader(folder, **self._how)
        self.cells = LocalJoin(BOUND, 2, folder)
        self.offset = self.source.initialOffset()
        self.releases: list[int | None] = []
        self.reports: list[Report] = []
        self.n_results = 0

    def batch(self, *tables: pa.Table, seconds: float = 1.0, forget: bool = False) -> Report:
        self.now += seconds
        after = self.source.latestOffset(self.offset, NO_LIMIT)
        assert after["n"] > self.offset["n"]
        again = reader(self._folder, **self._how).latestOffset(self.offset, NO_LIMIT)
        assert again["release"] == after["release"]
        control = control_of(self.source, self.offset, after)
        results, report = self.cells.batch(list(tables), control=control, forget=forget)
        self.n_results += sum(each.num_rows for each in results)
        self.offset = after
        self.releases.append(after["release"])
        self.reports.append(report)
        return report

    @property
    def is_planned(self) -> bool:
        """Whether a batch without data is planned now."""
        return bool(self.source.latestOffset(self.offset, NO_LIMIT) != self.offset)


def test_without_a_limit_everything_waits_for_a_stream_that_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_buffered=None, buffer_memory=None)
    join.batch(times(0), times(0))
    for n in range(1, 30):
        join.batch(times(n), NOTHING)
    assert join.reports[-1].n_buffered == 29 * N + 2 * 20
    assert set(join.releases) == {None}


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("limits", [{"max_buffered": 500}, {"buffer_memory": 30_000}])
def test_the_oldest_tuples_are_released_when_too_many_wait(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    limits: dict[str, int],
    forget: bool,
) -> None:
    join = Join(tmp_path, monkeypatch, **limits)
    join.batch(times(0), times(0))
    for n in range(1, 40):
        report = join.batch(times(n), NOTHING, forget=forget)
        assert report.n_buffered <= 500 + N
        assert report.buffered_bytes <= 40_000
    released = [time for time in join.releases if time is not None]
    assert 3 < len(released) < 20
    assert released == sorted(released)
    n_early = sum(report.n_early for report in join.reports)
    assert n_early == 41 * N - 2 * 80 - join.reports[-1].n_buffered
    # When the stream comes back, its old tuples are late, and what is lost with them is counted.
    before = join.n_results
    report = join.batch(times(40), times(35), forget=forget)
    assert report.profile.n_late == N
    assert report.profile.n_lost > 0
    join.batch(times(41), times(41), forget=forget)
    assert join.n_results > before
    table = progress_table(ControlLog(str(tmp_path)))
    assert table["total_released_early"].to_pylist()[-1] == n_early
    assert table["buffered_bytes"].to_pylist()[1] > 0
    full = [r.message for r in caplog.records if "wait, more than `max_buffered`" in r.message]
    assert "stream `s2` is the furthest behind" in full[0]


def test_a_stream_that_trickles_far_behind_does_not_fill_the_memory_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_buffered=500)
    for n in range(40):
        report = join.batch(times(n), times(n // 10, 5))
        assert report.n_buffered <= 500 + 2 * N
    assert join.reports[-1].watermark > 3000


def test_a_stream_that_never_begins_does_not_fill_the_memory_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_buffered=500)
    for n in range(40):
        assert join.batch(times(n), NOTHING).n_buffered <= 500 + N
    assert join.reports[-1].local_times[1] == NEVER
    assert join.reports[-1].watermark > 3000


def test_tuples_of_one_time_are_released_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_buffered=500)
    same = pa.table({"ts": [1000] * N, "a": [1] * N}, schema=SCHEMA)
    join.batch(times(0), times(0))
    for _ in range(40):
        assert join.batch(same, NOTHING).n_buffered <= 500 + 5 * N


def test_a_query_may_be_asked_to_stop_instead_and_stops_until_it_may_hold_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_buffered=500, when_full="stop")
    join.batch(times(0), times(0))
    for n in range(1, 6):
        join.batch(times(n), NOTHING)
    with pytest.raises(BufferFull) as caught:
        join.batch(times(6), NOTHING)
    assert str(caught.value) == (
        "540 tuples (0 MB) wait, more than `max_buffered` or `buffer_memory` allow, and "
        "when_full='stop' asks to stop then; stream `s2` is the furthest behind. Start the query "
        "again from its checkpoint with a larger limit, with `idle_after`, or with "
        "when_full='release'"
    )
    stopped = reader(tmp_path, limits=WaitLimits(max_buffered=500, when_full="stop"))
    with pytest.raises(BufferFull):
        stopped.latestOffset(join.offset, NO_LIMIT)
    more = reader(tmp_path, limits=WaitLimits(max_buffered=5000, when_full="stop"))
    assert more.latestOffset(join.offset, NO_LIMIT)["release"] is None


def test_a_stream_that_is_silent_for_longer_than_the_longest_wait_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    join = Join(tmp_path, monkeypatch, max_wait=10_000)
    join.batch(times(0), times(0))
    for n in range(1, 10):
        join.batch(times(n), NOTHING)
        assert join.reports[-1].watermark == 79
    for n in range(10, 20):
        join.batch(times(n), NOTHING)
    # As far as the other stream had come a batch before, less K.
    assert join.reports[-1].watermark == 1899 - 20
    # The reader that starts anew with every batch of this test says the same once more.
    (said,) = {r.message for r in caplog.records if r.name == "recalljoin.spark.waiting"}
    assert said.startswith("stream `s2` has had no tuple for longer than `max_wait`: ")
    # It is waited for again once it is back.
    join.batch(times(20), times(20))
    join.batch(times(21), NOTHING)
    join.batch(times(22), NOTHING)
    assert join.reports[-1].watermark == 2099 - 20
    back = "stream `s2` has tuples again: other streams wait for it again"
    assert back in {record.message for record in caplog.records}


def test_long_batches_do_not_make_a_stream_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_wait=10_000)
    for n in range(20):
        join.batch(times(n), times(n) if n % SILENT_BATCHES == 0 else NOTHING, seconds=60)
    assert set(join.releases) == {None}


def test_a_batch_is_planned_for_what_is_to_be_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_wait=10_000)
    join.batch(times(0), times(0))
    for n in range(1, 5):
        join.batch(times(n), NOTHING)
    join.batch(NOTHING, NOTHING)
    # Batches without any task have no data, so that nothing is planned until it is time.
    join.batch()
    assert not join.is_planned
    join.now += 10
    assert join.is_planned
    assert join.batch().watermark == 499 - 20
    assert not join.is_planned


def test_in_a_bounded_run_no_stream_is_left_behind_for_being_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Join(tmp_path, monkeypatch, max_wait=10)
    join.source.prepareForTriggerAvailableNow()
    after = join.offset
    for n in range(8):
        after = join.source.latestOffset(join.offset, NO_LIMIT)
        control = control_of(join.source, join.offset, after)
        join.cells.batch([times(n), times(n) if n == 0 else NOTHING], control=control)
        join.now += 100
        join.offset = after
        assert after["release"] is None


def test_tuples_one_by_one_are_released_all_at_once(tmp_path: Path) -> None:
    query = Query(streams=[Stream("x", window=50), Stream("y", window=50)], condition="x.a = y.a")
    plan = planned(query, str(tmp_path), k=20, arrival="tuple", max_buffered=500)
    from recalljoin.spark.control import ControlReader
    from recalljoin.spark.delivery import deliver
    from recalljoin.spark.sealed import Sealed
    from tests.spark.local_cells import Cells

    source, cells = ControlReader(Sealed.of(plan.control(flush=False))), Cells(plan.cells)
    offset = source.initialOffset()
    schema = plan.query.streams[0].schema
    n_early = n_released = 0
    for n in range(40):
        after = source.latestOffset(offset, NO_LIMIT)
        (part,) = source.partitions(offset, after)
        _, _, head, body = next(iter(source.read(part)))
        control = deliver(plan.cells.query, [(head, body)]).control
        rows = times(n).append_column("at", pa.array(np.arange(N))).cast(schema)
        tables = [rows, rows if n == 0 else rows.slice(0, 0)]
        _, report = cells.batch(tables, control=control, forget=n % 3 == 0)
        assert report.n_buffered <= 500 + 2 * N
        n_early += report.n_early
        n_released += after["release"] is not None
        offset = after
    assert n_released >= 5
    assert n_early > 2500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_buffered": 0}, "`max_buffered` must be a number of tuples, 1 or more, or None, got"),
        ({"max_buffered": "9"}, "`max_buffered` must be a number of tuples, 1 or more, or None"),
        ({"buffer_memory": "9"}, "`buffer_memory` of '9' has no unit"),
        ({"when_full": "drop"}, "`when_full` must be 'release' or 'stop', got 'drop'"),
    ],
)
def test_limits_that_cannot_be_are_refused(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    query = Query(streams=[Stream("x", window=50), Stream("y", window=50)], condition="x.a = y.a")
    with pytest.raises(InvalidSetting, match=message):
        planned(query, str(tmp_path), k=20, as_timestamps=False, **given)


def test_limits_are_generous_and_on_by_default(tmp_path: Path) -> None:
    query = Query(streams=[Stream("x", window=50), Stream("y", window=50)], condition="x.a = y.a")
    limits = planned(query, str(tmp_path), k=20).control(flush=False).limits
    assert (limits.max_buffered, limits.buffer_memory) == (20_000_000, 4_000_000_000)
    assert (limits.when_full, limits.max_wait) == ("release", None)

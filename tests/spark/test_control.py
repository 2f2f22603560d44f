"""The control source decides K once a batch, keeps time, and comes to an end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from recalljoin.errors import InvalidSetting, StateVersionError
from recalljoin.quality.adaptation import PolicyPlan, plan_policy
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream
from recalljoin.spark.batch_planner import ControlPlan
from recalljoin.spark.cells import Layout, make_grid
from recalljoin.spark.control import ControlReader
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.delivery import deliver
from recalljoin.spark.identity import check_identity
from recalljoin.spark.packing import Control
from recalljoin.spark.planning import identity_of
from recalljoin.spark.sealed import Sealed
from tests.spark.local_cells import LocalJoin

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.datasource import ReadLimit

    from recalljoin.query.kinds import How

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})
SETTINGS = PolicySettings(windows=(50, 50), recall=0.9, period=500, interval=50, granularity=1)
BOUND = Query(
    streams=[Stream("s1", window=50), Stream("s2", window=50)], condition="s1.a = s2.a"
).bind({"s1": SCHEMA, "s2": SCHEMA})
IDENTITY = json.dumps({"condition": "s1.a = s2.a"})
NO_LIMIT: ReadLimit = None  # type: ignore[assignment]


def ticks(n: int) -> list[list[pa.Table]]:
    random = np.random.default_rng(3)
    made = []
    for tick in range(n):
        both = []
        for _ in range(2):
            ts = tick * 50 + random.integers(0, 50, 40) - random.choice([0, 0, 30], 40)
            both.append(pa.table({"ts": ts, "a": random.integers(0, 3, 40)}, schema=SCHEMA))
        made.append(both)
    return made


def reader(folder: Path, **more: Any) -> ControlReader:
    settings: dict[str, Any] = {
        "log": ControlLog(str(folder)),
        "layout": Layout(make_grid(BOUND, 2), 2),
        "identity": IDENTITY,
        "policy": PolicyPlan(SETTINGS, "percentile"),
        "horizon": HorizonPlan(SETTINGS),
        **more,
    }
    return ControlReader(Sealed.of(ControlPlan(**settings)))


def words(source: ControlReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    return [row for part in source.partitions(start, end) for row in source.read(part)]


def control_of(source: ControlReader, start: dict[str, Any], end: dict[str, Any]) -> Control:
    rows = words(source, start, end)
    assert [row[:2] for row in rows] == [(2, 0), (0, 1)]
    control = deliver(BOUND, [(rows[0][2], rows[0][3])]).control
    assert control is not None
    return control


def test_a_bounded_run_ends_after_one_batch_without_data(tmp_path: Path) -> None:
    source = reader(tmp_path)
    source.prepareForTriggerAvailableNow()
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    for tables in [*ticks(3), []]:
        after = source.latestOffset(offset, NO_LIMIT)
        assert after["n"] == offset["n"] + 1
        join.batch(tables, control=control_of(source, offset, after))
        offset = after
    assert source.latestOffset(offset, NO_LIMIT) == offset
    assert words(source, offset, offset) == []


def test_a_bounded_run_flushes_when_two_batches_had_no_data(tmp_path: Path) -> None:
    source = reader(tmp_path, flush=True)
    source.prepareForTriggerAvailableNow()
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    flushes, n_buffered = [], []
    for tables in [*ticks(2), [], []]:
        after = source.latestOffset(offset, NO_LIMIT)
        control = control_of(source, offset, after)
        flushes.append(control.flush)
        n_buffered.append(join.batch(tables, control=control)[1].n_buffered)
        offset = after
    assert flushes == [False, False, False, True]
    assert n_buffered[-2] > n_buffered[-1] == 0
    assert source.latestOffset(offset, NO_LIMIT) == offset


def test_slacks_are_the_same_when_the_reader_starts_again_anywhere(tmp_path: Path) -> None:
    source = reader(tmp_path)
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    for tables in ticks(8):
        after = source.latestOffset(offset, NO_LIMIT)
        again = reader(tmp_path).latestOffset(offset, NO_LIMIT)
        assert (again["k"], again["retention"]) == (after["k"], after["retention"])
        join.batch(tables, control=control_of(source, offset, after))
        offset = after
    assert offset["k"] > 0


def test_without_data_it_waits_for_the_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("recalljoin.spark.batch_planner.time.time", lambda: now)
    source = reader(tmp_path, heartbeat=500)
    join = LocalJoin(BOUND, 2, tmp_path)
    first = source.latestOffset(source.initialOffset(), NO_LIMIT)
    join.batch([], control=control_of(source, source.initialOffset(), first))
    monkeypatch.setattr("recalljoin.spark.batch_planner._SHORTEST_LOOK", 0.0)
    now = 1000.4
    assert source.latestOffset(first, NO_LIMIT) == first
    now = 1000.5
    assert source.latestOffset(first, NO_LIMIT)["n"] == first["n"] + 1


def test_the_clock_in_offsets_never_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recalljoin.spark.batch_planner.time.time", lambda: 5.0)
    source = reader(tmp_path)
    start = {**source.initialOffset(), "clock": 9_000}
    assert source.latestOffset(start, NO_LIMIT)["clock"] == 9_000


def test_a_checkpoint_of_another_join_is_refused_and_what_changed_is_named(tmp_path: Path) -> None:
    source = reader(tmp_path)
    old = {**source.initialOffset(), "identity": json.dumps({"condition": "s1.a = s2.b"})}
    with pytest.raises(InvalidSetting) as caught:
        source.latestOffset(old, NO_LIMIT)
    assert str(caught.value) == (
        "the checkpoint belongs to another join; changed:\n  `condition`: was s1.a = s2.b, is "
        "s1.a = s2.a\n"
        "On an old checkpoint recall, period, interval, max_wait, policy, idle_after, flush and "
        "the numbers of cells and groups may change; streams and their order, windows, condition "
        "and columns may not. Put them back as they were, or start with a new checkpoint and a new "
        "control log"
    )
    with pytest.raises(InvalidSetting, match="belongs to another join"):
        source.partitions(old, old)


def test_a_checkpoint_with_its_streams_in_another_order_is_refused() -> None:
    # Spark's offsets and the state go by the numbers of streams: they would change places.
    one, other = ({"streams": dict.fromkeys(names, "window 5 ms")} for names in ("ab", "ba"))
    check_identity(json.dumps(one), json.dumps(one))
    with pytest.raises(InvalidSetting, match="`streams`: was a, b, is b, a\n"):
        check_identity(json.dumps(one), json.dumps(other))


def test_what_changed_is_told_in_the_words_of_the_query() -> None:
    def identity(window: str, how: How, on: str) -> str:
        streams = [Stream("s1", window=window), Stream("s2", window=0)]
        schema = pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()})
        bound = Query(streams=streams, condition=on, how=how).bind({"s1": schema, "s2": schema})
        return identity_of(bound)

    old = identity("1 minute", "inner", "s1.a = s2.a")
    check_identity(old, old)
    with pytest.raises(InvalidSetting) as caught:
        check_identity(old, identity("2 minutes", "left", "s1.a = s2.a AND s1.ts < s2.ts"))
    lines = str(caught.value).splitlines()[1:-1]
    assert lines[0] == ("  `streams` of `s1`: was window 1 min, time ts, is window 2 min, time ts")
    assert lines[1].startswith("  `condition`: was s1.a = s2.a, is s1.a = s2.a, ")
    assert lines[2:] == ["  `how`: was inner, is left"]


def test_expressions_that_spark_computes_are_told_as_they_were_written() -> None:
    def identity(name: str) -> str:
        # Names of such columns have points of another kind, and types that have brackets.
        column = f"=i\u2024ad\u2024{name}"
        key = f"Column(stream=0, name='{column}', type=Decimal128Type(decimal128(10, 2)))"
        return json.dumps({
            "streams": dict.fromkeys("ic", "window 5 ms, time ts"),
            "condition": [f"{key} = Column(stream=1, name='id', type=DataType(string))"],
            "columns": {"i": f"ts timestamp[us], {column} decimal128(10, 2)", "c": "id string"},
        })  # fmt: skip

    with pytest.raises(InvalidSetting) as caught:
        check_identity(identity("id"), identity("no"))
    assert str(caught.value).splitlines()[1:-1] == [
        "  `condition`: was i.ad.id = c.id, is i.ad.no = c.id",
        "  `columns` of `i`: was ts timestamp[us], i.ad.id decimal128(10, 2), is ts timestamp[us], "
        "i.ad.no decimal128(10, 2)",
    ]


def test_a_checkpoint_of_an_older_release_is_refused(tmp_path: Path) -> None:
    source = reader(tmp_path)
    old = {name: value for name, value in source.initialOffset().items() if name != "layout"}
    with pytest.raises(StateVersionError, match=r"state has layout None, this release reads"):
        source.latestOffset(old, NO_LIMIT)
    with pytest.raises(StateVersionError, match=r"start with a new checkpoint"):
        source.partitions(old, old)


def test_a_control_log_serves_one_query(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path / "log"))
    log.own("first")
    log.own("first")
    with pytest.raises(InvalidSetting, match=r"belongs to the query first, and this is second"):
        log.own("second")


def test_a_batch_counts_when_all_cells_have_reported(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    log = ControlLog(str(tmp_path))
    for tables in ticks(3):
        join.batch(tables, control=Control(k=0, clock=1))
    assert [report.batch for report in log.reports_after(-1)] == [0, 1, 2]
    assert [report.batch for report in log.reports_after(1)] == [2]
    (tmp_path / "reports" / f"{1:012d}" / "00001.json").unlink()
    assert [report.batch for report in log.reports_after(-1)] == [0, 2]
    (tmp_path / "reports" / f"{2:012d}" / "00001.json").unlink()
    assert [report.batch for report in log.reports_after(-1)] == [0]


def put_away(log: ControlLog, first: int, last: int) -> None:
    """Put the reports of some batches together, and remove them one by one."""
    log.put_together([each for each in log.reports_after(first - 1) if each.batch <= last])
    for batch in log.reported():
        if batch <= last:
            log.forget_report(batch)


def test_old_reports_are_put_together_and_say_the_same(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    log = ControlLog(str(tmp_path))
    for tables in ticks(7):
        join.batch(tables, control=Control(k=0, clock=1))
    before = [report.to_json() for report in log.reports_after(-1)]
    put_away(log, 0, 2)
    put_away(log, 3, 4)
    assert [report.to_json() for report in log.reports_after(-1)] == before
    assert [report.batch for report in log.reports_after(3)] == [4, 5, 6]
    assert len(list((tmp_path / "reports").iterdir())) == 2
    assert len(list((tmp_path / "history").iterdir())) == 2


def test_a_batch_that_reports_again_after_being_put_away_is_read_once(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    log = ControlLog(str(tmp_path))
    first, *others = ticks(4)
    for tables in (first, *others):
        join.batch(tables, control=Control(k=0, clock=1))
    put_away(log, 0, 2)
    again = LocalJoin(BOUND, 2, tmp_path)
    again.batch(first, control=Control(k=0, clock=1))
    assert log.reported() == [0, 3]
    for after in range(-1, 4):
        expected = list(range(after + 1, 4))
        assert [report.batch for report in log.reports_after(after)] == expected


def test_the_policy_is_asked_once_an_interval_and_told_all_of_it(tmp_path: Path) -> None:
    class Listener:
        name = "listener"
        uses_slack = False

        def __init__(self, _settings: object) -> None:
            self.k = 0
            self.n_arrived: list[int] = []

        def observe(self, profile: Any) -> None:
            self.n_arrived.append(profile.n_arrived)

        def adapt(self) -> int:
            self.k += 1
            return self.k

    made: list[Listener] = []

    def make(settings: PolicySettings) -> Any:
        made.append(Listener(settings))
        return made[-1]

    # Local times after the batches:  9   29   59   61   200   205
    # Intervals end at:                        59         109 ...    so it adapts at 59 and 200.
    adaptation = PolicyPlan(SETTINGS, make).adaptation(None)
    join = LocalJoin(BOUND, 2, tmp_path)
    for latest in (9, 29, 59, 61, 200, 205):
        table = pa.table({"ts": [latest], "a": [1]}, schema=SCHEMA)
        _, report = join.batch([table, table], control=None)
        report.show_to(adaptation)
    assert made[-1].n_arrived == [6, 4]
    assert adaptation.k == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either a `recall` to aim at or a fixed wait `k`; neither is given"),
        ({"recall": 0.9, "k": 5}, "either a `recall` to aim at or a fixed wait `k`; both are"),
        ({"k": 5, "choice": "slack"}, "there is no use for a `policy`, got 'slack'"),
        ({"recall": 0.9, "choice": "magic"}, "`policy` must be one of"),
    ],
)
def test_slack_recall_and_policy_must_fit_together(given: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"recall": None, "k": None, "choice": None, "options": None, **given}
    with pytest.raises(InvalidSetting, match=message):
        plan_policy(SETTINGS, **values)


def test_the_driver_says_once_when_the_limit_of_bytes_shortens_the_horizon_and_once_when_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = reader(tmp_path, horizon=HorizonPlan(SETTINGS, limit=100))
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    retentions = []
    for tables in ticks(8):
        after = source.latestOffset(offset, NO_LIMIT)
        control = control_of(source, offset, after)
        assert (control.retention, control.limited) == (after["retention"], after["limited"])
        retentions.append(join.batch(tables, control=control)[1].retention)
        offset = after
    assert retentions[0] == 500
    assert retentions[-1] < 10
    assert offset["limited"]
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("`horizon_memory` makes the join remember tuples for less time")
    # A restart with more memory.
    more = reader(tmp_path, horizon=HorizonPlan(SETTINGS))
    assert not more.latestOffset(offset, NO_LIMIT)["limited"]
    assert [record.message for record in caplog.records][1:] == [
        "`horizon_memory` no longer shortens how long the join remembers tuples"
    ]

"""What is said when a join breaks a promise, when that is over, and what the progress shows."""

from __future__ import annotations

import datetime as dt
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.spark.alarms import Alarms
from recalljoin.spark.clocks import Clock
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.health import HealthMeter
from recalljoin.spark.progress import mean_wait, progress_table
from tests.documents import ROOT
from tests.spark.live import MINUTE, SECOND, Feed, Live, both
from tests.spark.test_notices import report as plain

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.spark.health import Health
    from recalljoin.spark.report import Report

START = 1_790_000_000_000
"""A driver's clock."""


def batch(
    number: int, *local_times: int, n: tuple[int, int] = (10, 10), watermark: int = 0, **more: Any
) -> Report:
    """A batch that was planned ten seconds after the one before; times in milliseconds."""
    usual: dict[str, Any] = {
        "unit": "ms", "period": 60_000, "n_arrived": n, "watermark": watermark, "n_buffered": 7,
        "clock": START + 10_000 * number, "target": 0.95, "recall_before": 0.97,
    }  # fmt: skip
    one, two = local_times
    return replace(plain((one, two), batch=number), **(usual | more))


def said(caplog: pytest.LogCaptureFixture, alarms: Alarms, *reports: Report) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "recalljoin"):
        for each in reports:
            alarms.observe(each)
            alarms.speak()
    return [record.getMessage() for record in caplog.records]


def test_recall_below_its_target_is_said_once_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarms = Alarms("orders")
    low = [batch(n, 10_000 * n, 10_000 * n, recall_before=0.9, k=1500) for n in range(3)]
    assert said(caplog, alarms, *low) == [
        "orders: recall of the last period is 0.9000, below the target of 0.95 (batch 0, K 1.5 s)"
    ]
    # It wavers: nothing is said until a whole period was at the target.
    wavers = [
        batch(n, 10_000 * n, 10_000 * n, recall_before=0.94 if n == 5 else 0.96)
        for n in range(3, 11)
    ]
    assert said(caplog, alarms, *wavers) == []
    assert said(caplog, alarms, *(batch(n, 10_000 * n, 0) for n in range(11, 20))) == [
        "orders: recall has been at its target of 0.95 for a whole period"
    ]


def test_a_fixed_k_has_no_target_to_fall_below(caplog: pytest.LogCaptureFixture) -> None:
    reports = [batch(n, n, n, target=None, recall_before=0.1) for n in range(5)]
    assert said(caplog, Alarms("recalljoin"), *reports) == []


def test_a_k_at_max_wait_is_said(caplog: pytest.LogCaptureFixture) -> None:
    reports = [
        batch(n, 40_000 * n, 40_000 * n, k=5000 if n in (1, 2) else 400, max_wait=5000)
        for n in range(6)
    ]
    assert said(caplog, Alarms("recalljoin"), *reports) == [
        "recalljoin: K has reached `max_wait`, 5 s (batch 1): recall may fall below its target, as "
        "the join may not wait any longer",
        "recalljoin: K has been below `max_wait` for a whole period",
    ]


def silent(first: int, last: int, **more: Any) -> list[Report]:
    """Batches in which nothing comes of the second stream, which has come to 20,000."""
    return [batch(n, 10_000 * n, 20_000, n=(10, 0), watermark=19_000, **more)
            for n in range(first, last)]  # fmt: skip


def test_a_stream_for_which_everything_waits_is_said_to_have_stalled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarms = Alarms("recalljoin")
    before = [batch(n, 10_000 * n, 10_000 * n) for n in range(3)]
    # Others must have run ahead by more than a period.
    assert said(caplog, alarms, *before, *silent(3, 9)) == []
    assert said(caplog, alarms, *silent(9, 12)) == [
        "recalljoin: stream `s2` has stalled: nothing comes of it, and 7 tuples wait for it "
        "(batch 9). `idle_after` or `max_wait` would let them go on without it"
    ]
    assert said(caplog, alarms, batch(12, 120_000, 100_000, n=(10, 10))) == [
        "recalljoin: stream `s2` no longer holds the others back"
    ]


def test_who_starts_again_says_what_holds_and_not_what_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarms = Alarms("recalljoin")
    was_low = [batch(n, 10_000 * n, 10_000 * n, recall_before=0.5) for n in range(3)]
    with caplog.at_level(logging.WARNING, "recalljoin"):
        for each in [*was_low, *(batch(n, 10_000 * n, 20_000, n=(9, 0)) for n in range(3, 15))]:
            alarms.observe(each)
        alarms.speak()
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("recalljoin: stream `s2` has stalled")


def after(reports: list[Report]) -> Health:
    meter = HealthMeter()
    return [meter.observe(each, None) for each in reports][-1]


def test_a_stream_left_behind_is_idle_and_not_stalled() -> None:
    health = after([batch(0, 0, 0), *silent(1, 12, idle=(False, True))])
    assert [stream.idle for stream in health.streams] == [False, True]
    assert health.stalled is None
    # Without `idle_after`: the watermark has passed the stream, as `max_wait` lets it do.
    health = after([batch(n, 10_000 * n, 20_000, n=(9, 0), watermark=50_000) for n in range(12)])
    assert [stream.idle for stream in health.streams] == [False, True]
    assert health.stalled is None


def test_each_stream_has_its_rate_and_how_far_it_is_behind() -> None:
    meter = HealthMeter()
    meter.observe(batch(0, NEVER, 5000, n=(0, 10)), None)
    health = meter.observe(batch(1, 3000, 9000, n=(50, 10)), 0.9)
    one, two = health.streams
    assert (one.rate, two.rate) == (5.0, 1.0)
    assert (one.behind, two.behind) == (6000, 0)
    assert health.below_target
    # Integers that are no dates have no lag behind the clock.
    assert one.lag_ms is None


@pytest.mark.parametrize(
    ("kind", "lag"), [("int64", 4000), ("timestamp[ms, tz=UTC]", 4000), ("timestamp[ms]", None)]
)
def test_dates_have_a_lag_behind_the_clock(kind: str, lag: int | None) -> None:
    report = batch(0, START - 4000, START, time_type=kind)
    assert HealthMeter().observe(report, None).streams[0].lag_ms == lag


def test_an_ended_join_is_not_stalled() -> None:
    reports = [batch(n, 10_000 * n, 20_000, n=(9, 0)) for n in range(12)]
    assert after(reports).stalled == "s2"
    ended = batch(12, 120_000, 20_000, n=(0, 0), watermark=FOREVER)
    assert after([*reports, ended]).stalled is None


def test_times_are_shown_as_dates_and_waits_as_intervals() -> None:
    clock = Clock("us", "timestamp[us, tz=UTC]")
    assert str(clock.type) == "timestamp[us, tz=UTC]"
    assert clock.time(NEVER) is None
    assert clock.time(2**60) is None
    assert clock.time(17) == clock.interval(17) == 17
    assert Clock("s", "timestamp[s]").interval(2**61) == 2**63 - 1
    assert Clock("ns").interval(1999) == 1
    assert Clock("s").time(5) == 5
    assert Clock("us").ms(1500) == 1.5


def test_results_wait_for_k_less_the_slack_they_required() -> None:
    profile = plain((0, 0)).profile
    # Two results required none, two a slack of 100 and one a slack of 900.
    slack = np.zeros((2, 500), dtype=np.int64)
    slack[0, [0, 101]] = 2
    report = replace(plain((0, 0)), profile=replace(profile, slack=slack), k=300)
    assert mean_wait(report) == (300 + 200) // 2
    assert mean_wait(replace(report, emit="eager")) == 0
    assert mean_wait(plain((0, 0))) is None


def test_a_live_join_tells_how_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = both(1, 5 * MINUTE)
    stops = Feed(two.ts[two.at < 2 * MINUTE], two.key[two.at < 2 * MINUTE],
                 two.at[two.at < 2 * MINUTE])  # fmt: skip
    live = Live(tmp_path, [one, stops]).run(4 * MINUTE, batch=10 * SECOND)
    rows = progress_table(ControlLog(live.log)).to_pylist()
    assert {row["target"] for row in rows} == {0.95}
    assert isinstance(rows[-1]["k"], dt.timedelta)
    assert rows[-1]["took"] > dt.timedelta(0)
    streams = dict(rows[-1]["streams"])
    assert streams["s0"]["behind"] == dt.timedelta(0)
    assert streams["s1"]["behind"] > dt.timedelta(minutes=1)
    assert [row["stalled"] for row in rows].count("s1") > 3
    assert rows[5]["stalled"] is None
    said = [r.getMessage() for r in caplog.records if "has stalled" in r.getMessage()]
    assert len(said) == 1
    caplog.clear()
    # A restart says so again, once.
    live.start()
    live.run(5 * MINUTE, batch=10 * SECOND)
    said = [r.getMessage() for r in caplog.records if "has stalled" in r.getMessage()]
    assert len(said) == 1


def test_the_page_on_spark_names_every_column_of_the_progress(tmp_path: Path) -> None:
    live = Live(tmp_path, list(both(2, MINUTE))).run(MINUTE, batch=10 * SECOND)
    page = (ROOT / "docs" / "spark.md").read_text("utf-8")
    table = page.partition("### The columns of `progress()`")[2].partition("\n### ")[0]
    groups = ("recall_", "null_precision", "total_")
    columns = progress_table(ControlLog(live.log)).column_names
    assert {name for name in columns if not name.startswith(groups)} <= set(
        re.findall(r"`(\w+)`", table)
    )

"""A control log stays bounded: old batches are rolled up, and every count is still there."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.dashboard.followed import FollowedJoin
from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.quality.horizon import HorizonPlan
from recalljoin.spark import rolling
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.figures import MeasuredRecall
from recalljoin.spark.learning import taught
from recalljoin.spark.packing import Control
from recalljoin.spark.progress import forecast_table, progress_table
from recalljoin.spark.rolling import Rolling
from tests.effort import FEW, effort
from tests.spark.local_cells import LocalJoin
from tests.spark.test_control import BOUND, NO_LIMIT, SETTINGS, control_of, reader, ticks
from tests.spark.test_log_faults import ObjectStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.spark.report import Report

N = 42
SMALL = {
    "BATCHES_A_FILE": 3,
    "NEWEST": 2,
    "LEAST_FILES": 1,
    "MOST_FILES": 2,
    "MINUTES": 4,
    "HOURS": 2,
    "DAYS": 2,
}
"""Limits with which a few batches go through all places."""
SUMS = ("arrived", "refused", "late", "produced", "lost", "uncomputable", "nulls", "batches")


@cache
def reports(most: int = 40) -> tuple[Report, ...]:
    """A run with so many tuples a batch, as if one cell had reported all of it."""
    with TemporaryDirectory() as folder:
        join = LocalJoin(BOUND, 2, Path(folder))
        made = []
        for n, tables in enumerate(ticks(N)):
            few = [each.slice(0, most) for each in tables]
            made.append(join.batch(few, control=Control(k=n % 7, clock=n + 1))[1])
    refused: dict[str, int] = {"no time": 2}
    return tuple(replace(each, cell=0, n_cells=1, refused=(refused, {})) for each in made)


@contextmanager
def small(**more: int) -> Iterator[None]:
    """Limits that a few batches reach."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in (SMALL | more).items():
            patched.setattr(rolling, name, value)
        yield


class Killed(Exception):
    """The driver is gone."""


class Driver:
    """Sees batches, puts them away, and may be killed before it writes or removes something."""

    def __init__(self, log: ControlLog, run: list[Report]) -> None:
        self.log, self.run = log, run
        self.start()

    def start(self) -> None:
        self.rolling = Rolling(self.log)
        rolled = self.rolling.begin()
        self.measured = MeasuredRecall(rolled.since)
        for stretch in rolled.with_times:
            self.measured.observe(stretch.report)
        self.last = rolled.until

    def plan(self) -> None:
        for report in self.log.reports_after(self.last):
            self.measured.observe(report)
            self.rolling.add(report, report.figures or self.measured.figures())
            self.last = report.batch
        self.rolling.put_away(lambda: None)

    def batches(self, begin: int, end: int) -> None:
        for report in self.run[begin:end]:
            self.log.write_report(report)
            self.plan()


def with_clocks(steps: list[int]) -> list[Report]:
    clock, made = 1_700_000_000_000, []
    for report, step in zip(reports(), steps, strict=True):
        clock += step
        made.append(replace(report, clock=clock))
    return made


def counts(log: ControlLog) -> dict[str, int]:
    table = progress_table(log)
    found = {name: sum(table[name].to_pylist()) for name in SUMS}
    if table.num_rows:
        assert all(
            found[name] == table[f"total_{name}"][-1].as_py() for name in SUMS if name != "batches"
        )
    return found


def expected(run: list[Report]) -> dict[str, int]:
    return {
        "arrived": sum(sum(each.n_arrived) for each in run),
        "refused": sum(each.n_refused for each in run),
        "late": sum(each.profile.n_late for each in run),
        "produced": sum(each.profile.n_produced for each in run),
        "lost": sum(each.profile.n_lost for each in run),
        "uncomputable": 0,
        "nulls": 0,
        "batches": len(run),
    }


MS = dt.timedelta(milliseconds=1)
STEPS = st.lists(
    st.sampled_from([10, 1_000, 20_000, 60_000, 3_600_000, 86_400_000]), min_size=N, max_size=N
)


@effort(1 / 10)
@given(steps=STEPS)
def test_counts_of_rolled_up_and_of_single_batches_add_up_to_the_same(steps: list[int]) -> None:
    run = with_clocks(steps)
    with TemporaryDirectory() as folder, small():
        log = ControlLog(folder)
        Driver(log, run).batches(0, N)
        assert counts(log) == expected(run)
        table = progress_table(log).to_pylist()
        assert [row["batch"] + 1 for row in table[:-1]] == [row["first_batch"] for row in table[1:]]
        assert sum(n for row in table for _, n in row["refused_by"]) == 2 * N
        for row in table:
            of_row = run[row["first_batch"] : row["batch"] + 1]
            assert row["batches"] == len(of_row)
            assert (row["k"] // MS, row["watermark"]) == (of_row[-1].k, of_row[-1].watermark)
            assert row["k_lowest"] // MS == min(each.k for each in of_row)
            assert row["k_highest"] // MS == max(each.k for each in of_row)
        levels = Counter(row["rolled_up"] for row in table)
        assert levels["minute"] <= 4
        assert levels["hour"] <= 2
        assert levels["day"] <= 2
        assert levels["older"] <= 1
        assert levels[None] < 20


def test_the_dashboard_adds_up_what_is_rolled_up(tmp_path: Path) -> None:
    run = with_clocks([30_000] * N)
    log = ControlLog(str(tmp_path))
    with small():
        Driver(log, run).batches(0, N)
    assert log.rolled().stretches
    followed = FollowedJoin(log)
    followed.catch_up()
    totals = followed.now()["totals"]
    of_batches = expected(run)
    assert {name: totals[name] for name in ("arrived", "late", "produced", "lost")} == {
        name: of_batches[name] for name in ("arrived", "late", "produced", "lost")
    }
    assert followed.now()["batch"] == N - 1


def test_recall_of_rolled_up_batches_is_what_it_was(tmp_path: Path) -> None:
    # All within some hours: three minutes of two batches, and hours before.
    run = with_clocks([30_000] * N)
    alone = ControlLog(str(tmp_path / "alone"))
    for report in run:
        alone.write_report(report)
    each_batch = {row["batch"]: row for row in progress_table(alone).to_pylist()}
    log = ControlLog(str(tmp_path / "rolled"))
    with small(MINUTES=10):
        Driver(log, run).batches(0, N)
    table = progress_table(log).to_pylist()
    assert {row["rolled_up"] for row in table} == {"hour", "minute", None}
    n_settled = 0
    for row in table:
        last = each_batch[row["batch"]]
        for name in ("recall", "recall_at_least", "recall_at_most"):
            # Of the newest batches recall is estimated anew, from the minutes that are left.
            near = 1e-9 if row["rolled_up"] else 0.1
            assert row[name] == pytest.approx(last[name], abs=near)
        of_row = [each_batch[n] for n in range(row["first_batch"], row["batch"] + 1)]
        settled = [one["recall_settled"] for one in of_row if one["recall_settled"] is not None]
        if row["recall_settled"] is not None:
            # In an hour, what was found lost after it was put together is not in its recall.
            assert row["recall_settled"] == pytest.approx(min(settled))
            n_settled += row["batches"]
    assert n_settled > N // 2


@FEW
@given(steps=STEPS, kills=st.lists(st.integers(0, 12), max_size=12), objects=st.booleans())
def test_killed_anywhere_nothing_is_counted_twice_or_lost(
    steps: list[int], kills: list[int], objects: bool
) -> None:
    run = with_clocks(steps)
    with TemporaryDirectory() as folder, small(), pytest.MonkeyPatch.context() as patched:
        store = ObjectStore()
        if objects:
            system = pafs.PyFileSystem(store)
            patched.setattr(ControlLog, "place", property(lambda self: (system, self.folder)))
        log = ControlLog(folder)
        driver = Driver(log, run)
        left = iter(kills)
        to_go = next(left, None)

        def dying(name: str) -> Any:
            usual = getattr(ControlLog, name)

            def may_die(self: ControlLog, what: str, *given: Any, **more: Any) -> Any:
                nonlocal to_go
                if not what.startswith("reports/") or name == "remove":
                    if to_go == 0:
                        to_go = next(left, None)
                        raise Killed
                    to_go = None if to_go is None else to_go - 1
                return usual(self, what, *given, **more)

            return may_die

        for name in ("write", "remove"):
            patched.setattr(ControlLog, name, dying(name))
        for n in range(N):
            try:
                driver.batches(n, n + 1)
            except Killed:
                # A reader beside it sees every batch once, whatever the driver was about to do.
                if not objects:
                    assert counts(log) == expected(run[: n + 1])
                with suppress(Killed):
                    driver.start()
                    driver.plan()
        if objects:
            log.reported()  # What is newest is listed from the second look on.
        assert counts(log) == expected(run)
        n_files = len(store.objects) if objects else sum(
            path.is_file() for path in Path(folder).rglob("*"))  # fmt: skip
        assert n_files < 40


def test_a_reader_that_is_overtaken_by_a_round_still_finds_every_batch(tmp_path: Path) -> None:
    run = with_clocks([30_000] * N)
    log = ControlLog(str(tmp_path))
    driver = Driver(log, run)
    rounds = [log.rolled(), log.rolled()]
    with small():
        for n in range(N):
            driver.batches(n, n + 1)
            if log.rolled().until > rounds[-1].until:
                rounds.append(log.rolled())
            # A reader has seen the stretches of the round before, and reads reports only now.
            seen = rounds[-2]
            numbers = [report.batch for report in log.reports_after(seen.until)]
            assert numbers == list(range(seen.until + 1, n + 1))
            # Another has only listed them, and reads them now.
            assert seen.until < 0 or log.read(f"rolled/{seen.until:012d}.jsonl.gz")
    assert len(rounds) > 5


def test_a_damaged_file_of_stretches_is_named_and_the_one_before_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = ControlLog(str(tmp_path))
    run = with_clocks([30_000] * N)
    with small():
        Driver(log, run).batches(0, N)
    old, new = sorted((tmp_path / "rolled").iterdir())
    content = new.read_bytes()
    for damaged in (b"", content[:40], content[:-1], content[:-1] + b"x"):
        new.write_bytes(damaged)
        assert counts(log) == expected(run)
        (said,) = {record.message for record in caplog.records}
        assert said.startswith(f"{tmp_path}/rolled/{new.name} is damaged (")
        assert said.endswith("): the one before is read")
        caplog.clear()
    old.unlink()
    assert counts(log)["batches"] < N
    assert caplog.records[-1].message.endswith(
        "the counts of its batches are lost, which changes no result"
    )


@pytest.mark.parametrize("policy", ["slack", "percentile", "fixed"])
def test_after_a_restart_anywhere_the_next_wait_is_the_same(tmp_path: Path, policy: str) -> None:
    plan = PolicyPlan(SETTINGS, policy, {"k": 12} if policy == "fixed" else {})
    source = reader(tmp_path, policy=plan)
    join = LocalJoin(BOUND, 2, tmp_path)
    offset = source.initialOffset()
    with small():
        for n, tables in enumerate(ticks(36)):
            after = source.latestOffset(offset, NO_LIMIT)
            if n % 3 == 0:
                again = reader(tmp_path, policy=plan).latestOffset(offset, NO_LIMIT)
                assert (again["k"], again["retention"]) == (after["k"], after["retention"])
                # An estimate, which is not taken over but measured anew.
                assert again["recall"] == pytest.approx(after["recall"], abs=0.01)
            join.batch(tables, control=control_of(source, offset, after))
            offset = after
        log = ControlLog(str(tmp_path))
        assert log.rolled().learned is not None
        # The checkpoint may be some batches behind, and runs them again.
        behind = LocalJoin(BOUND, 2, tmp_path)
        for tables in ticks(3):
            behind.batch(tables, control=Control(k=0, clock=1))
        again = reader(tmp_path, policy=plan).latestOffset({**offset, "clock": 0}, NO_LIMIT)
        assert again["k"] == source.latestOffset({**offset, "clock": 0}, NO_LIMIT)["k"]
        assert counts(log)["batches"] == 36


def test_another_policy_learns_from_what_is_rolled_up(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path))
    with small():
        Driver(log, with_clocks([30_000] * N)).batches(0, N)
    settings = replace(SETTINGS, period=100, recall=0.5)
    changed = PolicyPlan(settings, "slack")
    alone = changed.adaptation(None)
    for report in log.reports_after(log.rolled().until):
        report.show_to(alone)
    known = taught(changed, str(tmp_path), "ms").learned
    assert known is not None
    # Batches that are there one by one are too few for so many needs.
    n_needs = len(known["stretches"]["settled"])
    assert n_needs > len(alone.policy.snapshot()["stretches"]["settled"])
    source = reader(tmp_path, policy=changed, horizon=HorizonPlan(settings))
    offset = source.latestOffset(source.initialOffset(), NO_LIMIT)
    assert offset["k"] == changed_k(changed, log)


def changed_k(plan: PolicyPlan, log: ControlLog) -> int:
    adaptation = plan.adaptation(None)
    rolled = log.rolled()
    for report in [each.report for each in rolled.with_times]:
        report.show_to(adaptation)
    for report in log.reports_after(rolled.until):
        report.show_to(adaptation)
    return adaptation.k


def test_ten_thousand_batches_leave_a_small_log_and_a_restart_takes_seconds(tmp_path: Path) -> None:
    log = ControlLog(str(tmp_path))
    writer = Rolling(log)
    writer.begin()
    n = 10_000
    length = max(reports(3)[-1].local_times)
    for batch in range(n):
        report = reports(3)[batch % N]
        later = batch // N * length
        moved = replace(
            report,
            batch=batch,
            clock=1_700_000_000_000 + 1000 * batch,
            watermark=report.watermark + later,
            local_times=tuple(at + later for at in report.local_times),
        )
        writer.add(moved, {"recall": 1.0})
        writer.put_away(lambda: None)
        if batch >= n - 80:
            log.write_report(moved)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) < 200
    assert sum(path.stat().st_size for path in files) < 5_000_000
    began = time.monotonic()
    source = reader(tmp_path)
    assert source.latestOffset(source.initialOffset(), NO_LIMIT)["n"] == 1
    table = progress_table(log)
    assert sum(table["batches"].to_pylist()) == n
    assert table.num_rows < 1_000
    assert forecast_table(log).num_rows
    assert time.monotonic() - began < 10

"""Cells refuse times that are absurdly far ahead of their stream, all of them the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.times import FAR_AHEAD, NEVER
from recalljoin.quality.adaptation import PolicyPlan
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.model import Query, Stream
from recalljoin.spark.ahead import (
    CONFIRMED,
    MOST_SPANS,
    AheadRule,
    Span,
    Verdict,
    merged_spans,
    spans_of,
)
from recalljoin.spark.packing import Control
from tests.spark.local_cells import LocalJoin

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.spark.report import Report

HOUR = 3_600_000
YEAR_2200 = 7_258_118_400_000
NOW = 1_700_000_000_000
SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})
BOUND = Query(
    streams=[Stream("s1", window=1000), Stream("s2", window=1000)], condition="s1.a = s2.a"
).bind({"s1": SCHEMA, "s2": SCHEMA})
RULE = AheadRule.of(BOUND, HOUR, recorded=False)


def table(ts: list[int] | np.ndarray, seed: int = 0) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, 3, len(ts))
    return pa.table({"ts": pa.array(ts, pa.int64()), "a": keys}, schema=SCHEMA)


def verdict(ts: list[int], known: int = 0, confirmed: int = 0, clock: int | None = None) -> Verdict:
    """What is believed of some times of the first stream, which had come to ``known``."""
    spans = {0: spans_of(np.array(ts, dtype=np.int64), HOUR)}
    return RULE.judge(spans, [known, NEVER], [confirmed, 0], clock)[0]


@given(st.lists(st.integers(-(10**9), 10**9), max_size=50), st.integers(1, 10**9))
def test_spans_count_all_rows_where_they_are(ts: list[int], length: int) -> None:
    found = spans_of(np.array(ts, dtype=np.int64), length)
    by_span: dict[int, list[int]] = {}
    for t in ts:
        by_span.setdefault(t // length, []).append(t)
    assert found == [Span(n, len(by_span[n]), max(by_span[n])) for n in sorted(by_span)]
    parts = [spans_of(np.array(ts[i::3], dtype=np.int64), length) for i in range(3)]
    assert merged_spans(span for part in parts for span in part) == found


@pytest.mark.parametrize("step", [10, 1_000_000])
def test_of_many_spans_the_lowest_are_told_as_one(step: int) -> None:
    ts = np.arange(1000) * step
    found = spans_of(ts, 10)
    assert len(found) == MOST_SPANS
    assert sum(span.n for span in found) == 1000
    assert found[0].number == 0
    assert [span.top for span in found] == ts[-MOST_SPANS:].tolist()


def test_one_absurd_time_is_refused_and_leaves_no_mark() -> None:
    found = verdict([5, 7, YEAR_2200, 6])
    assert found.limit is not None
    assert 7 + HOUR < found.limit <= YEAR_2200
    assert (found.n_refused, found.mark, found.confirmed) == (1, 7, 1)


def test_a_stream_that_moves_on_as_a_whole_is_believed() -> None:
    morning = list(range(12 * HOUR, 12 * HOUR + 100))
    assert verdict(morning) == Verdict(None, 0, morning[-1], 0)
    # Even then a single time beyond it is not.
    found = verdict([*morning, YEAR_2200])
    assert (found.n_refused, found.mark) == (1, morning[-1])


def test_a_part_of_the_rows_is_not_the_stream() -> None:
    assert verdict([*range(100), *range(YEAR_2200, YEAR_2200 + 90)], known=50).n_refused == 90


def test_late_rows_speak_for_the_time_the_stream_is_at() -> None:
    assert verdict([0] * 100 + [YEAR_2200] * 50, known=5 * HOUR).n_refused == 50


def test_a_batch_may_cross_a_gap_if_more_lies_behind_it_than_shortly_before() -> None:
    long_before = list(range(0, 20 * HOUR, 1000))
    behind = list(range(30 * HOUR, 34 * HOUR, 1000))
    assert verdict([*long_before, *behind], known=0).n_refused == 0


def test_single_rows_confirm_each_other_over_batches() -> None:
    # Each batch brings one row, and the whole stream has moved on.
    confirmed, taken = 0, []
    for ts in range(12 * HOUR, 12 * HOUR + 10):
        found = verdict([ts], confirmed=confirmed)
        confirmed = found.confirmed
        taken.append(found.limit is None)
    assert taken == [False] * (CONFIRMED - 1) + [True] * (11 - CONFIRMED)


def test_absurd_rows_between_sane_ones_never_confirm_each_other() -> None:
    confirmed, known = 0, 0
    for n in range(100):
        absurd = n % 3 == 0
        found = verdict([YEAR_2200 + n if absurd else n], known=known, confirmed=confirmed)
        confirmed, known = found.confirmed, max(known, found.mark)
        assert (found.n_refused == 1) == absurd
    assert known == 98


def test_a_row_a_day_is_believed_once_that_is_the_way_of_the_stream() -> None:
    confirmed, known, taken = 0, 0, []
    for day in range(1, 20):
        found = verdict([day * 24 * HOUR], known=known, confirmed=confirmed)
        confirmed, known = found.confirmed, max(known, found.mark)
        taken.append(found.limit is None)
    assert taken == [False] * (CONFIRMED - 1) + [True] * (20 - CONFIRMED)


def test_a_time_no_later_than_the_clock_is_believed_at_once() -> None:
    # A row a day, a night's silence, a source that catches up: all behind the clock.
    assert verdict([NOW], known=NOW - 24 * HOUR, clock=NOW).limit is None
    assert verdict([NOW + HOUR // 2], known=NOW - 24 * HOUR, clock=NOW).limit is None
    assert verdict([NOW + 3 * HOUR], known=NOW - 24 * HOUR, clock=NOW).limit is not None
    # A clock that counts from elsewhere, as the arrivals of a recording may, says nothing.
    assert verdict([NOW], known=NEVER, clock=5_000).limit is None
    # Nor does the clock about integers that count from elsewhere.
    assert verdict([NOW], known=5, clock=NOW).limit is not None


@pytest.mark.parametrize(
    ("kind", "hours", "believed"),
    [
        (pa.timestamp("us", "UTC"), 0, True),
        (pa.timestamp("us", "UTC"), 3, False),
        # A wall clock's reading may be ahead of UTC.
        (pa.timestamp("us"), 12, True),
        (pa.timestamp("us"), 24, False),
    ],
)
def test_timestamps_go_by_the_clock_from_the_first_row(
    kind: pa.DataType, hours: int, believed: bool
) -> None:
    query = Query(streams=[Stream("s1", window="5 s"), Stream("s2", window="5 s")])
    bound = query.bind({name: pa.schema({"ts": kind}) for name in ("s1", "s2")})
    length = HOUR * 1000
    rule = AheadRule.of(bound, length, recorded=False)
    spans = {0: spans_of(np.array([NOW * 1000 + hours * length]), length)}
    for known in (NEVER, 0, (NOW - 100 * HOUR) * 1000):
        found = rule.judge(spans, [known, NEVER], [0, 0], NOW)[0]
        assert (found.limit is None) == believed


def test_the_first_times_of_a_stream_are_held_against_the_others() -> None:
    spans = {0: spans_of(np.array([YEAR_2200]), HOUR), 1: spans_of(np.arange(50), HOUR)}
    found = RULE.judge(spans, [NEVER, NEVER], [0, 0], NOW)
    assert (found[0].n_refused, found[1].n_refused) == (1, 0)
    alone = RULE.judge({0: spans[0]}, [NEVER, 40], [0, 0], None)
    assert alone[0].n_refused == 1
    # The first times of all have nothing to be held against, but for the clock.
    assert RULE.judge({0: spans[0]}, [NEVER, NEVER], [0, 0], None)[0].n_refused == 0
    assert RULE.judge({0: spans[0]}, [NEVER, NEVER], [0, 0], NOW)[0].n_refused == 1


def batches(n: int = 12, *, start: int = 0, seed: int = 4) -> list[list[pa.Table]]:
    random = np.random.default_rng(seed)
    made = []
    for i in range(n):
        ts = start + i * 500 + random.integers(0, 500, (2, 30))
        ts[:, ::5] -= 700
        made.append([table(ts[s], seed=2 * i + s) for s in range(2)])
    return made


def spoiled(
    given: list[list[pa.Table]], at: int, streams: tuple[int, ...] = (0, 1)
) -> list[list[pa.Table]]:
    """The batches with one absurd row in batch ``at``, for each of the streams."""
    changed = [list(tables) for tables in given]
    for s in streams:
        changed[at][s] = pa.concat_tables([table([YEAR_2200 + s]), changed[at][s]])
    return changed


def run(
    join: LocalJoin, given: list[list[pa.Table]], *, n_tasks: int = 1, forget: bool = False
) -> tuple[list[str], list[Report]]:
    results, reports = [], []
    for tables in given:
        control = Control(k=800, clock=NOW)
        found, report = join.batch(tables, control=control, n_tasks=n_tasks, forget=forget)
        results += [repr(row) for batch in found for row in batch.to_pylist()]
        reports.append(report)
    found, _ = join.batch([], control=Control(k=800, clock=NOW, flush=True))
    results += [repr(row) for batch in found for row in batch.to_pylist()]
    return sorted(results), reports


@pytest.mark.parametrize("at", [0, 6])
@pytest.mark.parametrize(
    ("n_cells", "n_tasks", "forget"), [(1, 1, False), (3, 2, True), (4, 3, False)]
)
def test_one_absurd_time_in_each_stream_takes_no_result_away(
    tmp_path: Path, at: int, n_cells: int, n_tasks: int, forget: bool
) -> None:
    given = batches()
    expected, before = run(LocalJoin(BOUND, n_cells, tmp_path / "sane", ahead=RULE), given)
    join = LocalJoin(BOUND, n_cells, tmp_path / "spoiled", ahead=RULE)
    found, reports = run(join, spoiled(given, at), n_tasks=n_tasks, forget=forget)
    assert found == expected
    assert len(expected) > 1000
    assert [r.refused for r in before] == [({}, {})] * len(given)
    assert [r.n_refused for r in reports] == [2 if i == at else 0 for i in range(len(given))]
    assert reports[at].refused == ({FAR_AHEAD: 1}, {FAR_AHEAD: 1})
    for name in ("watermark", "local_times", "n_arrived", "n_delivered"):
        assert [getattr(r, name) for r in reports] == [getattr(r, name) for r in before]
    # Each refused row can be read back, once.
    for s in range(2):
        rows = pq.read_table(tmp_path / "spoiled" / "refused" / f"s{s + 1}")
        assert rows.column("ts").to_pylist() == [YEAR_2200 + s]
        assert rows.column("__reason").to_pylist() == [FAR_AHEAD]
    unguarded, _ = run(LocalJoin(BOUND, n_cells, tmp_path / "off"), spoiled(given, at))
    assert len(unguarded) < 0.7 * len(expected)


def test_a_batch_that_runs_again_refuses_the_same_rows(tmp_path: Path) -> None:
    given = spoiled(batches(), 5)
    once = LocalJoin(BOUND, 2, tmp_path / "once", ahead=RULE)
    twice = LocalJoin(BOUND, 2, tmp_path / "twice", ahead=RULE)
    for tables in given:
        control = Control(k=800, clock=NOW)
        first, report = once.batch(tables, control=control)
        stores = [store.copy() for store in twice.stores]
        twice.batch(tables, control=control)
        twice.stores, twice.n_batches = stores, twice.n_batches - 1
        again, same = twice.batch(tables, control=control, forget=True)
        assert sorted(map(repr, again)) == sorted(map(repr, first))
        assert (same.refused, same.local_times) == (report.refused, report.local_times)


def test_an_idle_stream_that_returns_with_an_absurd_time_stays_idle(tmp_path: Path) -> None:
    given = batches(8)
    for tables in given[3:]:
        tables[1] = table([])
    join = LocalJoin(BOUND, 2, tmp_path, idle_after=1000, ahead=RULE)
    clock = NOW
    marks = []
    for number, tables in enumerate(given):
        absurd = number == 6
        both = [tables[0], table([YEAR_2200]) if absurd else tables[1]]
        clock += 500
        _, report = join.batch(both, control=Control(k=0, clock=clock))
        marks.append((report.watermark, report.local_times))
        assert report.n_refused == absurd
    watermarks = [watermark for watermark, _ in marks]
    assert watermarks[-1] == marks[-1][1][0] > watermarks[3]
    assert marks[-1][1][1] == marks[2][1][1]


def test_tuples_that_arrive_one_by_one_are_guarded_as_well(tmp_path: Path) -> None:
    settings = PolicySettings(windows=(1000, 1000), period=5000, interval=500, granularity=1)
    policy = PolicyPlan(settings, "fixed", {"k": 800})
    engine = EngineSettings(slack=True)
    given = batches()
    found = {}
    for name, tables in (("sane", given), ("spoiled", spoiled(given, 4))):
        join = LocalJoin(BOUND, 1, tmp_path / name, settings=engine, policy=policy, ahead=RULE)
        results, reports = run(join, tables, forget=True)
        found[name] = results
        assert sum(r.n_refused for r in reports) == (2 if name == "spoiled" else 0)
    assert found["spoiled"] == found["sane"]
    assert found["sane"]


def test_a_time_at_the_end_of_the_integers_is_out_of_range(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path, ahead=RULE)
    extremes = table([2**63 - 1, -(2**63), -(2**63) + 1, 5])
    _, report = join.batch([extremes, table([6])], control=Control(k=0, clock=NOW))
    assert report.refused == ({"time out of range": 3}, {})
    assert report.local_times == (5, 6)


@pytest.mark.parametrize("ancient", [0, -(2**61)])
def test_an_ancient_time_is_a_late_row_and_nothing_else(tmp_path: Path, ancient: int) -> None:
    given = batches(start=NOW)
    expected, _ = run(LocalJoin(BOUND, 2, tmp_path / "sane", ahead=RULE), given)
    changed = [list(tables) for tables in given]
    changed[6][0] = pa.concat_tables([table([ancient]), changed[6][0]])
    found, reports = run(LocalJoin(BOUND, 2, tmp_path / "ancient", ahead=RULE), changed)
    assert found == expected
    assert sum(r.n_refused for r in reports) == 0
    assert sum(r.profile.n_late for r in reports) == 1
    assert reports[6].n_kept < 1000

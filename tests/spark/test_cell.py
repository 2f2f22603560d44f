"""Cells together give what one engine gives, whatever their number and the way tuples come."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.engine.settings import EngineSettings
from recalljoin.errors import StateVersionError
from recalljoin.query.model import Query, Stream
from recalljoin.spark.cell_state import decode_chunk
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.packing import Control
from tests.effort import HALF, QUARTER
from tests.reference.tick import run_ticks
from tests.spark.local_cells import LocalJoin
from tests.strategies import Case, scheduled

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.query.bound_query import BoundQuery
    from tests.reference.tick import TickRun


def bound(case: Case) -> BoundQuery:
    query = Query(
        streams=[
            Stream(name, window=window)
            for name, window in zip(case.names(), case.windows, strict=True)
        ],
        condition=case.condition.sql,
    )
    schemas = {
        name: case.schema(s).append(pa.field("place", pa.int64()))
        for s, name in enumerate(case.names())
    }
    return query.bind(schemas)


def tables_by_tick(case: Case) -> list[list[pa.Table]]:
    n_ticks = max((e.tick for e in case.arrivals), default=-1) + 1
    return [
        [
            pa.Table.from_pylist(
                [
                    {**e.row, "place": e.arrival}
                    for e in case.arrivals
                    if e.stream == s and e.tick == n
                ],
                schema=case.schema(s).append(pa.field("place", pa.int64())),
            )
            for s in range(case.m)
        ]
        for n in range(n_ticks)
    ]


def places(results: list[pa.RecordBatch], names: list[str]) -> list[tuple[int, ...]]:
    return [
        tuple(row[name]["place"] for name in names)
        for batch in results
        for row in batch.to_pylist()
    ]


def n_waiting(case: Case, expected: TickRun, n: int) -> int:
    """Tuples that have arrived by tick ``n`` and were not released, late ones included."""
    released = sum(
        1 for r in expected.received if not r.late and r.e.ts <= expected.watermarks[n]
        and r.e.origin.tick <= n
    )  # fmt: skip
    return sum(e.tick <= n for e in case.arrivals) - released


@pytest.mark.parametrize("n_cells", [1, 2, 3, 8])
@QUARTER
@given(
    drawn=scheduled(),
    n_tasks=st.integers(1, 3),
    forget=st.lists(st.booleans(), max_size=9),
    retentions=st.lists(st.sampled_from((None, 0, 4, 15, 40, 100)), max_size=9),
)
def test_cells_produce_and_count_what_the_reference_does(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    n_cells: int,
    drawn: tuple[Case, list[int]],
    n_tasks: int,
    forget: list[bool],
    retentions: list[int | None],
) -> None:
    case, ks = drawn
    remember = dict(enumerate(retentions)).get
    assume(all(abs(e.ts) <= 2**61 for e in case.arrivals))  # others are refused
    expected = run_ticks(case.query, case.arrivals, k=lambda n: ks[n], remember=remember)
    join = LocalJoin(bound(case), n_cells, tmp_path_factory.mktemp("log"))
    produced: list[tuple[int, ...]] = []
    totals: Counter[str] = Counter()
    ticks = tables_by_tick(case)
    for n, tables in enumerate(ticks):
        results, report = join.batch(
            tables,
            control=Control(k=ks[n], clock=n, retention=remember(n)),
            n_tasks=n_tasks,
            forget=n < len(forget) and forget[n],
        )
        assert report.watermark == max(expected.watermarks[n], -(2**63))
        produced += places(results, case.names())
        totals.update(
            late=report.profile.n_late, lost=report.profile.n_lost, beyond=report.profile.n_beyond
        )
        assert sum(report.n_arrived) == sum(table.num_rows for table in tables)
        assert report.profile.n_arrived == sum(report.n_arrived)
        assert report.n_buffered == n_waiting(case, expected, n) - totals["late"]
    if ticks:
        results, report = join.batch([], control=Control(k=0, clock=99, flush=True))
        produced += places(results, case.names())
        totals.update(lost=report.profile.n_lost)
        assert report.n_buffered == 0
    assert Counter(produced) == Counter(r.arrivals for r in expected.produced)
    assert totals["late"] == len(expected.late)
    assert totals["lost"] == len(expected.lost)
    assert totals["beyond"] == len(expected.beyond_horizon)


@HALF
@given(drawn=scheduled(), n_cells=st.sampled_from([1, 2, 3]))
def test_a_cell_rebuilt_from_its_state_reports_what_it_would_have(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[Case, list[int]], n_cells: int
) -> None:
    case, ks = drawn
    assume(all(abs(e.ts) <= 2**61 for e in case.arrivals))
    folder = tmp_path_factory.mktemp("log")
    steady, shaken = (LocalJoin(bound(case), n_cells, folder / name) for name in ("a", "b"))
    for n, tables in enumerate(tables_by_tick(case)):
        control = Control(k=ks[n], clock=n)
        _, expected = steady.batch(tables, control=control)
        _, report = shaken.batch(tables, control=control, forget=True)
        assert report.profile.to_json() == expected.profile.to_json()
        assert report.n_kept == expected.n_kept
        assert (report.n_restored > 0, expected.n_restored) == (n > 0, 0)


SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64()})


def two_streams(condition: str = "s1.a = s2.a") -> BoundQuery:
    query = Query(streams=[Stream("s1", window=50), Stream("s2", window=50)], condition=condition)
    return query.bind({"s1": SCHEMA, "s2": SCHEMA})


def rows(*ts: int) -> pa.Table:
    return pa.table({"ts": list(ts), "a": [1] * len(ts)}, schema=SCHEMA)


def written(join: LocalJoin, kind: str, stream: str) -> pa.Table:
    assert join.plan.log is not None
    paths = join.plan.log.row_paths(kind, stream)
    assert paths
    return pa.concat_tables(pq.read_table(path) for path in paths)


def test_a_silent_stream_stops_holding_others_back_and_counts_again_on_return(
    tmp_path: Path,
) -> None:
    # clock      0     400    1000   1200    1300
    # s1         10    30     50             90
    # s2         20                  45
    # watermark  10    20     50     50      50     at 1000, s2 has been silent for 1000 ms
    join = LocalJoin(two_streams(), 2, tmp_path, idle_after=1000)
    empty = rows()
    steps = [(0, 10, 20), (400, 30, None), (1000, 50, None), (1200, None, 45), (1300, 90, None)]
    watermarks = []
    for clock, one, other in steps:
        tables = [empty if ts is None else rows(ts) for ts in (one, other)]
        _, report = join.batch(tables, control=Control(k=0, clock=clock))
        watermarks.append(report.watermark)
    assert watermarks == [10, 20, 50, 50, 50]


def test_a_batch_without_word_from_the_control_source_keeps_the_slack(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 2, tmp_path, idle_after=1000)
    join.batch([rows(100), rows(100)], control=Control(k=30, clock=0))
    # Much later data comes before the control source has spoken: no stream is idle then, nor
    # when it speaks, as both have just been there.
    _, report = join.batch([rows(200), rows(150)], control=None)
    assert (report.k, report.watermark) == (30, 120)
    _, report = join.batch([rows(300), rows()], control=Control(k=30, clock=90_000))
    assert report.watermark == 120


def test_a_batch_run_twice_leaves_the_same_state_and_results(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 2, tmp_path)
    join.batch([rows(10, 20), rows(15)], control=Control(k=0, clock=0))
    kept = [store.copy() for store in join.stores]
    first, report = join.batch([rows(40), rows(30, 35)], control=Control(k=0, clock=1))
    join.stores = kept
    join.n_batches -= 1
    again, second_report = join.batch([rows(40), rows(30, 35)], control=Control(k=0, clock=1))
    assert sorted(map(str, pa.Table.from_batches(first).to_pylist())) == sorted(
        map(str, pa.Table.from_batches(again).to_pylist())
    )
    assert report.profile.to_json() == second_report.profile.to_json()


def test_chunks_go_when_nobody_can_need_their_tuples(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 1, tmp_path)
    sizes = []
    for n in range(12):
        join.batch([rows(n * 50), rows(n * 50)], control=Control(k=0, clock=n))
        sizes.append(len(join.stores[0].chunks))
    # Window and retention are 50 each: a tuple is needed until the watermark is 100 further.
    assert sizes[-6:] == [3] * 6


def test_of_a_batch_longer_than_the_windows_only_its_end_is_kept(tmp_path: Path) -> None:
    found = []
    for forget in (False, True):
        join = LocalJoin(two_streams(), 1, tmp_path / str(forget))
        join.batch([rows(*range(10_000)), rows(*range(9_990))], control=Control(k=20, clock=0))
        (chunk,) = join.stores[0].chunks.values()
        # From 100 before the watermark at 9969 on; before it is trimmed, there are 19,990.
        n_rows = [table.num_rows for table in decode_chunk(join.plan.query, chunk).chunk.tables]
        assert n_rows == [10_000 - 9_869, 9_990 - 9_869]
        late_and_new = rows(9_930, *range(9_990, 10_050))
        results, report = join.batch(
            [rows(10_050), late_and_new], control=Control(k=20, clock=1), forget=forget
        )
        found.append((pa.Table.from_batches(results).sort_by("result_time"), report.profile.n_lost))
    assert found[0] == found[1]
    assert found[0][1] > 0


def test_late_and_refused_rows_can_be_read_back_with_what_they_cost(tmp_path: Path) -> None:
    join = LocalJoin(two_streams("s1.a < s2.a + 1"), 4, tmp_path)
    join.batch([rows(100, 110), rows(100, 105, 110)], control=Control(k=0, clock=0))
    table = pa.table({"ts": [90, None], "a": [1, 1]}, schema=SCHEMA)
    _, report = join.batch([table, rows()], control=Control(k=0, clock=1))
    assert (report.profile.n_late, report.profile.n_lost) == (1, 3)
    late = written(join, "late", "s1")
    assert sum(late.column("__lost").to_pylist()) == 3
    assert late.column("__owned").to_pylist().count(True) == 1
    refused = written(join, "refused", "s1")
    assert refused.column("__reason").to_pylist() == ["null time"]


def test_state_of_another_layout_is_refused(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 1, tmp_path)
    join.stores[0].meta = '{"layout": 99}'
    with pytest.raises(StateVersionError, match=r"state has layout 99, this release reads layout"):
        join.batch([rows(1), rows(1)], control=None)


def test_a_report_says_how_long_each_stage_took(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 1, tmp_path)
    _, report = join.batch([rows(1), rows(1)], control=None)
    assert set(report.seconds) >= {"route", "decode", "restore", "join", "state", "report"}


def test_reports_of_another_layout_are_refused(tmp_path: Path) -> None:
    join = LocalJoin(two_streams(), 1, tmp_path)
    join.batch([rows(1), rows(1)], control=None)
    (written,) = (tmp_path / "reports").rglob("*.json")
    content = json.loads(written.read_text())
    del content["layout"], content["checksum"]
    written.write_text(json.dumps(content))
    message = "reports of layout 1, this release reads layout 3; go on with the release that wrote"
    with pytest.raises(StateVersionError, match=message):
        list(ControlLog(str(tmp_path)).reports_after(-1))


def test_a_restart_with_other_settings_does_not_meet_the_old_pipeline(tmp_path: Path) -> None:
    without = EngineSettings(arrival="tick")
    old = LocalJoin(two_streams(), 1, tmp_path / "old", settings=without)
    old.batch([rows(10, 20), rows(15)], control=Control(k=0, clock=0))
    new = LocalJoin(two_streams(), 1, tmp_path / "new")
    new.stores = old.stores
    _, report = new.batch([rows(40), rows(40)], control=Control(k=0, clock=1))
    assert report.n_restored == 1
    assert report.profile.slack.sum() == report.profile.n_produced > 0
    _, report = new.batch([rows(50), rows(50)], control=Control(k=0, clock=2))
    assert report.n_restored == 0

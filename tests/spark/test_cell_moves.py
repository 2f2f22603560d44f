"""A join goes on with more or fewer cells, and nobody can tell from its results or its counts."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.errors import ControlLogError, StateVersionError
from recalljoin.spark.batch_planner import versions_in
from recalljoin.spark.cell_state import decode_chunk
from recalljoin.spark.cells import NOT_HOT, Hot, Layout, make_grid
from recalljoin.spark.hot_keys import Version, laid_out
from recalljoin.spark.packing import Control
from tests.effort import QUARTER
from tests.reference.tick import run_ticks
from tests.spark.local_cells import DictStore, LocalJoin
from tests.spark.test_cell import bound, n_waiting, places, tables_by_tick
from tests.spark.test_control import BOUND, NO_LIMIT, control_of, reader, ticks
from tests.spark.test_hot_keys import keys_of
from tests.spark.test_kind_cells import Compared, Kind, kinds
from tests.strategies import Case, scheduled

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.query.bound_query import BoundQuery

Changes = dict[int, tuple[int, int]]
"""For some batches, at whose end tuples move, the numbers of cells and groups from then on."""

CHANGES = st.dictionaries(
    st.integers(0, 8), st.tuples(st.sampled_from((1, 2, 3, 8)), st.integers(1, 3)), max_size=3
)


def version(query: BoundQuery, since: int, cells: tuple[int, int], hot: Hot = NOT_HOT) -> Version:
    return Version.of(since, hot, Layout(make_grid(query, cells[0]), cells[1]))


class Moving:
    """Changes the cells of a join while it runs."""

    def __init__(self, join: LocalJoin, changes: Changes) -> None:
        self.join, self.changes = join, changes
        self.versions = [version(join.plan.query, 0, (join.plan.grid.n_cells, 1))]

    def before(self, n: int, hot: Hot = NOT_HOT) -> None:
        """What is decided when batch ``n`` is planned."""
        log = self.join.plan.log
        assert log is not None
        if n in self.changes:
            self.versions.append(version(self.join.plan.query, n + 1, self.changes[n], hot))
        log.write_versions(self.versions)

    def after(self, n: int) -> None:
        """Cells whose tuples have moved must leave nothing behind for others to find."""
        before, now = [None, *self.versions][-2:] if n in self.changes else (None, None)
        if before is not None and now is not None and before[2:] != now[2:]:
            assert self.join.stores == [DictStore()] * len(self.join.stores)


@QUARTER
@given(drawn=scheduled(), changes=CHANGES, data=st.data(),
       forget=st.lists(st.booleans(), max_size=9))  # fmt: skip
def test_more_or_fewer_cells_change_no_result_and_no_count(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Case, list[int]],
    changes: Changes,
    data: st.DataObject,
    forget: list[bool],
) -> None:
    case, ks = drawn
    assume(all(abs(e.ts) <= 2**61 for e in case.arrivals))
    query = bound(case)
    join = LocalJoin(query, 2, tmp_path_factory.mktemp("log"))
    moving = Moving(join, changes)
    known = keys_of(query, case)
    expected = run_ticks(case.query, case.arrivals, k=lambda n: ks[n])
    produced: list[tuple[int, ...]] = []
    totals: Counter[str] = Counter()
    all_ticks = tables_by_tick(case)
    for n, tables in enumerate(all_ticks):
        chosen = [data.draw(st.sets(st.sampled_from(keys))) if keys else () for keys in known]
        moving.before(n, Hot(tuple(tuple(sorted(keys)) for keys in chosen)))
        results, report = join.batch(
            tables, control=Control(k=ks[n], clock=n), forget=n < len(forget) and forget[n]
        )
        moving.after(n)
        produced += places(results, case.names())
        assert report.profile.n_arrived == sum(report.n_arrived)
        totals.update(late=report.profile.n_late, lost=report.profile.n_lost)
        assert report.n_buffered == n_waiting(case, expected, n) - totals["late"]
    if all_ticks:
        results, report = join.batch([], control=Control(k=0, clock=99, flush=True))
        produced += places(results, case.names())
        totals.update(lost=report.profile.n_lost)
    assert Counter(produced) == Counter(r.arrivals for r in expected.produced)
    assert totals["late"] == len(expected.late)
    assert totals["lost"] == len(expected.lost)


@QUARTER
@given(drawn=kinds(), changes=CHANGES,
       retentions=st.lists(st.sampled_from((None, 0, 4, 15, 40, 100)), max_size=9))  # fmt: skip
def test_more_or_fewer_cells_change_no_row_of_an_eager_or_outer_join(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Case, list[int], Kind],
    changes: Changes,
    retentions: list[int | None],
) -> None:
    case, ks, kind = drawn
    compared = Compared(case, kind, 3, tmp_path_factory.mktemp("log"))
    moving = Moving(compared.join, changes)
    for n, tables in enumerate(tables_by_tick(case)):
        moving.before(n)
        compared.batch(
            tables,
            [e for e in case.arrivals if e.tick == n],
            ks[n],
            retention=dict(enumerate(retentions)).get(n),
        )
        moving.after(n)
    if case.arrivals:
        compared.batch([], [], 0, flush=True)


def moved(folder: Path) -> tuple[LocalJoin, Moving]:
    """A join of 2 cells whose tuples have left their cells, for 8."""
    join = LocalJoin(BOUND, 2, folder)
    moving = Moving(join, {1: (8, 1)})
    for n, tables in enumerate(ticks(2)):
        moving.before(n)
        join.batch(tables, control=Control(k=20, clock=n))
    return join, moving


def test_a_batch_that_is_run_again_after_the_move_does_the_same(tmp_path: Path) -> None:
    runs = []
    join, _ = moved(tmp_path)
    for _ in range(2):
        kept = [store.copy() for store in join.stores]
        results, report = join.batch(ticks(3)[2], control=Control(k=20, clock=2), forget=True)
        join.stores, join.n_batches = kept, join.n_batches - 1
        assert (report.n_cells, report.n_restored) == (8, 8)
        rows = Counter(str(row) for batch in results for row in batch.to_pylist())
        runs.append((rows, report.profile.n_produced, report.n_buffered, report.n_kept))
    assert runs[0] == runs[1]
    assert runs[0][1] > 100


def test_nothing_of_the_old_cells_stays_in_the_memory_of_the_worker(tmp_path: Path) -> None:
    join, _ = moved(tmp_path)
    join.batch(ticks(3)[2], control=Control(k=20, clock=2))
    tokens = {json.loads(store.meta or "")["token"] for store in join.stores}
    assert {token for _, token in join.memory._instances} >= tokens
    # Those of the first batch, whose tokens nobody has any more, were taken out by the second.
    assert len(join.memory._instances) == len(tokens) == 8


def test_tuples_of_one_batch_from_many_cells_become_one_chunk(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 8, tmp_path)
    moving = Moving(join, {2: (1, 1)})
    for n, tables in enumerate(ticks(4)):
        moving.before(n)
        join.batch(tables, control=Control(k=20, clock=n))
    batches = [decode_chunk(BOUND, each).batch for each in join.stores[0].chunks.values()]
    assert len(set(batches)) == len(batches) > 2


@pytest.mark.parametrize("kind", ["00001", "*-*"])
def test_tuples_that_moved_and_were_lost_or_damaged_are_missed(tmp_path: Path, kind: str) -> None:
    join, _ = moved(tmp_path)
    path = min((tmp_path / "moves" / f"{2:012d}").glob(kind))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Exception, match=r"what cells handed over is damaged"):
        join.batch(ticks(3)[2], control=Control(k=20, clock=2))
    path.unlink()
    giver = int(path.name[:5])
    with pytest.raises(ControlLogError, match=rf"has lost the tuples that cell {giver} handed"):
        join.batch(ticks(3)[2], control=Control(k=20, clock=2))


def test_a_state_that_is_not_where_it_should_be_is_missed(tmp_path: Path) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    join.batch(ticks(1)[0], control=Control(k=20, clock=0))
    join.stores[1] = DictStore()
    with pytest.raises(
        StateVersionError, match=r"no state of cell 1 before batch 1\. If `recalljo"
    ):
        join.batch(ticks(2)[1], control=Control(k=20, clock=1))


def run_planned(folder: Path, join: LocalJoin, start: Any, n: int, cells: int) -> Any:
    """Batches of one run that asks for some cells; the offset at its end."""
    source = reader(folder, layout=Layout(make_grid(BOUND, cells), cells))
    for tables in ticks(n):
        end = source.latestOffset(start, NO_LIMIT)
        rows = [row for part in source.partitions(start, end) for row in part.rows]  # type: ignore[attr-defined]
        assert {row[1] for row in rows} == set(range(len(rows)))
        _, report = join.batch(tables, control=control_in(rows))
        assert report.n_cells == len(rows)
        start = end
    return start


def control_in(rows: list[Any]) -> Control:
    content = json.loads(rows[0][2])
    del content["kind"]
    return Control(**content)


def test_the_second_batch_of_a_run_decides_and_the_third_has_the_cells_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    join = LocalJoin(BOUND, 2, tmp_path)
    assert join.plan.log is not None
    first = reader(tmp_path).initialOffset()
    end = run_planned(tmp_path, join, first, 3, cells=2)
    assert [v.since for v in versions_in(end)] == [0]
    # Spark may pass over a number of a batch between two runs, when partitions are changed.
    join.n_batches += 1
    end = run_planned(tmp_path, join, end, 2, cells=4)
    assert "goes on in 4 cells and 4 groups from batch 6 on; it had 2 and 2" in caplog.text
    assert [(v.since, v.shares) for v in versions_in(end)] == [(0, (2,)), (6, (4,))]
    # Another run may want others again before anything has moved in.
    end = run_planned(tmp_path, join, end, 8, cells=1)
    assert [(v.since, v.shares) for v in versions_in(end)] == [(0, (2,)), (6, (4,)), (8, (1,))]
    assert [r.n_cells for r in join.plan.log.reports_after(-1)] == [2] * 5 + [4] * 2 + [1] * 6
    assert join.plan.log.names("moves") == []


def test_a_checkpoint_of_the_release_before_tells_its_cells_in_its_identity(tmp_path: Path) -> None:
    source = reader(tmp_path)
    old = {**source.initialOffset(), "hot": [{"since": 5, "keys": [[7]]}]}
    old["identity"] = json.dumps({**json.loads(old["identity"]), "cells": [3], "groups": 2})
    assert versions_in(old) == (Version(0, NOT_HOT, (3,), 2), Version(5, Hot(((7,),)), (3,), 2))
    end = source.latestOffset(old, NO_LIMIT)
    assert len(source.partitions(old, end)[0].rows) == 3  # type: ignore[attr-defined]
    assert control_of(source, {**old, "hot": source.initialOffset()["hot"]}, end).k == end["k"]


def test_keys_stay_hot_over_a_change_unless_there_is_nothing_to_spread_them_over() -> None:
    hot = Hot(((7,),))
    versions = (version(BOUND, 3, (4, 1), hot),)
    assert laid_out(versions, Layout(make_grid(BOUND, 4), 1), 9) == versions
    assert laid_out(versions, Layout(make_grid(BOUND, 4), 2), 9)[-1] == Version(10, hot, (4,), 2)
    assert laid_out(versions, Layout(make_grid(BOUND, 1), 1), 9)[-1] == Version(
        10, NOT_HOT, (1,), 1
    )

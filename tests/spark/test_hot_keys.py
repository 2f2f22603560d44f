"""A key that most tuples have is spread over cells, and nobody can tell from the results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.errors import InvalidSetting, RecallJoinError
from recalljoin.query.model import Query, Stream
from recalljoin.spark.cells import NOT_HOT, Hot, make_grid
from recalljoin.spark.hashing import hashed
from recalljoin.spark.hot_keys import (
    Heavy,
    HotTracker,
    Version,
    heavy_keys,
    next_versions,
    version_after,
    version_at,
)
from recalljoin.spark.packing import Control
from recalljoin.spark.planning import hot_of
from tests.effort import QUARTER
from tests.reference.tick import run_ticks
from tests.spark.local_cells import LocalJoin
from tests.spark.test_cell import bound as bound_case
from tests.spark.test_cell import n_waiting, places, tables_by_tick
from tests.strategies import Case, scheduled

if TYPE_CHECKING:
    from pathlib import Path

    from recalljoin.query.bound_query import BoundQuery

SCHEMA = pa.schema({"ts": pa.int64(), "a": pa.int64(), "n": pa.int64()})


def bound(m: int = 2, condition: str | None = None) -> BoundQuery:
    names = [f"s{i + 1}" for i in range(m)]
    condition = condition or " AND ".join(f"s1.a = {name}.a" for name in names[1:])
    streams = [Stream(name, window=50) for name in names]
    return Query(streams=streams, condition=condition).bind(dict.fromkeys(names, SCHEMA))


def hot(*values: int) -> Hot:
    return Hot((tuple(sorted(int(h) for h in hashed(pa.array(values, pa.int64())))),))


def rows(n: int, *, seed: int, share: float = 0.8, n_keys: int = 50, now: int = 0) -> pa.Table:
    """``n`` tuples, most of them with key 0."""
    random = np.random.default_rng(seed)
    keys = np.where(random.random(n) < share, 0, random.integers(0, n_keys, n))
    ts = now + np.sort(random.integers(0, 50, n))
    return pa.table({"ts": ts, "a": keys, "n": np.arange(n) + 1000 * seed}, schema=SCHEMA)


@pytest.mark.parametrize(("m", "n_cells"), [(2, 2), (2, 3), (2, 8), (3, 8), (3, 12)])
def test_members_with_a_hot_key_meet_in_exactly_one_cell(m: int, n_cells: int) -> None:
    query = bound(m)
    grid = make_grid(query, n_cells)
    tables = [rows(12, seed=s, share=0.5, n_keys=3) for s in range(m)]
    cells: list[list[set[int]]] = []
    for s, table in enumerate(tables):
        numbers, found = grid.copies_of(query, s, table, table["ts"].to_numpy(), hot(0, 2))
        assert len({*zip(numbers.tolist(), found.tolist(), strict=True)}) == len(numbers)
        cells.append([set(found[numbers == i].tolist()) for i in range(len(table))])
    keys = [table["a"].to_pylist() for table in tables]
    n_results = 0
    for members in np.ndindex(*(len(table) for table in tables)):
        if len({keys[s][i] for s, i in enumerate(members)}) == 1:
            assert len(set.intersection(*(cells[s][i] for s, i in enumerate(members)))) == 1
            n_results += 1
    assert n_results > 50


def test_a_hot_key_is_spread_evenly_and_other_keys_stay_where_they_are() -> None:
    query = bound()
    grid = make_grid(query, 8)
    table = rows(4000, seed=1, share=1.0)
    ts = table["ts"].to_numpy()
    work = [np.zeros(8), np.zeros(8)]
    for at, keys in enumerate((NOT_HOT, hot(0))):
        for s in range(2):
            _, cells = grid.copies_of(query, s, table, ts, keys)
            work[at] += np.bincount(cells, minlength=8)
    # One cell had all 8000 tuples. As 2 x 4 cells, each has a half of one stream, a fourth of the
    # other.
    assert sorted(work[0].tolist()) == [0.0] * 7 + [8000.0]
    assert work[1].max() < 1.1 * 8000 * 3 / 8
    assert work[1].min() > 0.9 * 8000 * 3 / 8
    others = rows(500, seed=2, share=0.0).filter(pa.array([True] * 500))
    ts = others["ts"].to_numpy()
    plain = grid.cells_of(query, 0, others, ts)[:, 0]
    numbers, cells = grid.copies_of(query, 0, others, ts, hot(77))
    assert (numbers.tolist(), cells.tolist()) == (list(range(500)), plain.tolist())


@pytest.mark.parametrize("n_cells", [2, 3, 8])
@QUARTER
@given(drawn=scheduled(), changes=st.lists(st.integers(0, 8), max_size=3, unique=True),
       data=st.data(), forget=st.lists(st.booleans(), max_size=9))  # fmt: skip
def test_keys_that_become_hot_and_cold_change_no_result_and_no_count(  # noqa: PLR0917 - drawn
    tmp_path_factory: pytest.TempPathFactory,
    n_cells: int,
    drawn: tuple[Case, list[int]],
    changes: list[int],
    data: st.DataObject,
    forget: list[bool],
) -> None:
    case, ks = drawn
    assume(all(abs(e.ts) <= 2**61 for e in case.arrivals))
    query = bound_case(case)
    assume(query.classes)
    join = LocalJoin(query, n_cells, tmp_path_factory.mktemp("log"))
    assert join.plan.log is not None
    known = keys_of(query, case)
    versions: list[Version] = []
    expected = run_ticks(case.query, case.arrivals, k=lambda n: ks[n])
    produced: list[tuple[int, ...]] = []
    totals: Counter[str] = Counter()
    ticks = tables_by_tick(case)
    for n, tables in enumerate(ticks):
        if n in changes:
            chosen = [data.draw(st.sets(st.sampled_from(keys))) if keys else () for keys in known]
            versions.append(Version(n + 1, Hot(tuple(tuple(sorted(keys)) for keys in chosen))))
            join.plan.log.write_versions(versions)
        results, report = join.batch(
            tables, control=Control(k=ks[n], clock=n), forget=n < len(forget) and forget[n]
        )
        produced += places(results, case.names())
        assert report.profile.n_arrived == sum(report.n_arrived)
        totals.update(late=report.profile.n_late, lost=report.profile.n_lost)
        assert report.n_buffered == n_waiting(case, expected, n) - totals["late"]
    if ticks:
        results, report = join.batch([], control=Control(k=0, clock=99, flush=True))
        produced += places(results, case.names())
        totals.update(lost=report.profile.n_lost)
    assert Counter(produced) == Counter(r.arrivals for r in expected.produced)
    assert totals["late"] == len(expected.late)
    assert totals["lost"] == len(expected.lost)


def keys_of(query: BoundQuery, case: Case) -> list[list[int]]:
    """For each class, hashes of the keys there are."""
    from recalljoin.spark.cells import key_hashes

    found: list[set[int]] = [set() for _ in query.classes]
    for tables in tables_by_tick(case):
        for s, table in enumerate(tables):
            ts = np.array(table["ts"].to_pylist(), dtype=np.int64)
            for c, equality in enumerate(query.classes):
                if s in equality.members and len(table):
                    found[c] |= {int(h) for h in key_hashes(query, c, s, table, ts)}
    return [sorted(keys) for keys in found]


def test_keys_most_tuples_have_are_noticed_and_others_are_not() -> None:
    query = bound()
    grid = make_grid(query, 4)
    table = rows(20_000, seed=1, share=0.4, n_keys=1000)
    (found,) = heavy_keys(query, grid, 0, table, table["ts"].to_numpy())
    assert found[:3] == (0, 0, hot(0).keys[0][0])
    assert 7000 < found.n < 9000
    even = rows(20_000, seed=1, share=0.0, n_keys=1000)
    assert heavy_keys(query, grid, 0, even, even["ts"].to_numpy()) == []
    assert heavy_keys(query, make_grid(query, 1), 0, table, table["ts"].to_numpy()) == []


def test_a_key_becomes_hot_at_half_a_cell_and_stays_so_for_a_while() -> None:
    tracker = HotTracker(make_grid(bound(), 4))
    # With 4 cells, half a cell is an eighth of a stream.
    tracker.observe((1000, 1000), [Heavy(0, 0, 7, 500)])
    assert tracker.choose(NOT_HOT) == NOT_HOT  # too few to say
    for _ in range(5):
        tracker.observe((1000, 1000), [Heavy(0, 0, 7, 130), Heavy(1, 0, 9, 110)])
    assert tracker.choose(NOT_HOT) == Hot(((7,),))
    assert tracker.choose(Hot(((9,),))) == Hot(((7, 9),))
    for _ in range(30):
        tracker.observe((1000, 1000), [Heavy(0, 0, 7, 20)])
    assert tracker.choose(Hot(((7, 9),))) == NOT_HOT


def test_a_change_counts_from_the_batch_after_the_planned_one_and_not_too_often() -> None:
    tracker = HotTracker(make_grid(bound(), 4))
    tracker.observe((9000, 9000), [Heavy(0, 0, 7, 9000)])
    versions = next_versions((), tracker, planned=5)
    assert versions == (Version(6, Hot(((7,),))),)
    assert (version_at(versions, 5).hot, version_at(versions, 6).hot) == (NOT_HOT, Hot(((7,),)))
    assert (version_after(versions, 5), version_after(versions, 6)) == (versions[0], None)
    for _ in range(40):
        tracker.observe((9000, 9000), [])
    assert next_versions(versions, tracker, planned=6) == versions
    assert next_versions(versions, tracker, planned=20)[-1] == Version(21, NOT_HOT)


def test_tuples_handed_over_and_lost_are_missed(tmp_path: Path) -> None:
    join = LocalJoin(bound(), 2, tmp_path)
    assert join.plan.log is not None
    join.batch([rows(9, seed=1), rows(9, seed=2)], control=Control(k=0, clock=0))
    join.plan.log.write_versions([Version(1, hot(0))])
    with pytest.raises(RecallJoinError, match=r"has lost the tuples that cell 0 handed over"):
        join.batch([rows(9, seed=1), rows(9, seed=2)], control=Control(k=0, clock=1))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"s1.n": [1]}, r"names 's1.n', which is no column .* such columns are: s1.a, s2.a"),
        ({"s1.a": ["x"]}, r"`hot_keys` of 's1.a' must be values of type int64, got \['x'\]"),
    ],
)
def test_hot_keys_that_cannot_be_are_refused(named: Any, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        hot_of(bound(), named)


def test_a_field_cannot_be_a_named_hot_key_and_must_first_be_a_column() -> None:
    nested = pa.schema({"ts": pa.int64(), "ad": pa.struct({"id": pa.string()})})
    streams = [Stream("s1", window=5), Stream("s2", window=5)]
    query = Query(streams=streams, condition="s1.ad.id = s2.ad.id")
    with pytest.raises(InvalidSetting, match="are: none; a field or an expression must"):
        hot_of(query.bind({"s1": nested, "s2": nested}), {"s1.ad.id": ["x"]})


def test_named_keys_are_hot_from_the_first_batch_on(tmp_path: Path) -> None:
    query = bound()
    assert hot_of(query, {"s2.a": [0]}) == hot(0)
    found, busiest = [], []
    for number, named in enumerate((NOT_HOT, hot(0))):
        join = LocalJoin(query, 8, tmp_path / str(number), named_hot=named)
        tables = [rows(400, seed=s) for s in range(2)]
        results, report = join.batch(tables, control=Control(k=0, clock=0))
        found.append(Counter(places_of(results)))
        busiest.append(max(report.loads))
        assert report.profile.n_arrived == 800
    assert found[0] == found[1]
    # Of 100,000 results nearly all were found in one of 8 cells.
    assert busiest[1] < busiest[0] / 6


def places_of(results: list[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [(r["s1"]["n"], r["s2"]["n"]) for batch in results for r in batch.to_pylist()]

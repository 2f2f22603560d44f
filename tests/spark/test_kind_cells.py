"""Eager, outer, semi and anti joins over cells: what the reference says, whatever their number."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recalljoin.errors import InvalidSetting
from recalljoin.query.kinds import EMITS, HOWS, PRESERVED
from recalljoin.query.model import Query, Stream
from recalljoin.spark.cells import Hot, make_grid
from recalljoin.spark.hot_keys import Version, can_split
from recalljoin.spark.packing import Control, needed_schema
from recalljoin.spark.planning import identity_of
from recalljoin.spark.progress import progress_table
from tests.effort import QUARTER
from tests.reference.kinds import KindJoin
from tests.spark.local_cells import LocalJoin
from tests.spark.test_cell import bound, tables_by_tick
from tests.spark.test_hot_keys import keys_of
from tests.strategies import Case, cases, scheduled

if TYPE_CHECKING:
    from pathlib import Path

    from hypothesis.strategies import DrawFn

    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.kinds import Emit, How

Kind = tuple["How", "Emit"]


@st.composite
def kinds(draw: DrawFn) -> tuple[Case, list[int], Kind]:
    how, emit = draw(st.sampled_from(HOWS)), draw(st.sampled_from(EMITS))
    assume((how, emit) != ("inner", "ordered"))
    case, ks = draw(scheduled(cases() if how == "inner" else cases(max_m=2)))
    assume(all(abs(e.ts) <= 2**61 for e in case.arrivals))
    return case, ks, (how, emit)


def named(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [
        tuple(v["place"] if isinstance(v, dict) else v for v in row.values())
        for row in batch.to_pylist()
    ]


class Compared:
    """A join over cells beside the reference, batch by batch."""

    def __init__(self, case: Case, kind: Kind, n_cells: int, folder: Path) -> None:
        self.query = replace(bound(case), how=kind[0], emit=kind[1])
        self.join = LocalJoin(self.query, n_cells, folder)
        self.reference = KindJoin(case.query, how=kind[0], emit=kind[1], horizon=None)
        self.nulls = self.false_nulls = self.produced = 0

    def batch(self, tables: list[pa.Table], tick: list[Any], k: int, **control: Any) -> None:
        """One micro-batch of both."""
        forget = control.pop("forget", False)
        n_left = len(self.reference.rows)
        if control.get("flush"):
            self.reference.flush()
        else:
            if control.get("retention") is not None:
                self.reference.remember_for(control["retention"])
            self.reference.step(tick, k=k)
        told = Control(k=k, clock=self.join.n_batches, **control)
        # As Spark selects them.
        read = [t.select(needed_schema(self.query, s).names) for s, t in enumerate(tables)]
        results, report = self.join.batch(read, control=told, n_tasks=2, forget=forget)
        left = Counter(row for batch in results for row in named(batch))
        assert left == Counter((*row.arrivals, row.ts) for row in self.reference.rows[n_left:])
        self.nulls += report.profile.nulls.total
        self.false_nulls += report.profile.false_nulls.total
        self.produced += report.profile.n_produced
        if self.query.how != "semi":
            judged = self.reference.judged.values()
            assert self.nulls == sum(each.has_left for each in judged)
            assert self.false_nulls == sum(each.is_false for each in judged)


def run(
    compared: Compared,
    case: Case,
    ks: list[int],
    forget: list[bool],
    retentions: list[int | None] | None = None,
) -> None:
    for n, tables in enumerate(tables_by_tick(case)):
        compared.batch(
            tables,
            [e for e in case.arrivals if e.tick == n],
            ks[n],
            forget=n < len(forget) and forget[n],
            retention=dict(enumerate(retentions or [])).get(n),
        )
    if case.arrivals:
        compared.batch([], [], 0, flush=True, forget=bool(forget))
        n_false = sum(each.is_false for each in compared.reference.judged.values())
        assert compared.produced == len(compared.reference.rows) - n_false * (
            compared.query.how != "semi"
        )


@pytest.mark.parametrize("n_cells", [1, 2, 3, 8])
@QUARTER
@given(
    drawn=kinds(),
    forget=st.lists(st.booleans(), max_size=9),
    retentions=st.lists(st.sampled_from((None, 0, 4, 15, 40, 100)), max_size=9),
)
def test_cells_emit_and_count_what_the_reference_does(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    n_cells: int,
    drawn: tuple[Case, list[int], Kind],
    forget: list[bool],
    retentions: list[int | None],
) -> None:
    case, ks, kind = drawn
    compared = Compared(case, kind, n_cells, tmp_path_factory.mktemp("log"))
    run(compared, case, ks, forget, retentions)


@pytest.mark.parametrize("n_cells", [3, 8])
@QUARTER
@given(drawn=kinds(), changes=st.lists(st.integers(0, 8), max_size=3, unique=True), data=st.data())
def test_keys_that_become_hot_and_cold_change_no_row(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    n_cells: int,
    drawn: tuple[Case, list[int], Kind],
    changes: list[int],
    data: st.DataObject,
) -> None:
    case, ks, kind = drawn
    compared = Compared(case, kind, n_cells, tmp_path_factory.mktemp("log"))
    assume(compared.query.classes and kind[0] != "full")
    log = compared.join.plan.log
    assert log is not None
    versions: list[Version] = []
    known = keys_of(compared.query, case)
    for n, tables in enumerate(tables_by_tick(case)):
        if n in changes:
            chosen = [data.draw(st.sets(st.sampled_from(keys))) if keys else () for keys in known]
            versions.append(Version(n + 1, Hot(tuple(tuple(sorted(keys)) for keys in chosen))))
            log.write_versions(versions)
        compared.batch(tables, [e for e in case.arrivals if e.tick == n], ks[n])
    if case.arrivals:
        compared.batch([], [], 0, flush=True)


def query(how: How, condition: str | None) -> BoundQuery:
    schema = pa.schema({"ts": pa.int64(), "a": pa.int64()})
    streams = [Stream("s1", window=5), Stream("s2", window=5)]
    stated = Query(streams=streams, condition=condition, how=how)
    return stated.bind({"s1": schema, "s2": schema})


@pytest.mark.parametrize("condition", ["s1.a = s2.a", "abs(s1.a - s2.a) < 2", None])
@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_a_preserved_tuple_is_in_one_cell_with_all_tuples_that_may_be_its_partners(
    how: How, condition: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    asked = query(how, condition)
    grid = make_grid(asked, 6)
    assert all(grid.n_copies(s) == 1 for s in PRESERVED[how])
    has_key = condition == "s1.a = s2.a"
    assert grid.n_cells == (1 if how == "full" and not has_key else 6)
    assert ("runs in one cell" in caplog.text) == (how == "full" and not has_key)
    assert can_split(grid) == (has_key and how != "full")
    if not has_key and how != "full":
        (preserved,) = PRESERVED[how]
        assert grid.n_copies(1 - preserved) == 6
    if can_split(grid):
        table = pa.table({"ts": range(40), "a": [3] * 40})
        ts = table["ts"].to_numpy()
        hot = Hot((tuple({int(h) for h in _hashes(asked, table)}),))
        (preserved,) = PRESERVED[how]
        rows, cells = grid.copies_of(asked, preserved, table, ts, hot)
        assert rows.tolist() == list(range(40))
        assert len(set(cells.tolist())) > 3
        assert len(grid.copies_of(asked, 1 - preserved, table, ts, hot)[0]) == 6 * 40


def _hashes(asked: BoundQuery, table: pa.Table) -> Any:
    from recalljoin.spark.cells import key_hashes

    return key_hashes(asked, 0, 0, table, table["ts"].to_numpy())


def test_false_nulls_are_counted_shown_and_kept_as_rows(tmp_path: Path) -> None:
    join = LocalJoin(query("left", "s1.a = s2.a"), 2, tmp_path)

    def batch(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
        tables = [
            pa.table({"ts": [ts for ts, _ in rows], "a": [a for _, a in rows]},
                     schema=join.plan.query.streams[0].schema)
            for rows in (one, other)
        ]  # fmt: skip
        results, _ = join.batch(tables, control=Control(k=0, clock=0, retention=50))
        return [tuple(row.values()) for each in results for row in each.to_pylist()]

    batch([(0, 1), (1, 2)], [(0, 1)])
    assert batch([(20, 3)], [(20, 3)])[-1] is not None
    batch([(40, 4)], [(1, 2), (40, 4)])
    table = progress_table(join.plan.log).to_pydict()  # type: ignore[arg-type]
    assert table["nulls"] == [0, 1, 0]
    assert table["false_nulls"] == [0, 0, 1]
    assert table["total_false_nulls"] == [0, 0, 1]
    assert table["null_precision"] == [None, 1.0, 0.0]
    (file,) = (tmp_path / "false_nulls" / "s1").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"ts": 1, "a": 2, "__batch": 2}]


def test_another_kind_does_not_go_on_with_a_checkpoint(tmp_path: Path) -> None:
    identities = {
        identity_of(each)
        for how in HOWS
        for emit in EMITS
        for each in [replace(query(how, "s1.a = s2.a"), emit=emit)]
    }
    assert len(identities) == len(HOWS) * len(EMITS)
    left, right = query("left", "s1.a = s2.a"), query("right", "s1.a = s2.a")
    tables = [pa.table({"ts": [1], "a": [1]})] * 2
    first = LocalJoin(left, 1, tmp_path, identity=identity_of(left))
    first.batch(tables, control=Control(k=0, clock=0))
    other = LocalJoin(right, 1, tmp_path, identity=identity_of(right))
    other.stores = first.stores
    with pytest.raises(InvalidSetting, match="`how`: was left, is right"):
        other.batch(tables, control=Control(k=0, clock=0), forget=True)

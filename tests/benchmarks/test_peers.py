"""Peers are not installed here: their inputs, the checksum over results, and tables of runs are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks import inputs
from benchmarks.peers import duckdb as duckdb_peer
from benchmarks.peers.__main__ import chosen, main, measure
from benchmarks.peers.peer import Cell
from benchmarks.peers.record import Record, Where, unequal
from benchmarks.peers.report import SECTION, plot, with_section
from benchmarks.peers.systems import ENGINE, ONE_THREAD, SYSTEMS
from benchmarks.peers.targets import N, rate, targets
from benchmarks.peers.targets import inputs as target_inputs
from benchmarks.peers.workloads import WORKLOADS
from benchmarks.spark_join import with_tables

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "# Performance\n\nOther tables.\n\n## On Spark\n\nMade somehow.\n\n### a batch\n\n| kept |\n"


def cell(system: str, n: int, seconds: float, *, checksum: int = 7, failure: str = "") -> Cell:
    return Cell(system, 2 * n, 5.0, seconds, 2 * seconds, 3 * n, checksum, "1.0", failure)


@pytest.fixture
def record() -> Record:
    kept = Record()
    for n in (N, 4 * N):
        for system, per_million in (("recalljoin", 1.0), ("spark-hdfs", 12.0), ("flink", 4.0)):
            kept.add(Where("two", n, 10), cell(system, n, 2 + per_million * n / 1e6))
    kept.add(Where("two", N, 10), cell("pathway", N, 0, failure="timeout: not done after 600 s"))
    kept.add(Where("two", N, 10), cell(ENGINE, N, 1.0))
    kept.add(Where("two", N, 10), cell(ONE_THREAD, N, 0.4))
    return kept


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_condition_as_it_stands_and_by_cells_and_pieces_gives_the_same_results(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "WARM_UP", 1_000)
    made = replace(WORKLOADS[name].sized(3_000, 2), per_ms=4, window=50)
    folder = made.write_sorted(tmp_path)
    near = " AND ".join(
        f"abs(epoch_ms({one}.ts) - epoch_ms({other}.ts)) <= {made.window}"
        for one in made.streams
        for other in made.streams
        if one < other
    )
    tables = ", ".join(f"'{folder / stream}.parquet' {stream}" for stream in made.streams)
    query = f"SELECT count(*), sum({made.checksum()}) FROM {tables}"
    condition = f"{made.condition} AND {near}"
    [plain] = duckdb.connect().execute(f"{query} WHERE {condition}").fetchall()
    assert plain[0] > 1_000
    assert duckdb_peer.join(made, folder) == plain


def test_no_tuple_comes_later_than_the_longest_delay_and_the_last_lets_all_go(
    tmp_path: Path,
) -> None:
    made = WORKLOADS["heavy"].sized(300_000, 3)
    table = pq.read_table(made.write_whole(tmp_path) / "a.parquet")
    files = sorted((made.write(tmp_path) / "a").iterdir())
    assert len(files) == 2 * (1 + 3)
    assert sum(pq.read_metadata(file).num_rows for file in files) == len(table)
    assert len(table) == inputs.WARM_UP + 300_000 + 2
    ts = table["ts"].cast("int64").to_pandas() // 1000
    lag = (ts.cummax() - ts)[:-2]
    assert made.delay / 2 < lag.max() <= made.delay
    assert ts.iloc[-1] > ts[:-2].max() + made.delay + made.window


def test_small_batches_that_warm_up_have_the_tuples_of_one(tmp_path: Path) -> None:
    once = WORKLOADS["two"].sized(40_000, 2)
    often = replace(once, n_warm_up=5)
    rows = [
        [pq.read_metadata(file).num_rows for file in sorted((made.write(tmp_path) / "a").iterdir())]
        for made in (once, often)
    ]
    assert rows == [[10_000] * 6, [2_000] * 10 + [10_000] * 4]
    tables = (pq.read_table(made.write_whole(tmp_path) / "a.parquet") for made in (once, often))
    assert next(tables).equals(next(tables))


def test_a_checksum_sees_partners_that_are_exchanged() -> None:
    made = WORKLOADS["two"].sized(0, 1)
    number = made.checksum("{stream}{column}")
    sums = [
        duckdb.connect()
        .execute(f"SELECT sum({number}) FROM (VALUES {pairs}) t(avalue, bvalue)")
        .fetchall()
        for pairs in ("(1, 2), (3, 4)", "(1, 4), (3, 2)", "(3, 4), (1, 2)")
    ]
    assert sums[0] != sums[1]
    assert sums[0] == sums[2]


def test_targets_say_what_is_met_what_is_missed_and_what_was_not_measured(record: Record) -> None:
    assert rate(record, "two", "recalljoin") == pytest.approx(2e6)
    verdicts = {target.what: target.verdict for target in targets(record)}
    assert verdicts["2-way, 1,000,000 tuples a stream in 10 batches: to Spark's better store"] == (
        "met"
    )
    assert verdicts["marginal rate, 2-way: to the best of Flink, Pathway and Bytewax"] == (
        "**missed**"
    )
    assert verdicts["the engine alone, 2-way, one core: to DuckDB"] == "**missed**"
    assert verdicts["marginal rate, 3-way"] == "not measured"


def test_the_section_is_made_again_and_everything_else_stays(
    record: Record, tmp_path: Path
) -> None:
    page = with_section(PAGE, record)
    assert page.startswith(PAGE.rstrip())
    assert page.count(SECTION) == 1
    row = next(line for line in page.splitlines() if line.startswith("| two | 1,000,000 |"))
    assert "| 3.0 | 14.0 | 6.0 | timeout |" in row
    assert "**missed**" in page
    assert with_section(page, record) == page
    # Other benchmarks leave it alone.
    assert with_tables(page, []).endswith(page[page.index(SECTION) :])
    # Of anything that was measured, and of what has failed alone.
    failed = Record()
    failed.add(Where("band", N, 40), cell("flink", N, 0, failure="timeout: not done"))
    for each in (record, failed):
        plot(each, tmp_path / "figures" / "peers.svg")
        assert (tmp_path / "figures" / "peers.svg").read_text().startswith("<?xml")


def test_other_results_are_told_and_runs_are_kept(record: Record, tmp_path: Path) -> None:
    assert unequal(record, record.inputs()) == []
    kept = Record(tmp_path / "runs.jsonl")
    for run in record.runs:
        kept.add(run.where, run.cell)
    assert Record(tmp_path / "runs.jsonl").runs == kept.runs
    kept.add(Where("two", N, 10), cell("bytewax", N, 1.0, checksum=8))
    assert len(unequal(kept, kept.inputs())) == 1
    assert "**not equal**" in with_section(PAGE, kept)
    kept.forget(Where("two", N, 10), "bytewax")
    assert unequal(kept, kept.inputs()) == []


def test_a_system_whose_time_was_over_is_not_given_more_tuples(
    record: Record, tmp_path: Path
) -> None:
    where = Where("two", 4 * N, 10)
    measure(record, where, ("pathway",), tmp_path, runs=3, timeout=0, again=False)
    assert [cell.failure for cell in record.of(where, "pathway")] == [
        "timeout: not done after 600 s"
    ]


def test_options_pick_cells_and_no_options_what_the_targets_need() -> None:
    assert chosen((), (), (), quick=False) == target_inputs()
    assert chosen(("band",), (), (40,), quick=False) == [Where("band", N, 40)]
    assert len(chosen((), (), (), quick=True)) == len(WORKLOADS)
    refused = CliRunner().invoke(main, ["--system", "storm"])
    assert refused.exit_code == 2
    assert all(name in refused.output for name in SYSTEMS)

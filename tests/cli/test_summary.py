"""What a person reads of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="runs are set up for Spark")

from recalljoin.cli.summary import print_summary
from recalljoin.experiments import Setup
from recalljoin.quality.adaptive import run_adaptive
from recalljoin.quality.policies import make_policy
from recalljoin.quality.settings import PolicySettings
from tests.experiments.bound import bound_arrivals
from tests.experiments.recordings import QUERY, disordered

if TYPE_CHECKING:
    from recalljoin.quality.record import RunRecord


def record_of(tables: dict[str, pa.Table], *, period: int = 4000) -> RunRecord:
    query, arrivals = bound_arrivals(QUERY, tables)
    settings = replace(PolicySettings.of(query), recall=0.9, period=period)
    return run_adaptive(query, arrivals, make_policy("fixed", settings, k=300), settings)


def summary(
    capsys: pytest.CaptureFixture[str], record: RunRecord, setup: Setup, *, exact: bool = True
) -> dict[str, str]:
    print_summary(record, setup, exact=exact)
    lines = capsys.readouterr().out.splitlines()
    return {line[:11].strip(): line[11:].strip() for line in lines}


def test_target_recall_slack_latency_sizes_and_cost_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = record_of(disordered())
    told = summary(capsys, record, Setup(policy="fixed", k=300))
    assert told["policy"] == "fixed, for a recall of 0.9; tuple by tuple"
    assert told["recall"].startswith(
        f"{record.mean_recall:.4f}, mean of {len(record.measurements)}"
    )
    assert " periods of 4 s; " in told["recall"]
    assert told["slack (K)"] == "mean 300 ms; 300 ms to 300 ms"
    assert told["latency"].startswith("mean ")
    assert told["results"].endswith(f"; {record.n_lost:,} counted as lost")
    assert told["tuples"] == f"2,000, of them {record.n_late:,} late"
    assert "s in the join, " in told["time"]


def test_ticks_and_cells_and_counted_truth_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    setup = Setup(policy="fixed", k=300, arrival_mode="tick", tick="50 ms", cells=3)
    told = summary(capsys, record_of(disordered()), setup, exact=False)
    assert told["policy"].endswith("; in ticks of 50 ms, 3 cells")
    assert "true ones" in told["results"]
    assert ", as far as they were counted; " in told["results"]


def test_a_run_too_short_to_measure_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    short = {name: table.slice(0, 20) for name, table in disordered().items()}
    told = summary(capsys, record_of(short, period=60_000), Setup(policy="fixed", k=300))
    assert told["recall"] == "not measured: the join never came a whole period (60 s) far"
    assert told["slack (K)"] == "never adapted: the recording is shorter than the interval"


def test_a_run_without_results_has_no_latency(capsys: pytest.CaptureFixture[str]) -> None:
    none = {name: table.slice(0, 0) for name, table in disordered().items()}
    told = summary(capsys, record_of(none), Setup(policy="fixed", k=300))
    assert "latency" not in told
    assert told["results"] == "none, and there were no true ones"


def test_refused_rows_are_told_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    tables = disordered()
    ts = pa.array([None, None, *tables["a"]["ts"].to_pylist()[2:]], pa.int64())
    tables["a"] = tables["a"].set_column(1, "ts", ts)
    told = summary(capsys, record_of(tables), Setup(policy="fixed", k=300))
    assert told["tuples"].endswith(" late; refused: 2 null time")

"""The demo: a real streaming query, watched, and policies side by side."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from rich.console import Console

pytest.importorskip("pyspark", reason="the demo runs on Spark")

from recalljoin.cli import main
from recalljoin.cli.demo import drawn, line, reported, watch
from recalljoin.experiments.demo import Look, disordered_orders

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LOOKS = [
    Look(batch=0, k_ms=0, recall=1.0, produced=5, lost=0, late=0, arrived=10),
    Look(batch=1, k_ms=2540, recall=0.9512, produced=1234, lost=56, late=78, arrived=2000),
]


def test_the_streams_are_out_of_order_and_the_same_for_a_seed() -> None:
    one, two = disordered_orders(0.1, 3), disordered_orders(0.1, 3)
    assert one == two
    ts = one["o"]["ts"].to_pylist()
    assert ts != sorted(ts)


def test_a_batch_is_told_in_a_line() -> None:
    assert line(LOOKS[1]) == (
        "batch   1  K  2.54 s  recall ~0.9512  1,234 results, 56 lost, 78 tuples late"
    )
    nothing = Look(batch=0, k_ms=5000, recall=None, produced=0, lost=0, late=0, arrived=10)
    assert line(nothing) == (
        "batch   0  K     5 s  recall    -     0 results, 0 lost, 0 tuples late"
    )


def test_on_a_terminal_slack_and_recall_are_drawn_over_time() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(drawn([], n_batches=4, recall=0.95))
    console.print(drawn(LOOKS, n_batches=4, recall=0.95))
    # Before the first result there is no recall, and that is no fault.
    assert drawn([replace(LOOKS[0], recall=None)], n_batches=4, recall=0.95)
    assert isinstance(console.file, io.StringIO)
    starting, slack, recall, results, tuples, batches = console.file.getvalue().splitlines()
    assert starting == "the query is starting"
    assert "2.54 s" in slack
    assert "▁█" in slack
    assert "0.9512" in recall
    assert "█▅" in recall
    assert "1,234" in results
    assert "56 lost" in results
    assert "78 late" in tuples
    assert "2/4" in batches


def test_a_length_that_is_none_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["demo", "--minutes", "0"])
    assert result.exit_code == 2
    assert "must be more than 0, got 0" in result.stderr


def test_without_the_drawing_library_it_is_said_why_there_is_no_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for room in ("charts", "report"):
        monkeypatch.delitem(sys.modules, f"recalljoin.experiments.{room}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = reported({}, str(tmp_path / "out"), "")
    assert told.startswith("No report: ")
    assert "recalljoin[plot]" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_the_demo_shows_every_batch_some_results_and_a_comparison(
    spark: SparkSession,  # noqa: ARG001 - the session the command finds
    tmp_path: Path,
) -> None:
    given = ["demo", "--minutes", "0.5", "--recall", "0.9", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    batches = [each for each in lines if each.startswith("batch ")]
    assert [int(each.split()[1]) for each in batches] == list(range(len(batches)))
    assert len(batches) >= 7
    assert "WITH RECALL 0.9 OVER 30 SEC" in lines
    assert sum(each.startswith("{'id': 'order-") for each in lines) == 3
    rows = {each.split()[0]: each.split() for each in lines[lines.index("First results") :] if each}
    produced = {p: int(rows[p][-1].replace(",", "")) for p in ("slack", "noneqsel", "max", "none")}
    assert produced["none"] < produced["slack"] < produced["max"]
    # Half a minute is no more than a period, so recall is that of the whole.
    assert rows["none"][-2] == "-"
    assert float(rows["none"][-3]) < 0.7 < float(rows["max"][-3])
    report = tmp_path / "out" / "index.html"
    assert f"Report: {report}" in lines
    assert "6,000 generated orders and payments, 0.5 minutes, seed 0" in report.read_text()


@pytest.mark.spark
def test_on_a_terminal_the_picture_moves_with_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    from recalljoin.experiments.demo import LiveJoin

    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    live = LiveJoin(spark, disordered_orders(0.1, 1), tmp_path, recall=0.9)
    watch(console, live)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "the query is starting" in shown
    assert "lost" in shown
    assert len(live.results(5)) == 5

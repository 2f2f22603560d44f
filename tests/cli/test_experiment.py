"""The command that runs experiments: names, progress, report, and going on where it was."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

pytest.importorskip("matplotlib", reason="experiments have charts")
pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.cli import main
from recalljoin.cli.experiment import bar, lines
from recalljoin.experiments import scale as scales
from recalljoin.experiments.spec import DataSpec, run_spec
from tests.public_files import write_phones

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from recalljoin.experiments.scale import Scale

SPECS = [run_spec(DataSpec("x3", 1), "fixed", k=k) for k in range(20)]


def test_an_unknown_experiment_is_wrong_usage_and_the_known_ones_are_named() -> None:
    result = CliRunner().invoke(main, ["experiment", "fig5"])
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert "there is no experiment 'fig5'; there are fig6, table2, fig7" in told


def test_a_folder_for_the_markdown_must_be_there(tmp_path: Path) -> None:
    where = str(tmp_path / "missing" / "results.md")
    result = CliRunner().invoke(main, ["experiment", "all", "--docs", where])
    assert result.exit_code == 2
    assert "there is no folder for" in result.stderr


def test_in_a_file_progress_is_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with lines(SPECS) as done:
        for spec in SPECS:
            done(spec)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 10
    assert told[0].startswith("2/20 runs, about ")
    assert told[-1] == "20/20 runs, about 0 s left"


def test_at_a_terminal_progress_is_a_bar_with_the_time_left() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with bar(console, SPECS) as done:
        for spec in SPECS:
            done(spec)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "20/20 runs" in shown
    assert "left" in shown
    assert "D_syn ×3, fixed" in shown


def test_without_recordings_the_command_says_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECALLJOIN_SHARED", str(tmp_path / "missing"))
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["experiment", "recordings", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "The recordings are left out, because their folder is not there" in result.stdout
    assert "runs" not in result.stdout
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "The recordings are left out, because their folder is not there" in page


def test_a_folder_of_recordings_that_is_named_must_be_there(tmp_path: Path) -> None:
    given = ["experiment", "recordings", "--recordings", str(tmp_path / "missing")]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 2
    assert "missing" in result.stderr


@pytest.mark.spark
def test_recordings_are_run_and_enter_the_report(
    spark: SparkSession,  # noqa: ARG001 - the session the command finds
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = scales.quick

    def tiny(seed: int = 0) -> Scale:
        return replace(quick(seed), recording_slacks=(0, 300))

    monkeypatch.setattr(scales, "quick", tiny)
    path = tmp_path / "data" / "jr-ooo-dataset-umts" / "d-2.csv.gz"
    write_phones(path, np.random.default_rng(1), seconds=240)
    given = ["experiment", "recordings", "--quick", "--recordings", str(tmp_path / "data"),
             "--out", str(tmp_path / "out"), "--docs", str(tmp_path / "results.md")]  # fmt: skip
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 0, result.output
    assert "Files of recordings that are not there: jr-ooo-dataset-umts/d-1" in result.stdout
    assert "12 runs; about a minute on a quiet machine" in result.stdout
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "### Phones over UMTS, D-2" in text
    (row,) = re.findall(r"\| one by one, P = 60 s, Γ = 0.95 \|(.*)\|", text)
    best, *others = row.split("|")
    assert best.strip() == "300; 100.0 %"
    assert all("; " in cell for cell in others)
    assert (tmp_path / "figures" / "recording-umts-2.svg").exists()
    again = CliRunner().invoke(main, given)
    assert "12 runs, all done before" in again.stdout


@pytest.mark.spark
def test_an_experiment_is_run_reported_and_not_run_again(
    spark: SparkSession,  # noqa: ARG001 - the session the command finds
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = scales.quick

    def tiny(seed: int = 0) -> Scale:
        return replace(quick(seed), soccer=0.1, synthetic=0.1)

    monkeypatch.setattr(scales, "quick", tiny)
    given = ["experiment", "table2", "--quick", "--seed", "3", "--out", str(tmp_path / "out"),
             "--docs", str(tmp_path / "results.md")]  # fmt: skip
    first = CliRunner().invoke(main, given)
    assert first.exit_code == 0, first.output
    assert "9 runs; about a minute on a quiet machine" in first.stdout
    assert "9/9 runs, about 0 s left" in first.stderr
    assert f"Report: {tmp_path / 'out' / 'index.html'}" in first.stdout
    assert "of 3 statements of the paper are seen here as well" in first.stdout
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 9
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Seed 3" in page
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "## Table II: Max-K-slack" in text
    second = CliRunner().invoke(main, given)
    assert second.exit_code == 0, second.output
    assert "9 runs, all done before" in second.stdout
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == text

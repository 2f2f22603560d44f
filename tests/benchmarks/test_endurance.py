"""What a long run is judged by: its columns, whether they grow, and the picture."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.endurance import SHOWN, Sample, growth, on_disk, tell

if TYPE_CHECKING:
    from pathlib import Path

FIRST = Sample(5.0, 0.1, 10, 0.5, 1.0, None, 130, 800, 600, 3.0, 100, 1.0, 40)


def run(n: int) -> list[Sample]:
    """The log grows with every sample, and the JVM in the first quarter alone."""
    return [
        replace(FIRST, minutes=0.1 * i, log_mb=1.0 + i, jvm_mb=800 + 10 * min(i, n // 4))
        for i in range(n)
    ]


def test_what_grows_after_the_first_quarter_is_found() -> None:
    samples = run(40)
    assert growth(samples, "log_mb") == pytest.approx(35.5 / 15.5)
    assert growth(samples, "jvm_mb") == 1
    assert growth(samples[:3], "jvm_mb") is None
    assert growth([replace(FIRST, log_mb=0.0)] * 8, "log_mb") is None


def test_a_run_is_told_in_lines_and_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(run(40), 20_000, tmp_path)
    said = capsys.readouterr().out
    for column in (column for _, columns in SHOWN for column in columns):
        assert f" {column}: " in said
    assert "log_mb:      40.00 at the end; last quarter 2.29 times the second quarter" in said
    with (tmp_path / "endurance.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert float(rows[-1]["log_mb"]) == 40
    assert (tmp_path / "endurance.svg").read_text().count("event time (min)") > 0
    assert (tmp_path / "endurance.png").stat().st_size > 1000


def test_files_and_bytes_of_a_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_bytes(b"x" * 1_500_000)
    (tmp_path / "two").write_bytes(b"x" * 500_000)
    assert on_disk(tmp_path) == (2.0, 2)

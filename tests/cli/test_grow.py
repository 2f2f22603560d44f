"""``recalljoin grow`` as somebody calls it; tests/spark/test_growing.py has what it does."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner

from recalljoin.cli import main, spark
from recalljoin.spark import partitions


@pytest.mark.parametrize(
    ("output", "changes", "told"),
    [
        ("out", True, "the state is divided over 4 groups; start the query with groups=4"),
        ("none", False, "the state is divided over 4 groups already"),
    ],
)
def test_the_folder_of_results_or_none_is_handed_on(
    monkeypatch: pytest.MonkeyPatch, output: str, *, changes: bool, told: str
) -> None:
    called: list[Any] = []

    def grow(_: object, checkpoint: str, *, groups: int, output: str | None) -> bool:
        called.append((checkpoint, groups, output))
        return changes

    monkeypatch.setattr(partitions, "grow", grow)
    monkeypatch.setattr(spark, "running", lambda **_: nullcontext())
    result = CliRunner().invoke(main, ["grow", "there", "--groups", "4", "--output", output])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == told
    assert called == [("there", 4, None if output == "none" else "out")]


def test_who_forgets_the_folder_of_results_is_asked_for_it() -> None:
    result = CliRunner().invoke(main, ["grow", "there", "--groups", "4"])
    assert result.exit_code == 2
    assert "Missing option '--output'" in result.output

"""Other rooms ask a pipeline questions, and do not reach into its parts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import recalljoin

QUESTIONS = {
    "query", "settings", "m", "n_arrived", "n_buffered", "buffered_bytes", "n_kept", "kept_bytes",
    "retention", "remembered", "clocks", "waiting", "oldest_row", "remember_for", "push",
    "push_ticks", "flush", "join_time", "base_time", "front", "local_times",
}  # fmt: skip
"""What a pipeline answers to whoever has one."""
ROOMS = ("cli", "experiments", "quality", "spark")
SOURCES = Path(recalljoin.__file__).parent


def reached_into(source: str) -> list[str]:
    """Attributes of something called a pipeline that are no questions to it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        if name in ("pipeline", "_pipeline") and node.attr not in QUESTIONS:
            found.append(f"line {node.lineno}: {name}.{node.attr}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_other_room_reaches_into_a_pipeline(room: str) -> None:
    files = sorted((SOURCES / room).rglob("*.py"))
    assert files
    found = {str(file): reached_into(file.read_text()) for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_reaching_into_a_pipeline_is_noticed() -> None:
    source = "def f(cell):\n    return cell.pipeline.operator.windows, pipeline.n_kept\n"
    assert reached_into(source) == ["line 2: pipeline.operator"]

"""The page about operations explains every line that a join writes to the log."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# What the page has in place of names, numbers and longer parts of a line.
_IN_PLACE = re.compile(r", |\.\.\.|\d[\d.]*|\b[sn]\b|milliseconds")


def explained() -> dict[str, list[str]]:
    """Lines as the page has them, each as the parts that are the same in every such line."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page.partition("## Lines in the driver's log")[2].partition("\n## ")[0]
    lines = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    found = {}
    for line in lines:
        for phrase in re.findall(r"`([^`]+)`", line):
            parts = [part.strip(" ,()") for part in _IN_PLACE.split(phrase)]
            found[phrase] = [part for part in parts if len(part) > 1]
    return found


def texts(node: ast.AST) -> str:
    """All text in a piece of code."""
    parts = [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return " ".join(" ".join(parts).replace("`", "").split())


def is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "_LOG.warning"


def is_alarm(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "_Alarm"


def said(file: Path) -> Iterator[tuple[str, str]]:
    """Where a module writes a line to the log, and what is in it."""
    tree = ast.parse(file.read_text("utf-8"))
    for function in [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]:
        for call in ast.walk(function):
            where = f"{file.name}, {function.name}"
            if is_alarm(call):
                yield where, texts(call)
            elif is_warning(call):
                # A line may be put together before, or come from another module.
                before = texts(function) if "%s" in texts(call) else ""
                yield where, f"{texts(call)} {before}"


def test_every_line_that_a_join_writes_is_explained() -> None:
    phrases = explained()
    doubts = texts(ast.parse((ROOT / "src/recalljoin/engine/doubts.py").read_text("utf-8")))
    unused = set(phrases)
    n_lines = 0
    for file in sorted((ROOT / "src" / "recalljoin" / "spark").glob("*.py")):
        for where, text in said(file):
            if where == "alarms.py, speak":
                continue  # it says what the alarms hold
            told = doubts if where == "notices.py, _look_at" else text
            matching = {p for p, parts in phrases.items() if all(part in told for part in parts)}
            assert matching, f"{where}: no line of docs/operations.md is about {text!r}"
            unused -= matching
            n_lines += 1
    assert n_lines >= 16
    assert not unused

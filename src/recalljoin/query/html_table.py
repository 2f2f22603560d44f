"""Small tables as HTML, as notebooks show the objects of this package."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def html_table(
    title: str, rows: Iterable[Sequence[str]], *, head: Sequence[str] | None = None
) -> str:
    """A table with a title; everything is escaped.

    Examples
    --------
    >>> html_table("a < b", [["recall"]])
    '<table><caption>a &lt; b</caption><tr><td style="text-align:left">recall</td></tr></table>'
    """
    lines = [] if head is None else [_row(head, "th")]
    lines += (_row(row, "td") for row in rows)
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _row(cells: Sequence[str], kind: str) -> str:
    # Notebooks align cells to the right, as if all were numbers.
    begin = f'<{kind} style="text-align:left">'
    return f"<tr>{''.join(f'{begin}{escape(cell)}</{kind}>' for cell in cells)}</tr>"

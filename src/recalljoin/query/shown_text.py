"""Text that notebooks show line by line."""

from __future__ import annotations

from html import escape
from typing import Any


class ShownText(str):
    """A string that notebooks show as it would be printed; in all else a string.

    Without this, a string at the end of a notebook's cell is shown in quotes, as one long line.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython calls it
        printer.text(str(self))

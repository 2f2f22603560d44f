"""The ``recalljoin`` command: it parses, calls and prints; other packages compute the numbers."""

from __future__ import annotations

from recalljoin.cli.main import main

__all__ = ["main"]

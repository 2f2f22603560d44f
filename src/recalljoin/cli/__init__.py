"""The ``recalljoin`` command: parses, calls and prints; what it prints is computed elsewhere."""

from __future__ import annotations

from recalljoin.cli.main import main

__all__ = ["main"]

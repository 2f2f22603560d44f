"""The pages that people read, and the Python in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> list[str]:
    """The blocks of Python on a page, one after the other."""
    return _BLOCK.findall(page.read_text())


def is_session(block: str) -> bool:
    """Whether a block shows what an interpreter answers."""
    return block.startswith(">>>")

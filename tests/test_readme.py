"""What the README shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_quickstart_prints_what_the_readme_says() -> None:
    outcome = doctest.testfile(
        str(README), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert outcome.attempted > 5
    assert outcome.failed == 0

"""What README and pages show is what happens; what needs Spark is in tests/spark/test_pages.py."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest

from tests.documents import PAGES, blocks_of, is_session

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = [page for page in PAGES if any(map(is_session, blocks_of(page)))]


def test_readme_and_concepts_show_sessions() -> None:
    assert {page.name for page in SESSIONS} >= {"README.md", "concepts.md"}


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.name)
def test_a_session_prints_what_its_page_says(page: Path) -> None:
    outcome = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert outcome.attempted > 5
    assert outcome.failed == 0

"""What README and pages show is what happens; what needs Spark is in tests/spark/test_pages.py."""

from __future__ import annotations

import doctest
import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from recalljoin.cli.main import main
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


def commands_of(page: Path) -> list[list[str]]:
    """The words behind `recalljoin` in the blocks of a page that no language is named for."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = (
        "\n".join(block for language, block in blocks if not language)
        .replace("\\\n", " ")
        .splitlines()
    )
    calls = [re.split(r"(?:^|[ /])recalljoin ", line, maxsplit=1) for line in lines]
    return [shlex.split(call[1], comments=True) for call in calls if len(call) == 2]


CALLED = {page: calls for page in PAGES if (calls := commands_of(page))}


def test_pages_show_the_main_commands() -> None:
    shown = {call[0] for calls in CALLED.values() for call in calls}
    assert shown >= {"generate", "evaluate", "advise", "dashboard", "doctor", "run", "produce"}


@pytest.mark.parametrize("page", CALLED, ids=lambda page: page.name)
def test_a_command_on_a_page_exists_with_its_options(page: Path) -> None:
    for name, *arguments in CALLED[page]:
        command = main.get_command(click.Context(main), name)
        assert command is not None, f"there is no command {name}"
        # An unknown option is refused although nothing else is looked at.
        context = command.make_context(name, arguments, resilient_parsing=True)
        given = {argument for argument in arguments if argument.startswith("--")}
        assert given <= {option for each in command.params for option in each.opts}
        assert not context.args

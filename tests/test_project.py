"""The project's own promises: its locks, and that what it installs is what it declares."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import recalljoin

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = ["build.lock", "dev.lock"]


def locked(lock: str) -> list[tuple[Requirement, int]]:
    """Each requirement of a lock, with the number of its hashes."""
    text = (ROOT / "requirements" / lock).read_text("utf-8")
    uncommented = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    entries = uncommented.replace("\\\n", " ").splitlines()
    return [
        (Requirement(entry.split("--hash=")[0]), entry.count("--hash=sha256:"))
        for entry in entries
        if entry.strip()
    ]


def declared() -> list[str]:
    """Every requirement `pyproject.toml` states anywhere; an extra may stand for another one."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    entries = {entry for entries in lists for entry in entries if isinstance(entry, str)}
    return sorted(entry for entry in entries if not entry.startswith("recalljoin["))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_records_no_address_no_option_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text("utf-8")
    assert re.findall(r".*(?:://|\bfile:|/home/|/tmp/|\.org\b|\.com\b|\.dev\b).*", text) == []
    assert re.findall(r"^\s*-(?!-hash=).*", text, flags=re.MULTILINE) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_to_one_version_by_hash(lock: str) -> None:
    entries = locked(lock)
    assert entries
    for requirement, hashes in entries:
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        assert hashes > 0, requirement


@pytest.mark.parametrize("requirement", [Requirement(entry) for entry in declared()], ids=str)
def test_the_lock_holds_a_version_that_the_declaration_allows(requirement: Requirement) -> None:
    versions = [
        specifier.version
        for entry, _ in locked("dev.lock")
        if canonicalize_name(entry.name) == canonicalize_name(requirement.name)
        for specifier in entry.specifier
    ]
    assert versions, "run `make lock`"
    assert all(requirement.specifier.contains(version) for version in versions), "run `make lock`"


def test_what_builds_is_locked_to_the_same_versions_as_in_the_whole() -> None:
    # Both are installed into one environment, one after the other.
    whole = {(entry.name, str(entry.specifier)) for entry, _ in locked("dev.lock")}
    assert {(entry.name, str(entry.specifier)) for entry, _ in locked("build.lock")} <= whole


def test_the_build_backend_is_among_what_is_locked_for_building() -> None:
    assert set(PROJECT["build-system"]["requires"]) <= set(PROJECT["dependency-groups"]["build"])


def test_the_citation_names_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [recalljoin.__version__]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(
        r"`((?:src|tests|benchmarks|docs|scripts)/[\w./-]*)`", page.read_text("utf-8")
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_architecture_names_every_module_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`(src/recalljoin/[\w/]+\.py)`", page))
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(modules - named) == []
    assert sorted(named - modules) == []


def _prose(page: Path) -> list[str]:
    """The lines of a page outside code blocks, tables and figures, which cannot be broken."""
    lines, is_code = [], False
    for line in page.read_text("utf-8").splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.lstrip().startswith(("|", "![")):
            lines.append(line)
    return lines


PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in ROOT.glob("src/**/*.py")}
    assert {str(path): n for path, n in lengths.items() if n > 400} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_a_page_is_longer_than_100_characters(page: Path) -> None:
    assert [line for line in _prose(page) if len(line) > 100] == []

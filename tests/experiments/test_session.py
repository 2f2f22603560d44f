"""Where Java is missing or too old, that is said before Spark tries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="experiments run on Spark")

from recalljoin.errors import InvalidSetting
from recalljoin.experiments.session import require_java

if TYPE_CHECKING:
    from pathlib import Path


def make_java(folder: Path, told: str) -> None:
    """A program that tells its version as Java does, and leaves a file ``asked`` behind."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    script = f"#!/bin/sh\nprintf '%s\\n' '{told}' >&2\n: > '{folder / 'asked'}'\n"
    java.write_text(script, encoding="utf-8")
    java.chmod(0o755)


def test_no_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidSetting, match=r"needs Java 17 or newer; there is none on the path"):
        require_java()


def test_no_java_where_java_home_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidSetting, match=r"there is none in `JAVA_HOME` .*; install it"):
        require_java()


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_291"', "is Java 8"),
        ("whatever", "is one that does not tell its version"),
    ],
)
def test_a_java_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, found: str
) -> None:
    make_java(tmp_path, told)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidSetting, match=found):
        require_java()


@pytest.mark.parametrize("version", ["17.0.1", "21"])
def test_a_java_that_will_do_is_asked_and_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    make_java(tmp_path, f'openjdk version "{version}" 2023-09-19')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.devnull)
    require_java()
    assert (tmp_path / "asked").exists()

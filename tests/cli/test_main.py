"""What the command prints, and how it exits."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import recalljoin
from recalljoin.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    table = pa.table({"ts": [1, 2], "id": [7, 8]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "b.csv")
    return [f"--input=a={tmp_path / 'a.parquet'}", f"--input=b={tmp_path / 'b.csv'}"]


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for command in ("demo", "evaluate", "explain", "generate"):
        assert command in result.output


def test_version_is_the_packages() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output.strip() == f"recalljoin, version {recalljoin.__version__}"


def test_explain_reads_parquet_and_csv_and_shows_the_keys(files: list[str]) -> None:
    query = "SELECT * FROM a [5 SEC], b [1 MINUTE] WHERE a.id = b.id"
    result = CliRunner().invoke(main, ["explain", query, *files])
    assert result.exit_code == 0
    assert "a.id = b.id  (int64)" in result.output
    assert "window 1 min" in result.output


def test_explain_reads_the_query_from_a_file(tmp_path: Path, files: list[str]) -> None:
    path = tmp_path / "query.sql"
    path.write_text("SELECT count(*) FROM a [5 SEC], b [5 SEC]", encoding="utf-8")
    result = CliRunner().invoke(main, ["explain", str(path), *files])
    assert result.exit_code == 0
    assert "window 5 s" in result.output


def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tmp_path / "query.sql"
    query.write_bytes(b"\xff\xfe")
    result = CliRunner().invoke(main, ["explain", str(query), *files])
    assert result.exit_code == 2
    assert "is no text in UTF-8" in result.stderr

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "q.sql")

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    result = CliRunner().invoke(main, ["explain", str(query), *files])
    assert result.exit_code == 1
    assert result.stderr == "recalljoin: 'q.sql' cannot be used: Permission denied\n"


def test_a_wrong_query_exits_with_1_and_one_message(files: list[str]) -> None:
    query = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.idd = b.id"
    result = CliRunner().invoke(main, ["explain", query, *files])
    assert result.exit_code == 1
    assert result.stderr.startswith("recalljoin: ")
    assert "idd" in result.stderr
    assert "Traceback" not in result.output


def test_debug_shows_the_traceback(files: list[str]) -> None:
    query = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.idd = b.id"
    result = CliRunner().invoke(main, ["--debug", "explain", query, *files])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a", "'a' is not of the form NAME=FILE"),
        ("a=nowhere.parquet", "there is no file 'nowhere.parquet'"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(given: str, message: str) -> None:
    result = CliRunner().invoke(main, ["explain", "SELECT", "--input", given])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_stream_given_twice_is_refused(files: list[str]) -> None:
    result = CliRunner().invoke(main, ["explain", "SELECT", files[0], files[0]])
    assert result.exit_code == 2
    assert "stream 'a' is given twice" in result.stderr

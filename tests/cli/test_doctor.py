"""``recalljoin doctor``, ``completion`` and ``dashboard`` as somebody calls them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from recalljoin.cli import doctor, main
from recalljoin.errors import InvalidSetting
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.interpreters import check_workers, fault_of

if TYPE_CHECKING:
    from pathlib import Path


def found(monkeypatch: pytest.MonkeyPatch, **environment: str) -> dict[str, doctor.Finding]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return {each.what: each for each in doctor.examine()}


def test_on_this_machine_joins_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("java") is None:
        pytest.skip("there is no Java on the path")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "ok  packages" in result.output
    assert "pyspark 4.3." in result.output
    assert "NO " not in result.output
    assert result.output.splitlines()[-1] == "joins can run here"


def test_java_that_is_missing_must_be_mended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "NO  Java" in result.output
    assert result.output.splitlines()[-1] == "joins cannot run here: mend Java first"
    assert "apt-get install openjdk-17-jre-headless" in result.output


def test_a_package_that_is_missing_must_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "pandas" else name)
    finding = {each.what: each for each in doctor.examine()}["packages"]
    assert finding.found == "not installed: pandas"
    assert finding.mend == "call `pip install 'recalljoin[spark]'`"


def other_python(folder: Path, text: str) -> str:
    """A program that answers as another Python would."""
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def test_another_python_of_the_workers_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = other_python(tmp_path, "echo 3.9")
    finding = found(monkeypatch, PYSPARK_PYTHON=program)["workers"]
    assert "is Python 3.9, and Spark needs" in finding.found
    assert finding.mend is not None
    assert "os.environ['PYSPARK_PYTHON'] = sys.executable" in finding.mend
    assert not finding.is_needed


def test_a_python_without_the_package_is_seen(tmp_path: Path) -> None:
    program = other_python(tmp_path, "echo \"No module named 'recalljoin'\" >&2; exit 1")
    assert fault_of(program) == "cannot import recalljoin (No module named 'recalljoin')"
    assert fault_of(str(tmp_path / "nowhere")) == "is not there"
    assert fault_of(sys.executable) is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_RECALLJOIN_COMPLETE" in result.output


def test_commands_are_completed() -> None:
    environment = {
        **os.environ, "_RECALLJOIN_COMPLETE": "bash_complete", "COMP_WORDS": "recalljoin da",
        "COMP_CWORD": "1",
    }  # fmt: skip
    program = "from recalljoin.cli import main; main(prog_name='recalljoin')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "plain,dashboard"


def test_the_dashboard_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    ControlLog(str(tmp_path)).own("a query")
    # A shell lets what it starts in the background ignore interrupts.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{listens}; from recalljoin.cli import main; main(prog_name='recalljoin')"
    with subprocess.Popen(
        [sys.executable, "-uc", program, "dashboard", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.split()[4]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/joins", timeout=20) as answer:
            assert b'"name":"recalljoin"' in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def session(master: str, program: str) -> Any:
    """A session as far as it is looked at."""
    conf = SimpleNamespace(get=lambda _: master)
    return SimpleNamespace(conf=conf, sparkContext=SimpleNamespace(pythonExec=program))


def test_a_join_is_refused_before_workers_fail_for_another_python(tmp_path: Path) -> None:
    program = other_python(tmp_path, "echo 3.9")
    with pytest.raises(InvalidSetting) as refused:
        check_workers(session("local[2]", program))
    assert str(refused.value).startswith(f"Spark would start its Python workers with {program!r}")
    assert "write os.environ['PYSPARK_PYTHON'] = sys.executable" in str(refused.value)
    check_workers(session("local[2]", sys.executable))
    # What runs on other machines cannot be seen from here.
    check_workers(session("spark://master:7077", program))

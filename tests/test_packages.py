"""What is published: a wheel with everything that runs, and sources with everything that tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING

import pytest

from tests.documents import ROOT

if TYPE_CHECKING:
    from email.message import Message
    from pathlib import Path

MADE = {".pyc", ".nbi", ".nbc"}
"""Endings of files that Python and numba leave beside the sources."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sources, built from what is in the project's folder."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_the_wheel_has_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "recalljoin").rglob("*")
        if path.is_file() and path.suffix not in MADE
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == files


def test_the_launcher_of_workers_may_be_executed(wheel: zipfile.ZipFile) -> None:
    rights = wheel.getinfo("recalljoin/spark/python.sh").external_attr >> 16
    assert rights & 0o111 == 0o111


def test_each_extra_brings_what_its_name_says(metadata: Message) -> None:
    brought: dict[str, set[str]] = {}
    for line in metadata.get_all("Requires-Dist", []):
        if asked := re.search(r"extra == '(\w+)'", line):
            brought.setdefault(asked[1], set()).add(re.split(r"\W", line)[0])
    spark = {"pyspark", "pandas", "protobuf", "grpcio"}
    pictures = {"matplotlib"}
    assert brought == {"spark": spark, "kafka": spark, "plot": pictures, "dashboard": pictures}


def test_the_sources_have_what_is_needed_to_test_them(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        top = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "Makefile", "scripts/setup", "requirements/dev.lock", "examples/ads.py", "SECURITY.md",
        "tests/spark/test_join.py", "docs/figures/concepts.svg",
    }  # fmt: skip
    assert wanted <= top


def test_the_wheel_runs_where_neither_the_sources_nor_spark_are(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, '.'); sys.modules['pyspark'] = None\n"
        "import pyarrow as pa, recalljoin as rj, recalljoin.cli\n"
        "import recalljoin.dashboard.server, recalljoin.experiments.charts\n"
        "from importlib.resources import files\n"
        "stream = pa.schema([('ts', pa.int64()), ('a', pa.int64())])\n"
        "query = 'SELECT x.a FROM x [5 SEC], y [5 SEC] WHERE x.a = y.a'\n"
        "rj.parse_query(query).bind({'x': stream, 'y': stream})\n"
        "assert files('recalljoin.dashboard').joinpath('static/index.html').is_file()\n"
        "print(rj.__file__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PATH": str(shutil.which("sh"))},
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert ran.stdout.strip() == str(tmp_path / "recalljoin" / "__init__.py")

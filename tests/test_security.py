"""What SECURITY.md promises of the code."""

from __future__ import annotations

import ast
import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import recalljoin
from recalljoin.errors import ControlLogError, InvalidSetting
from recalljoin.spark.control_log import ControlLog
from recalljoin.spark.join_log import JoinLog
from recalljoin.spark.join_log import open as open_log

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(recalljoin.__file__).parent
SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
PICKLES = {"experiments/tasks.py", "spark/sealed.py"}
"""Where something is pickled, between processes of one program."""
SECRET = "s3cr3t"
ADDRESS = f"nowhere://somebody:{SECRET}@bucket/joins"


def names_called(source: str) -> set[str]:
    """Names of functions that are called, and of modules that are imported."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update({node.module or "", *(alias.name for alias in node.names)})
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_evaluated_and_nothing_unpickled_that_came_from_outside(source: str) -> None:
    found = names_called((PACKAGE / source).read_text(encoding="utf-8"))
    assert not found & {"eval", "exec", "compile", "marshal", "shelve", "dill", "joblib"}
    if source not in PICKLES:
        assert not found & {"pickle", "cloudpickle", "pyspark.cloudpickle"}


def test_evaluation_and_unpickling_are_noticed() -> None:
    found = names_called("import pickle\nfrom pyspark import cloudpickle\nx = eval('1')\n")
    assert {"pickle", "cloudpickle", "eval"} <= found


def test_a_password_in_the_address_of_a_control_log_is_shown_nowhere() -> None:
    log = ControlLog(ADDRESS)
    assert log.address is None
    assert log.shown == "nowhere://..."
    with pytest.raises(ControlLogError) as caught:
        log.last_report()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(ControlLogError, match=r"`control_log` 'nowhere://\.\.\.' is no place"):
        repr(JoinLog(log, None))
    with pytest.raises((ControlLogError, InvalidSetting)) as refused:
        open_log(ADDRESS)
    assert SECRET not in str(refused.value)


def installed_for(requirements: list[str]) -> set[str]:
    """Packages that these requirements bring along, by their usual names."""
    found: set[str] = set()
    pending = list(requirements)
    while pending:
        needed = Requirement(pending.pop())
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        if name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        pending += importlib.metadata.requires(name) or []
    return found


def test_the_page_on_licences_lists_what_is_installed_beside_the_package() -> None:
    own = importlib.metadata.requires("recalljoin") or []
    plain = [text.partition(";")[0] for text in own]
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([a-z][\w-]+) \|", page, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    # "package" heads the table. Packages for one system alone may be installed or not.
    assert set(listed) - {"package"} == installed_for(plain) - {"six", "colorama"}

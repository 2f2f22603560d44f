"""The front door: what `import recalljoin` offers, and what it must not load."""

from __future__ import annotations

import importlib.metadata
import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import recalljoin

HEAVY = ("pyspark", "py4j", "pandas", "matplotlib", "duckdb")


def test_importing_recalljoin_loads_neither_spark_nor_other_optional_packages() -> None:
    # A process of its own: here other tests may have loaded them already.
    program = f"import sys, recalljoin; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_all_lists_public_names_once_and_in_order() -> None:
    assert recalljoin.__all__ == sorted(set(recalljoin.__all__))


def test_no_two_public_names_are_told_apart_by_case_alone() -> None:
    assert len({name.lower() for name in recalljoin.__all__}) == len(recalljoin.__all__)


def test_dir_shows_every_public_name_before_spark_is_loaded() -> None:
    assert set(recalljoin.__all__) <= set(dir(recalljoin))
    assert not {"importlib", "typing"} & set(dir(recalljoin))


@pytest.mark.parametrize("name", recalljoin.__all__)
def test_every_name_in_all_exists(name: str) -> None:
    assert hasattr(recalljoin, name)


def test_no_public_name_is_left_out_of_all() -> None:
    public = {
        name
        for name, value in vars(recalljoin).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public <= set(recalljoin.__all__)


@pytest.mark.parametrize("name", sorted(set(recalljoin.__all__) - {"__version__"}))
def test_every_public_name_is_documented_by_its_own_words(name: str) -> None:
    value = getattr(recalljoin, name)
    if not callable(value):
        pytest.fail(f"{name} is neither a class nor a function: how would `help` describe it?")
    # __doc__ and not getdoc: an inherited docstring describes the parent. A dataclass without
    # one is given its signature, which describes nothing.
    text = value.__doc__ or ""
    assert text.strip()
    assert not text.startswith(f"{name}(")


@pytest.mark.parametrize("name", sorted(set(recalljoin.__all__) - {"__version__"}))
def test_every_public_method_of_a_public_class_is_documented(name: str) -> None:
    value = getattr(recalljoin, name)
    members = vars(value).items() if inspect.isclass(value) else ()
    bare = [
        member
        for member, definition in members
        if not member.startswith("_")
        and (inspect.isroutine(definition) or isinstance(definition, property))
        and not (definition.__doc__ or "").strip()
    ]
    assert bare == []


def test_the_version_is_that_of_the_installed_package() -> None:
    assert importlib.metadata.version("recalljoin") == recalljoin.__version__


@pytest.mark.parametrize("name", ["advise", "explain", "join", "open", "plot", "replay", "watch"])
def test_help_describes_every_option(name: str) -> None:
    call = getattr(recalljoin, name)
    told = re.findall(r"^ {4}([\w, ]+)$", pydoc.plain(pydoc.render_doc(call)), re.M)
    described = {each.strip() for line in told for each in line.split(",")}
    assert set(inspect.signature(call).parameters) <= described

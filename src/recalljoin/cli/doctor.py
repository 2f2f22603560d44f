"""``recalljoin doctor``: whether joins can run here, and how to mend what is missing."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from recalljoin import __version__
from recalljoin.errors import RecallJoinError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NEEDED = ("pyspark", "pandas", "pyarrow", "protobuf", "grpcio")
_MODULES = {"protobuf": "google", "grpcio": "grpc"}
_SPARKS = ("4.2.", "4.3.")
_GIGABYTE = 1 << 30
_LEAST_MEMORY, _LEAST_DISK = 4, 2
"""Gigabytes below which a join on this machine is likely to fail."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str
    mend: str | None = None
    """What to do; None if nothing must be done."""
    is_needed: bool = True
    """Whether joins cannot run unless it is mended."""


@click.command()
def doctor() -> None:
    """See whether joins can run on this machine, and say how to mend what is wrong.

    The exit code is 0 if they can, and 1 if something must be mended first.
    """
    findings = list(examine())
    width = max(len(each.what) for each in findings)
    for each in findings:
        mark = "ok " if each.mend is None else "NO " if each.is_needed else "-- "
        click.echo(f"{mark} {each.what.ljust(width)}  {each.found}")
        if each.mend is not None:
            click.echo(f"    {' ' * width}  {each.mend}")
    wrong = [each.what for each in findings if each.mend is not None and each.is_needed]
    if wrong:
        click.echo(f"joins cannot run here: mend {', '.join(wrong)} first")
        click.get_current_context().exit(1)
    click.echo("joins can run here")


def examine() -> Iterator[Finding]:
    """Everything that is looked at, in turn."""
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python, _packages, _java, _workers, _machine, _network, _pictures,
    )  # fmt: skip
    for look in looks:
        yield from look()


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("recalljoin", f"{__version__}, Python {version} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    mend = "call `pip install 'recalljoin[spark]'`"
    missing = [name for name in _NEEDED if find_spec(_MODULES.get(name, name)) is None]
    if missing:
        yield Finding("packages", f"not installed: {', '.join(missing)}", mend)
        return
    versions = {name: importlib.metadata.version(name) for name in _NEEDED}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    if not versions["pyspark"].startswith(_SPARKS):
        yield Finding("packages", told, f"recalljoin runs on PySpark 4.2 and 4.3; {mend}")
    elif int(versions["pandas"].partition(".")[0]) > 2:
        yield Finding("packages", told, f"PySpark runs with pandas 2; {mend}")
    else:
        yield Finding("packages", told)


def _java() -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        return
    from recalljoin.experiments.session import require_java

    try:
        found = require_java()
    except RecallJoinError as error:
        yield Finding("Java", "none that Spark can run on", str(error))
    else:
        yield Finding("Java", found)


def _workers() -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        return
    from recalljoin.spark.interpreters import MEND, fault_of

    program = os.environ.get("PYSPARK_PYTHON", "python3")
    fault = fault_of(program)
    named = "PYSPARK_PYTHON" if "PYSPARK_PYTHON" in os.environ else "no PYSPARK_PYTHON"
    if fault is None:
        yield Finding("workers", f"{program} ({named})")
        return
    # Commands choose the Python of their workers themselves; programs must do so.
    mend = f"before a session is made, write {MEND}, or set PYSPARK_PYTHON={sys.executable}"
    yield Finding("workers", f"{program} ({named}) {fault}", mend, is_needed=False)


def _machine() -> Iterator[Finding]:
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    if pages > 0:
        memory = pages * os.sysconf("SC_PAGE_SIZE") / _GIGABYTE
        mend = None
        if memory < _LEAST_MEMORY:
            mend = f"Spark and the join want {_LEAST_MEMORY} GB; give `spark.driver.memory` less"
        cores = os.cpu_count() or 1
        yield Finding("machine", f"{cores} cores, {memory:.1f} GB of memory", mend, is_needed=False)
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free / _GIGABYTE
    mend = None
    if not os.access(folder, os.W_OK) or free < _LEAST_DISK:
        mend = f"Spark writes there; free {_LEAST_DISK} GB, or set TMPDIR to another folder"
    yield Finding("disk", f"{free:.0f} GB free in {folder}", mend)
    cache = os.environ.get("NUMBA_CACHE_DIR", str(Path(__file__).resolve().parent.parent))
    if not os.access(cache, os.W_OK):
        mend = "each process compiles the engine anew; set NUMBA_CACHE_DIR to a folder of yours"
        yield Finding("kernels", f"{cache} cannot be written", mend, is_needed=False)


def _network() -> Iterator[Finding]:
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            with socket.create_connection(listener.getsockname(), timeout=5):
                pass
    except OSError as error:
        mend = "Spark talks to its workers there; look at the firewall and the loopback device"
        yield Finding("ports", f"127.0.0.1 does not answer: {error}", mend)
    else:
        yield Finding("ports", "127.0.0.1 answers")


def _pictures() -> Iterator[Finding]:
    if find_spec("matplotlib") is None:
        mend = "call `pip install 'recalljoin[plot]'`"
        yield Finding("pictures", "matplotlib is not installed", mend, is_needed=False)
    else:
        yield Finding("pictures", f"matplotlib {importlib.metadata.version('matplotlib')}")

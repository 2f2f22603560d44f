"""The Python that Spark starts its workers with, looked at before a query is."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from recalljoin.errors import InvalidSetting
from recalljoin.spark.session import has_workers_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASK = "import sys, recalljoin; print('%d.%d' % sys.version_info[:2])"
MEND = "os.environ['PYSPARK_PYTHON'] = sys.executable"


def check_workers(spark: SparkSession) -> None:
    """See that workers on this machine run a Python that has the packages of this one.

    Otherwise the first batch would fail, with the reason at the end of a long trace. On a cluster,
    where workers run elsewhere, nothing can be seen from here.

    Raises
    ------
    InvalidSetting
        When they would not; the message says what to write.
    """
    if not has_workers_here(spark):
        return
    program = getattr(spark.sparkContext, "pythonExec", None)
    if program is None:
        return
    fault = fault_of(program)
    if fault is not None:
        message = (
            f"Spark would start its Python workers with {program!r}, which {fault}; this program "
            f"runs on {sys.executable!r}. Before the session is made, write {MEND}"
        )
        raise InvalidSetting(message)


@functools.cache
def fault_of(program: str) -> str | None:
    """Why workers could not run this Python; None if they can."""
    found = shutil.which(program)
    if found is None:
        return "is not there"
    if is_own(program):
        return None
    asked = subprocess.run(
        [found, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["it failed"]
        return f"cannot import recalljoin ({lines[-1]})"
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    version = asked.stdout.strip()
    return None if version == own else f"is Python {version}, and Spark needs {own} as here"


def is_own(program: str) -> bool:
    """Whether this is the Python that this process runs on."""
    found = shutil.which(program)
    # A virtual environment is told by its path, which may be a link to a Python without packages.
    return found is not None and _plain(found) == _plain(sys.executable)


def _plain(path: str) -> str:
    return os.path.normcase(os.path.abspath(path))  # noqa: PTH100 - links are not to be followed

"""A local Spark session for commands: found or started, and quiet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from recalljoin.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_JAVA = 17

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # All connections stay on this machine, whatever its host name resolves to.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # The work is done in Python; Java's part is over before optimised code would be worth its cost.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    # A time without a zone means the same wherever the command is run.
    "spark.sql.session.timeZone": "UTC",
}


def local_session(
    *, debug: bool = False, settings: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """The active session, or a new session on all cores of this machine.

    Parameters
    ----------
    debug
        Let the Java process write to standard error; most of what it writes is of no use.
    settings
        Further settings of a new session, or other ones.

    Raises
    ------
    InvalidSetting
        When there is no Java that Spark can run on.
    """
    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    require_java()
    # Workers need the packages of this process; by default they would run the first `python3` on
    # the path, or an interpreter that was set up for some cluster.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName("recalljoin")
    for name, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    if debug:
        return builder.getOrCreate()
    with _without_stderr():
        return builder.getOrCreate()


@contextmanager
def running_session(
    *, debug: bool = False, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session for one piece of work; stopped afterwards unless somebody else had started it."""
    was_there = SparkSession.getActiveSession() is not None
    spark = local_session(debug=debug, settings=settings)
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


def require_java() -> str:
    """See that Spark will find a version of Java that it can run on; says which.

    Raises
    ------
    InvalidSetting
        When there is none; the message says what was found, and what to do.
    """
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    rule = f"Spark needs Java {OLDEST_JAVA} or newer"
    advice = "install it (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or set "
    advice += "`JAVA_HOME` to where it is"
    if shutil.which(command) is None:
        where = f"in `JAVA_HOME` {home!r}" if home else "on the path, and `JAVA_HOME` is not set"
        message = f"{rule}; there is none {where}; {advice}"
        raise InvalidSetting(message)
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = "one that does not tell its version" if version is None else f"Java {version[1]}"
        message = f"{rule}; {shutil.which(command)} is {found}; {advice}"
        raise InvalidSetting(message)
    return f"Java {version[1]} at {shutil.which(command)}"


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Processes started within this context write standard error to a file, shown on failure."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(kept, log.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)

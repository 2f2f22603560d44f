"""What commands that run on Spark share."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from recalljoin.errors import RecallJoinError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession
    from rich.status import Status


@contextmanager
def running(
    *, debug: bool = False, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A Spark session for a command.

    Parameters
    ----------
    debug
        Show what the Java process writes to standard error.
    settings
        Further settings of the session.
    """
    require_spark()
    from recalljoin.experiments.session import running_session

    with ExitStack() as stack:
        with waiting("starting Spark"):
            spark = stack.enter_context(running_session(debug=debug, settings=settings))
        yield spark


def waiting(what: str) -> Status:
    """A message to the user at a terminal; while it is shown, nothing else may be printed."""
    from rich.console import Console

    return Console(stderr=True).status(what)


def require_spark() -> None:
    """See that PySpark is installed.

    Raises
    ------
    click.ClickException
        When it is not; the message says how to install it.
    """
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            message = f"this command runs on Spark, and {package} is not installed; "
            message += "call `pip install 'recalljoin[spark]'`"
            raise click.ClickException(message)


def is_from_spark(error: Exception) -> bool:
    """Whether the error was raised by Spark, or by the bridge to its Java process."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def root_cause(error: Exception) -> str:
    """The most telling line of a message with stack traces in several languages.

    Examples
    --------
    >>> text = "[STREAM_FAILED] Query failed: recalljoin.errors.BufferFull: 9 tuples wait"
    >>> root_cause(RuntimeError(text))
    '9 tuples wait'
    """
    lines = [line.strip() for line in str(error).splitlines()]
    for line in lines:
        _, is_ours, sentence = line.partition(f"{RecallJoinError.__module__}.")
        if is_ours:
            return sentence.partition(": ")[2]
    told = [line for line in lines if line and not line.startswith(("at ", "..."))]
    causes = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    return (causes[-1:] or told[:1] or [type(error).__name__])[0]

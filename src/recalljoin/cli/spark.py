"""What commands that run on Spark share."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextmanager
def running(*, debug: bool = False) -> Iterator[SparkSession]:
    """A Spark session for a command, with a word to whoever waits for it on a terminal."""
    require_spark()
    from rich.console import Console

    from recalljoin.experiments.session import running_session

    console = Console(stderr=True)
    with console.status("starting Spark") as status, running_session(debug=debug) as spark:
        status.update("running on Spark")
        yield spark


def require_spark() -> None:
    """See that PySpark is installed.

    Raises
    ------
    click.ClickException
        Saying how to install it.
    """
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            message = f"this command runs on Spark, and {package} is not installed; "
            message += "call `pip install 'recalljoin[spark]'`"
            raise click.ClickException(message)

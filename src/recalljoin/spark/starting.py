"""The Python processes of a join: started quickly, and before they are needed.

Spark starts about ten Python processes, one after the other, before the first batch of a join is
through. This module shortens that where workers run on the driver's machine.
"""

from __future__ import annotations

import logging
import os
import site
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.find_spark_home import _find_spark_home

from recalljoin.spark.interpreters import is_own
from recalljoin.spark.session import has_workers_here
from recalljoin.spark.workers import own_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_PYTHON = "RECALLJOIN_PYTHON"
STARTS = "recalljoin-start"
"""Name of the threads that wait for workers."""
_LAUNCHER = Path(__file__).with_name("python.sh")
_STARTED: weakref.WeakSet[SparkContext] = weakref.WeakSet()
"""Contexts whose workers have been started ahead."""


@contextmanager
def quick_start(spark: SparkSession) -> Iterator[None]:
    """Functions and sources made within this context run in processes that start quickly.

    A process takes 0.7 s to import PySpark from the zip file that Spark puts first on its path,
    and 0.15 s without the zip file. Where the workers may have another Python or another PySpark
    than the driver, they are started as Spark does it.
    """
    if not has_workers_here(spark) or not _has_same_pyspark(spark):
        yield
        return
    context: Any = spark.sparkContext
    context.environment[_PYTHON], context.pythonExec = context.pythonExec, str(_LAUNCHER)
    try:
        yield
    finally:
        context.pythonExec = context.environment.pop(_PYTHON)


def _has_same_pyspark(spark: SparkSession) -> bool:
    """Whether workers import, without the zip files, what the driver has imported."""
    installed = Path(pyspark.__file__).parent
    return (
        os.access(_LAUNCHER, os.X_OK)
        and is_own(spark.sparkContext.pythonExec)
        and (installed.parent / "py4j").is_dir()
        and str(installed.parent) in (*site.getsitepackages(), site.getusersitepackages())
        and Path(_find_spark_home()).resolve() == installed.resolve()
    )


def start_ahead(spark: SparkSession) -> None:
    """Start the workers of a first join in the background, while its query is being planned.

    Spark keeps idle workers by the environment they were started with; an RDD's workers have the
    environment of the stateful operator's workers, and, with one variable more, that of the
    workers that route tuples.
    """
    if not has_workers_here(spark) or spark.sparkContext in _STARTED:
        return
    context = spark.sparkContext
    _STARTED.add(context)
    with own_workers(spark):
        cells = _task(context, 1, _load_cells)
    context.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
    try:
        routers = _task(context, context.defaultParallelism, _load_routing)
    finally:
        del context.environment["SPARK_SIMPLIFIED_TRACEBACK"]
    for run in (cells, routers):
        threading.Thread(target=run, name=STARTS, daemon=True).start()


def _task(
    context: SparkContext, n: int, load: Callable[[Iterable[int]], Iterable[int]]
) -> Callable[[], None]:
    # Spark takes the environment of this moment.
    rows: Any = context.parallelize(range(n), n).mapPartitions(load)._jrdd

    def run() -> None:
        try:
            context.setJobDescription("recalljoin starts its Python workers")
            rows.count()
        except Exception:
            # They are then started when they are needed, and what is wrong is said there.
            _LOG.debug("no workers were started ahead", exc_info=True)

    return run


def _load_cells(numbers: Iterable[int]) -> Iterable[int]:
    from recalljoin.engine.slack_bins import slack_bin  # noqa: PLC0415
    from recalljoin.spark import group  # noqa: F401, PLC0415

    slack_bin(0, 0)  # The first kernel of a process takes longest.
    return numbers


def _load_routing(numbers: Iterable[int]) -> Iterable[int]:
    import pandas as pd  # type: ignore[import-untyped] # noqa: F401, PLC0415 - by Arrow, later

    from recalljoin.spark import routing  # noqa: F401, PLC0415

    return numbers

"""Spark's Python workers: workers that run cells only, and less garbage collection in workers."""

from __future__ import annotations

import functools
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recalljoin.spark.session import is_connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_POOL = "RECALLJOIN_WORKERS"


@contextmanager
def own_workers(spark: SparkSession) -> Iterator[None]:
    """Functions made within this context run in Python workers that run nothing else.

    Spark keeps idle workers by the environment they were started with, and hands out the worker
    that has been idle longest: among workers that also route tuples, a cell would rarely meet the
    worker that holds its instance.
    Under Spark Connect the environment is out of reach, and cells are rebuilt from state instead.
    """
    if is_connected(spark):
        yield
        return
    environment = spark.sparkContext.environment
    environment[_POOL] = "cells"
    try:
        yield
    finally:
        del environment[_POOL]


@functools.cache
def settle() -> None:
    """Called in a worker: exempt all objects that exist by now from garbage collection.

    These are what has been imported, and whatever other queries of the session have left.

    A worker collects garbage after every task, before it is free for the next task; to look through
    all objects of the libraries takes a tenth of a second.
    """
    gc.collect()
    gc.freeze()

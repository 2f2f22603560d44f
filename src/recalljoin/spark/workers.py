"""Spark's Python workers: some that run cells only, and none that waits longer than it must."""

from __future__ import annotations

import functools
import gc
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from recalljoin.spark.session import is_connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_POOL = "RECALLJOIN_WORKERS"
# Local properties that Spark sets for the tasks of a streaming query.
_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"


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
    """Called at the end of a worker's first task: later tasks begin and end without a delay."""
    _acknowledge_at_once()
    # A worker collects garbage after every task, before it is free for the next task; to look
    # through all objects of the libraries takes a tenth of a second. So all objects that exist by
    # now are exempt: what the first task has imported (Arrow imports pandas when it makes its first
    # array), and what other queries of the session have left.
    gc.collect()
    gc.freeze()


def _acknowledge_at_once() -> None:
    """Acknowledge at once whatever Spark sends to this worker.

    Spark sends a task in several small packets. By TCP's rules each waits until the one before is
    acknowledged, and the kernel keeps acknowledgements back for 40 ms in the hope of an answer to
    send along: most of the time of a small task. Linux can be told otherwise, until the next
    answer is sent. So the worker tells it after every task, when it collects garbage.
    Where Spark talks to its workers through Unix domain sockets, there is no such delay.
    """
    connection = _connection()
    option = getattr(socket, "TCP_QUICKACK", None)
    if connection is None or option is None or connection.family == socket.AF_UNIX:
        return

    def acknowledge(phase: str, _: dict[str, int]) -> None:
        if phase == "stop":
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)

    gc.callbacks.append(acknowledge)


def _connection() -> socket.socket | None:
    """The socket through which Spark talks to this worker; None if this is no worker."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "worker" and code.co_filename.endswith("daemon.py"):
            found = frame.f_locals.get("sock")
            return found if isinstance(found, socket.socket) else None
        frame = frame.f_back
    return None


def whereabouts() -> tuple[int, int, str]:
    """The batch, the partition and the query that this task works for."""
    context = TaskContext.get()
    if context is None:
        return 0, 0, "none"
    batch, query = (context.getLocalProperty(name) for name in (_BATCH_ID, _QUERY_ID))
    return int(batch or 0), context.partitionId(), query or "none"

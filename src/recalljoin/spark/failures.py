"""Errors of ours on their way out of Spark's Python processes: the sentence first.

Spark hands the text of an error from a Python process to the driver, and ``query.exception()``
shows it. The text is a traceback of fifty lines, with the error behind it. Here an error that we
raise on purpose comes first, and the traceback follows as a note.

Spark reads an environment variable, in the moment in which an error leaves the process, that tells
it to leave the traceback out. The process ends with the error, so that no other error is told in
this way.
"""

from __future__ import annotations

import os
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recalljoin.errors import RecallJoinError
from recalljoin.spark.control import ControlReader, ControlSource
from recalljoin.spark.processor import CellProcessor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from recalljoin.spark.columns import ArrowTask

WITHOUT_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def sentence_first() -> Iterator[None]:
    """Let errors of ours leave this process with their message first."""
    try:
        yield
    except RecallJoinError as error:
        error.add_note("".join(traceback.format_exception(error)))
        os.environ[WITHOUT_TRACEBACK] = "1"
        raise


def plainly(task: ArrowTask, name: str) -> ArrowTask:
    """A function for mapInArrow whose errors have their message first.

    Spark's pages and plans show it under ``name``.
    """

    def outspoken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with sentence_first():
            yield from task(batches)

    outspoken.__name__ = name
    return outspoken


class PlainProcessor(CellProcessor):
    """The cells, with the message of an error first."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Called by Spark once for each group and batch."""
        with sentence_first():
            yield from super().handleInputRows(key, rows, timerValues)


class PlainReader(ControlReader):
    """The reader of the control source, with the message of an error first."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Offset at the end of the next batch."""
        with sentence_first():
            return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        """The partitions of a batch."""
        with sentence_first():
            return super().partitions(start, end)

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
        """The rows of a batch."""
        with sentence_first():
            return super().getCache(start, end)


class PlainSource(ControlSource):
    """The control source, with the message of an error first."""

    reads_with = PlainReader

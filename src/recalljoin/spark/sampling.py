"""The first minutes of live streams, as a recording."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import nanoseconds
from recalljoin.query.given import INPUTS
from recalljoin.query.sources import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from recalljoin.query.durations import DurationLike

ARRIVAL = "arrival"


def sample(
    frames: Mapping[str, DataFrame], *, duration: DurationLike = "2 minutes"
) -> dict[str, pa.Table]:
    """Record what arrives on streaming DataFrames for some time.

    The tables have one more column, ``arrival``: when the micro-batch of a row began. All tables
    are held in memory; select the columns that the join reads beforehand. Give the tables to
    :func:`recalljoin.advise` to learn how long a join of these streams would have to wait.

    Parameters
    ----------
    frames
        Streaming DataFrames by name.
    duration
        How long to listen; listening ends sooner if all streams end.

    Raises
    ------
    InvalidSetting
        When a DataFrame does not stream, or has a column ``arrival`` already.
    """
    INPUTS.check("frames", frames)
    for name, frame in frames.items():
        if not frame.isStreaming:
            message = f"`{name}` does not stream; call toArrow() for the rows it has"
            raise InvalidSetting(message)
        if ARRIVAL in frame.columns:
            message = f"`{name}` has a column `{ARRIVAL}` already; rename or drop it"
            raise InvalidSetting(message)
    listeners = {name: _Listener(frame) for name, frame in frames.items()}
    until = time.monotonic() + nanoseconds(duration, name="duration") / 1e9
    try:
        while time.monotonic() < until and any(e.query.isActive for e in listeners.values()):
            time.sleep(0.1)
    finally:
        for each in listeners.values():
            each.query.stop()
    return {name: each.table() for name, each in listeners.items()}


class _Listener:
    """Keeps the batches of one stream."""

    def __init__(self, frame: DataFrame) -> None:
        arriving = frame.withColumn(ARRIVAL, sf.current_timestamp())
        self._schema = arrow_schema(arriving)
        self._batches: dict[int, pa.Table] = {}
        self._lock = threading.Lock()
        self.query = arriving.writeStream.foreachBatch(self._keep).start()

    def _keep(self, batch: DataFrame, number: int) -> None:
        table = batch.toArrow()
        with self._lock:
            self._batches[number] = table

    def table(self) -> pa.Table:
        """All rows, batch by batch."""
        with self._lock:
            batches = [self._batches[number] for number in sorted(self._batches)]
        return pa.concat_tables([self._schema.empty_table(), *batches]).combine_chunks()

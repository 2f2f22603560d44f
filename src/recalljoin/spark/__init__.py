"""The join on Spark: streaming DataFrames in, a streaming DataFrame out."""

from __future__ import annotations

from recalljoin.spark.join import join, sql
from recalljoin.spark.progress import forecast, late, progress, refused
from recalljoin.spark.sampling import sample
from recalljoin.spark.streams import FrameStream, stream

__all__ = [
    "FrameStream",
    "forecast",
    "join",
    "late",
    "progress",
    "refused",
    "sample",
    "sql",
    "stream",
]

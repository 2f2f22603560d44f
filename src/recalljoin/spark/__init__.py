"""The join on Spark: streaming DataFrames in, a streaming DataFrame out."""

from __future__ import annotations

from recalljoin.spark.door import join, sql
from recalljoin.spark.progress import forecast, late, progress, refused
from recalljoin.spark.sampling import sample

__all__ = ["forecast", "join", "late", "progress", "refused", "sample", "sql"]

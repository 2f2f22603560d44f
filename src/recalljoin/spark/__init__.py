"""The join on Spark: streaming DataFrames in, a streaming DataFrame out."""

from __future__ import annotations

from recalljoin.spark.api import join, sql
from recalljoin.spark.join_log import JoinLog, open
from recalljoin.spark.sampling import sample
from recalljoin.spark.session import prepare

__all__ = ["JoinLog", "join", "open", "prepare", "sample", "sql"]

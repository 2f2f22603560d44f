"""Sliding-window joins of disordered streams that reach the recall you ask for."""

import importlib
import typing

from recalljoin.errors import (
    DatasetError,
    FunctionError,
    InvalidQuery,
    InvalidSetting,
    InvalidTarget,
    RecallJoinError,
    StateVersionError,
    TooManyResults,
)
from recalljoin.quality.advice import Advice, advise
from recalljoin.quality.replayed import Replayed, replay
from recalljoin.query import Functions, Quality, Query, Stream, explain, parse_query

if typing.TYPE_CHECKING:
    from recalljoin.spark import JoinLog, join, open, prepare, sample, sql

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "DatasetError",
    "FunctionError",
    "Functions",
    "InvalidQuery",
    "InvalidSetting",
    "InvalidTarget",
    "JoinLog",
    "Quality",
    "Query",
    "RecallJoinError",
    "Replayed",
    "StateVersionError",
    "Stream",
    "TooManyResults",
    "__version__",
    "advise",
    "explain",
    "join",
    "open",
    "parse_query",
    "prepare",
    "replay",
    "sample",
    "sql",
]

_ON_SPARK = frozenset({"JoinLog", "join", "open", "prepare", "sample", "sql"})


def __getattr__(name: str) -> object:
    """Load what runs on Spark when it is first asked for: the engine alone needs no PySpark."""
    if name not in _ON_SPARK:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    try:
        spark = importlib.import_module("recalljoin.spark")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"pyspark", "pandas"}:
            raise
        message = f"`{name}` runs on Spark; install it with `pip install 'recalljoin[spark]'`"
        raise ImportError(message) from error
    return getattr(spark, name)


def __dir__() -> list[str]:
    """Name what is loaded later as well."""
    return sorted({*globals(), *__all__})

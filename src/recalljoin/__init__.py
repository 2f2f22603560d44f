"""Sliding-window joins of disordered streams that reach the recall you ask for."""

from recalljoin.engine.replay import Replay, replay
from recalljoin.errors import (
    DatasetError,
    FunctionError,
    InvalidQuery,
    InvalidSetting,
    InvalidTarget,
    RecallJoinError,
    StateVersionError,
)
from recalljoin.query import Functions, Quality, Query, Stream, explain, parse_query

__version__ = "0.1.0"

__all__ = [
    "DatasetError",
    "FunctionError",
    "Functions",
    "InvalidQuery",
    "InvalidSetting",
    "InvalidTarget",
    "Quality",
    "Query",
    "RecallJoinError",
    "Replay",
    "StateVersionError",
    "Stream",
    "__version__",
    "explain",
    "parse_query",
    "replay",
]

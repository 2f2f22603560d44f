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

if typing.TYPE_CHECKING:
    from recalljoin.quality.advice import Advice, advise
    from recalljoin.quality.local_replay import replay
    from recalljoin.quality.replayed import Replayed
    from recalljoin.query import Functions, Quality, Query, Stream, explain, parse_query
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

_HOMES = {
    "recalljoin.quality.advice": ("Advice", "advise"),
    "recalljoin.quality.local_replay": ("replay",),
    "recalljoin.quality.replayed": ("Replayed",),
    "recalljoin.query": ("Functions", "Quality", "Query", "Stream", "explain", "parse_query"),
    "recalljoin.spark": ("JoinLog", "join", "open", "prepare", "sample", "sql"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load what is asked for when it is first asked for.

    The engine alone needs no PySpark. And Spark starts several Python processes for a query, each
    of which imports this package: a process that only routes tuples need not load the engine.
    """
    if name not in _HOME_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    home = _HOME_OF[name]
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if home != "recalljoin.spark" or missing not in {"pyspark", "pandas"}:
            raise
        message = f"`{name}` runs on Spark; install it with `pip install 'recalljoin[spark]'`"
        raise ImportError(message) from error
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    """Name what is loaded later as well."""
    return sorted({*globals(), *__all__})

"""Sliding-window joins of disordered streams that reach the recall you ask for."""

import importlib
import typing

from recalljoin.errors import (
    BufferFull,
    ControlLogError,
    DatasetError,
    FunctionError,
    InvalidJob,
    InvalidQuery,
    InvalidSetting,
    InvalidTarget,
    RecallJoinError,
    StateVersionError,
    TooManyResults,
)

if typing.TYPE_CHECKING:
    from recalljoin.dashboard.pictures import Picture, plot
    from recalljoin.dashboard.watching import watch
    from recalljoin.quality.advice import Advice, advise
    from recalljoin.quality.local_replay import replay
    from recalljoin.quality.replayed import Replayed
    from recalljoin.query.functions import Functions
    from recalljoin.query.model import Query, Stream
    from recalljoin.query.quality import Quality
    from recalljoin.query.text import parse_query
    from recalljoin.spark.api import join, sql
    from recalljoin.spark.explaining import explain
    from recalljoin.spark.join_log import JoinLog, open
    from recalljoin.spark.partitions import grow
    from recalljoin.spark.sampling import sample
    from recalljoin.spark.session import prepare

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "BufferFull",
    "ControlLogError",
    "DatasetError",
    "FunctionError",
    "Functions",
    "InvalidJob",
    "InvalidQuery",
    "InvalidSetting",
    "InvalidTarget",
    "JoinLog",
    "Picture",
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
    "grow",
    "join",
    "open",
    "parse_query",
    "plot",
    "prepare",
    "replay",
    "sample",
    "sql",
    "watch",
]

_HOMES = {
    "recalljoin.dashboard.pictures": ("Picture", "plot"),
    "recalljoin.dashboard.watching": ("watch",),
    "recalljoin.quality.advice": ("Advice", "advise"),
    "recalljoin.quality.local_replay": ("replay",),
    "recalljoin.quality.replayed": ("Replayed",),
    "recalljoin.query.functions": ("Functions",),
    "recalljoin.query.model": ("Query", "Stream"),
    "recalljoin.query.quality": ("Quality",),
    "recalljoin.query.text": ("parse_query",),
    "recalljoin.spark.api": ("join", "sql"),
    "recalljoin.spark.explaining": ("explain",),
    "recalljoin.spark.join_log": ("JoinLog", "open"),
    "recalljoin.spark.sampling": ("sample",),
    "recalljoin.spark.partitions": ("grow",),
    "recalljoin.spark.session": ("prepare",),
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
        if not home.startswith("recalljoin.spark") or missing not in {"pyspark", "pandas"}:
            raise
        message = f"`{name}` runs on Spark; install it with `pip install 'recalljoin[spark]'`"
        raise ImportError(message) from error
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    """Name what is loaded later as well."""
    inner = {"importlib", "typing", "_HOMES", "_HOME_OF"}
    return sorted({*globals(), *__all__} - inner)

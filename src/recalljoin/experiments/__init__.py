"""Recorded streams on Spark: generating and evaluating them, and the paper's experiments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recalljoin.experiments.evaluation import RecordedJoin, evaluate, open_recording
    from recalljoin.experiments.generation import make_frame, write_dataset
    from recalljoin.experiments.session import local_session, running_session
    from recalljoin.experiments.setup import Setup

__all__ = [
    "RecordedJoin",
    "Setup",
    "evaluate",
    "local_session",
    "make_frame",
    "open_recording",
    "running_session",
    "write_dataset",
]

_HOMES = {
    "evaluation": ("RecordedJoin", "evaluate", "open_recording"),
    "generation": ("make_frame", "write_dataset"),
    "session": ("local_session", "running_session"),
    "setup": ("Setup",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load what is asked for when it is first asked for: charts and pages need no PySpark."""
    if name not in _HOME_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module = importlib.import_module(f"{__name__}.{_HOME_OF[name]}")
    found = globals()[name] = getattr(module, name)
    return found

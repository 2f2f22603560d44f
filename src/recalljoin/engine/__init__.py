"""One operator instance of the join, on columns; knows neither Spark nor files nor policies."""

from __future__ import annotations

from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.output import RESULT_TIME
from recalljoin.engine.pipeline import EngineSettings, Pipeline, Step, drain
from recalljoin.engine.state import restore, snapshot

__all__ = [
    "RESULT_TIME",
    "Arrivals",
    "EngineSettings",
    "Pipeline",
    "Step",
    "arrivals_of",
    "drain",
    "restore",
    "snapshot",
    "ticks_of",
]

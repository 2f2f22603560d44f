"""One operator instance of the join, on columns; knows neither Spark nor files nor policies."""

from __future__ import annotations

from recalljoin.engine.arrivals import Arrivals, arrivals_of, ticks_of
from recalljoin.engine.pipeline import Pipeline
from recalljoin.engine.settings import EngineSettings
from recalljoin.engine.state import restore, snapshot
from recalljoin.engine.step import Step, drain, side_by_side
from recalljoin.query.outputs import RESULT_TIME

__all__ = [
    "RESULT_TIME",
    "Arrivals",
    "EngineSettings",
    "Pipeline",
    "Step",
    "arrivals_of",
    "drain",
    "restore",
    "side_by_side",
    "snapshot",
    "ticks_of",
]

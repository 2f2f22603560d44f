"""Recorded streams on Spark: generating and evaluating them, and the paper's experiments."""

from __future__ import annotations

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

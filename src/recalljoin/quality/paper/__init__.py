"""The buffer-size adaptation of the paper, component by component, as published (its Section IV).

Statistics Manager, Tuple-Productivity Profiler and Result-Size Monitor watch; the recall model
says what a K would give; the Buffer-Size Manager chooses.
"""

from __future__ import annotations

from recalljoin.quality.paper.adaptive_window import AdaptiveWindow
from recalljoin.quality.paper.buffer_size_manager import BufferSizeManager, EqSel, NonEqSel
from recalljoin.quality.paper.productivity_profiler import Productivity, productivity_of
from recalljoin.quality.paper.result_size_monitor import ResultSizeMonitor
from recalljoin.quality.paper.statistics_manager import StatisticsManager, StreamStatistics

__all__ = [
    "AdaptiveWindow",
    "BufferSizeManager",
    "EqSel",
    "NonEqSel",
    "Productivity",
    "ResultSizeMonitor",
    "StatisticsManager",
    "StreamStatistics",
    "productivity_of",
]

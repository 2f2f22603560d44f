"""Times that stand for "not yet" and "no more"; all other times are within ``MAX_TIME`` of 0."""

from __future__ import annotations

import numpy as np

NEVER = np.iinfo(np.int64).min
"""Minus infinity: the value of every clock before anything has arrived."""
FOREVER = np.iinfo(np.int64).max
"""Plus infinity: the watermark after the end of input."""

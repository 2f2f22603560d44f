"""Choosing K: how long to wait for late tuples so that enough of the results are produced.

A policy is made by name (:func:`make_policy`), learns of the join through profiles
(:class:`Profile`) and says what K to use next. :func:`run_adaptive` runs a policy over a recording.
"""

from __future__ import annotations

# Policies register themselves when their modules are loaded.
from recalljoin.quality import baselines, paper, slack
from recalljoin.quality.adaptive import run_adaptive, true_results
from recalljoin.quality.policy import (
    ArrivalPolicy,
    BufferSizePolicy,
    Forecast,
    make_policy,
    policy_names,
    register,
)
from recalljoin.quality.profile import Profile, coarse_delay
from recalljoin.quality.profiling import Arrived, follow_ticks, follow_tuples, profile_of
from recalljoin.quality.recall import Measurement, RecallMeter, Timeline, fulfilment
from recalljoin.quality.record import RunRecord
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.tally import Tally

__all__ = [
    "ArrivalPolicy",
    "Arrived",
    "BufferSizePolicy",
    "Forecast",
    "Measurement",
    "PolicySettings",
    "Profile",
    "RecallMeter",
    "RunRecord",
    "Tally",
    "Timeline",
    "baselines",
    "coarse_delay",
    "follow_ticks",
    "follow_tuples",
    "fulfilment",
    "make_policy",
    "paper",
    "policy_names",
    "profile_of",
    "register",
    "run_adaptive",
    "slack",
    "true_results",
]

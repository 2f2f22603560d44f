"""Estimates the results lost with tuples beyond the retention horizon, which nobody can count.

A policy that learnt only from counted losses would never hear of tuples that come later than the
horizon, and would not wait for such tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile


class UnseenLosses:
    """Estimates how many results each tuple beyond the horizon would have completed.

    A tuple beyond the horizon is taken for an ordinary tuple of its stream: it would have been in
    as many results as the other tuples of the stream were lately, on average.

    Parameters
    ----------
    memory
        Base time after which tuples and results count for half.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._n_results = 0.0
        self._n_tuples: Float64s | None = None
        self._base = NEVER

    def estimate(self, profile: Profile) -> Float64s | None:
        """Results by required slack; None where no tuple of the interval was beyond the horizon."""
        n_beyond = profile.beyond_slack.sum(axis=1)
        in_time = profile.in_order.sum(axis=1) + profile.late.sum(axis=1) - n_beyond
        if self._n_tuples is None:
            self._n_tuples = np.zeros(profile.m)
        base = profile.base_time
        if FOREVER > base > NEVER:
            if self._base != NEVER and base > self._base:
                fading = 0.5 ** ((base - self._base) / self.memory)
                self._n_results *= fading
                self._n_tuples *= fading
            self._base = max(self._base, base)
        self._n_results += profile.n_produced + profile.n_lost
        self._n_tuples += in_time
        if not n_beyond.any():
            return None
        # A result has one member of each stream, so all results count for every stream.
        each = self._n_results / np.maximum(self._n_tuples, 1.0)
        losses: Float64s = (each[:, np.newaxis] * profile.beyond_slack).sum(axis=0)
        return losses

    def snapshot(self) -> State:
        """Everything it remembers."""
        tuples = None if self._n_tuples is None else self._n_tuples.tolist()
        return {"results": self._n_results, "tuples": tuples, "base": self._base}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._n_results, self._base = state["results"], state["base"]
        self._n_tuples = None if state["tuples"] is None else np.array(state["tuples"])

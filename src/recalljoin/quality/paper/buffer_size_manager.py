"""Buffer-Size Manager: Algorithm 3, the paper's way to choose K (Sec. IV)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.quality.paper.productivity_profiler import Productivity, productivity_of
from recalljoin.quality.paper.recall_model import (
    DelayModel,
    delay_model,
    estimate_recall,
    selectivity_ratio,
)
from recalljoin.quality.paper.result_size_monitor import ResultSizeMonitor
from recalljoin.quality.paper.statistics_manager import StatisticsManager
from recalljoin.quality.policy import Forecast, State, check_options, register

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings


class BufferSizeManager:
    """The published model-based adaptation.

    Parameters
    ----------
    settings
        Recall target Γ, period P, interval L, basic window b, granularity g, and windows.
    delta
        How readily the delay statistics forget, see
        :class:`~recalljoin.quality.paper.adaptive_window.AdaptiveWindow`.
    """

    name: str
    uses_slack = False
    with_productivity: bool
    """Whether selectivity depends on K (NonEqSel) or not (EqSel)."""

    def __init__(self, settings: PolicySettings, *, delta: float = 0.002) -> None:
        check_options({f"`delta` must be in (0, 1), got {delta!r}": not 0 < delta < 1})
        self.settings = settings
        self.k = 0
        self.statistics = StatisticsManager(len(settings.windows), delta=delta)
        self.monitor = ResultSizeMonitor(period=settings.period, interval=settings.interval)
        self.productivity = Productivity(np.zeros(1), np.zeros(1))
        self.instant_requirement = settings.recall
        """Γ′, the recall asked of the next interval, as of the last adaptation."""
        self._recall: Float64s | None = None
        # This compiles the kernels, so that no adaptation has to wait for compilation.
        self.statistics.streams[0].window.push(np.empty(0))
        _model(np.ones(1, dtype=np.int64), k_sync=0.0, window=1, settings=settings, n_k=1)

    @property
    def estimated_recall(self) -> float | None:
        """γ(L, k*): the model's recall for the K chosen at the last adaptation."""
        if self._recall is None:
            return None
        place = min(self.k // self.settings.g, len(self._recall) - 1)
        return min(1.0, float(self._recall[place]))

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.statistics.observe(profile)
        self.productivity = productivity_of(
            profile, rates=self.statistics.rates, windows=self.settings.windows
        )
        self.monitor.observe(profile.n_produced, self.productivity.n_true)

    def estimate_recall(self, n_k: int) -> Float64s:
        """γ(L, K), the model's recall, for K = 0, g, ..., (n_k - 1) g."""
        settings = self.settings
        streams = [
            _model(histogram, k_sync=k_sync, window=window, settings=settings, n_k=n_k)
            for histogram, k_sync, window in zip(
                self.statistics.histograms, self.statistics.k_sync, settings.windows, strict=True
            )
        ]
        ratio = (
            selectivity_ratio(self.productivity, n_k) if self.with_productivity else np.ones(n_k)
        )
        return estimate_recall(ratio, streams=streams, windows=settings.windows)

    def adapt(self) -> int:
        """Algorithm 3: the smallest K with γ(L, K) ≥ Γ′, or the first beyond the largest delay."""
        # γ is known for all K at once, so the search is one look at an array. γ need not grow with
        # K (selectivity may fall), so the first K that is enough is taken, without bisection.
        n_k = self.statistics.largest_coarse_delay + 2
        self._recall = self.estimate_recall(n_k)
        self.instant_requirement = self.monitor.instant_requirement(self.settings.recall)
        suffices = self._recall >= self.instant_requirement
        suffices[-1] = True
        self.k = int(suffices.argmax()) * self.settings.g
        return self.k

    def forecast(self) -> Forecast | None:
        """γ(L, K) as of the last adaptation."""
        if self._recall is None:
            return None
        k = np.arange(len(self._recall)) * self.settings.g
        return Forecast(k, self._recall.clip(0.0, 1.0))

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "k": self.k,
            "statistics": self.statistics.snapshot(),
            "monitor": self.monitor.snapshot(),
            "instant_requirement": self.instant_requirement,
            "recall": None if self._recall is None else self._recall.tolist(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k = state["k"]
        self.statistics.restore(state["statistics"])
        self.monitor.restore(state["monitor"])
        self.instant_requirement = state["instant_requirement"]
        self._recall = None if state["recall"] is None else np.array(state["recall"])


def _model(
    histogram: Int64s, *, k_sync: float, window: int, settings: PolicySettings, n_k: int
) -> DelayModel:
    return delay_model(
        histogram,
        k_sync=k_sync,
        window=window,
        basic_window=settings.basic_window,
        granularity=settings.g,
        n_k=n_k,
    )


@register("eqsel")
class EqSel(BufferSizeManager):
    """The paper's model with the same selectivity for every K."""

    name = "eqsel"
    with_productivity = False


@register("noneqsel")
class NonEqSel(BufferSizeManager):
    """The paper's model with selectivity learnt from delay and productivity (the paper's best)."""

    name = "noneqsel"
    with_productivity = True

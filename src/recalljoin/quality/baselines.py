"""Policies without a model: the paper's two baselines, a constant, and a delay percentile."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.quality.feedback import Feedback
from recalljoin.quality.policy import Forecast, State, check_options, register
from recalljoin.quality.tick_spans import TickSpans
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings


class _Baseline:
    """Common part of the policies that expect no recall and remember only their K."""

    name: str
    uses_slack = False

    def __init__(self) -> None:
        self.k = 0

    @property
    def estimated_recall(self) -> float | None:
        return None

    def observe(self, profile: Profile) -> None:
        pass

    def adapt(self) -> int:
        return self.k

    def forecast(self) -> Forecast | None:
        return None

    def snapshot(self) -> State:
        return {"k": self.k}

    def restore(self, state: State) -> None:
        self.k = state["k"]


@register("none")
class NoSlack(_Baseline):
    """No-K-slack: only the Synchronizer handles disorder (paper, Sec. VI)."""

    name = "none"

    def __init__(self, settings: PolicySettings) -> None:  # noqa: ARG002 - it asks for nothing
        super().__init__()


@register("fixed")
class FixedSlack(_Baseline):
    """The same K all the time.

    Parameters
    ----------
    settings
        Not used.
    k
        The K, in the query's unit.
    """

    name = "fixed"

    def __init__(self, settings: PolicySettings, *, k: int) -> None:  # noqa: ARG002 - see above
        super().__init__()
        check_options({f"`k` must be between 0 and 2**61, got {k!r}": not 0 <= k <= MAX_TIME})
        self.k = k


@register("max")
class MaxSlack(_Baseline):
    """Max-K-slack: K is the largest delay any tuple of any stream has had (paper, Sec. VI).

    K rises at once, when the tuple with the larger delay arrives. Where tuples cannot be followed
    one by one, K rises at the end of the interval.
    """

    name = "max"

    def __init__(self, settings: PolicySettings) -> None:  # noqa: ARG002 - it asks for nothing
        super().__init__()

    def arrive(self, delay: Int64s) -> Int64s:
        """K in force when each tuple arrives, given the delays of the tuples."""
        # The delay between the earliest and the latest time there is exceeds the largest K allowed.
        k = np.maximum.accumulate(np.clip(delay, self.k, MAX_TIME))
        if len(k):
            self.k = int(k[-1])
        return k

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.k = max(self.k, min(profile.largest_delay, MAX_TIME))


@register("percentile")
class PercentileSlack(_Baseline):
    """K from a percentile of the delays of the worst stream: what many use today.

    A percentile says how many tuples come in time, not how many results are produced. So K is
    corrected by the recall that is measured (:mod:`recalljoin.quality.feedback`).

    Parameters
    ----------
    settings
        ``recall`` is the share of tuples, ``period`` how long delays are remembered.
    percentile
        Share of the tuples of each stream that are to come in time, in (0, 1]; by default the
        recall asked for.
    """

    name = "percentile"
    takes_initial_wait = True

    def __init__(self, settings: PolicySettings, *, percentile: float | None = None) -> None:
        super().__init__()
        self.k = settings.first_wait
        share = settings.recall if percentile is None else percentile
        check_options({f"`percentile` must be in (0, 1], got {share!r}": not 0 < share <= 1})
        self.percentile = share
        self.g = settings.g
        n_intervals = -(-settings.period // settings.interval)
        self.recent: deque[Int64s] = deque(maxlen=n_intervals)
        self.spans = TickSpans(settings.period // 6)
        self.feedback = Feedback(settings.recall, settings.period)

    def observe(self, profile: Profile) -> None:
        """Take in an interval; delays that mean nothing are left out."""
        tells_delays = self.spans.tell_delays(profile)
        self.feedback.observe(profile, tells_delays=tells_delays)
        if tells_delays:
            self.recent.append(profile.delays)

    def adapt(self) -> int:
        """Choose the smallest multiple of g within which enough tuples of every stream arrive."""
        if not self.recent:
            return self.k
        total = np.zeros((len(self.recent[0]), max(part.shape[1] for part in self.recent)))
        for part in self.recent:
            total[:, : part.shape[1]] += part
        arrived = total.cumsum(axis=1)
        enough = arrived >= self.percentile * arrived[:, -1:]
        in_time = int(enough.argmax(axis=1).max()) * self.g
        self.k = -(-self.feedback.corrected(in_time) // self.g) * self.g
        return self.k

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {
            "k": self.k,
            "recent": [part.tolist() for part in self.recent],
            "spans": self.spans.snapshot(),
            "feedback": self.feedback.snapshot(),
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.k = state["k"]
        parts = (np.array(part, dtype=np.int64) for part in state["recent"])
        self.recent = deque(parts, maxlen=self.recent.maxlen)
        self.spans.restore(state["spans"])
        self.feedback.restore(state["feedback"])

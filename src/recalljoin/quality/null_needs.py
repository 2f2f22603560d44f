"""The wait that rows without a partner need: false ones must be few among them.

A tuple leaves without a partner when the watermark reaches its verdict. With a longer wait the
verdict comes later, and more partners come before it. The engine counts, for every tuple whose
partner came after it, the base time at the partner's arrival less the time of the verdict: with a K
of no more than that, and of more than the same number of the tuple itself, the tuple leaves in
error. So the share of true rows is known for every K, whatever K was in force.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.arrays import added
from recalljoin.engine.judging import LATER, OWN, UNMATCHED
from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.period_needs import enough_for
from recalljoin.quality.policy import lead_of, leap_of

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.policy import BufferSizePolicy, Forecast, State
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

STRETCHES = 6
"""Stretches of a period; a period may begin with any of them."""
MEMORY = 10 * STRETCHES
"""Stretches that are remembered."""
PERIODS = 0.97
"""Share of the periods that the wait must have been enough for."""


def precision_by_k(needs: Int64s) -> Float64s:
    """Share of true rows among the rows without a partner, for each K of ENOUGH; 1 of none.

    Parameters
    ----------
    needs
        ``[UNMATCHED, LATER or OWN, bin]`` as the engine counts them.

    Examples
    --------
    Two tuples have no partner. The partner of a third comes 5 units of time after the verdict, so
    that any K of up to 5 lets the third tuple leave in error.

    >>> needs = np.zeros((3, 8), dtype=np.int64)
    >>> needs[UNMATCHED, 0], needs[LATER, 6], needs[OWN, 0] = 2, 1, 1
    >>> precision_by_k(needs)[[5, 6]].round(2)
    array([0.67, 1.  ])
    """
    within = np.cumsum(needs, axis=1)
    true = within[UNMATCHED]
    later, own = within[[LATER, OWN], -1:] - within[[LATER, OWN]]
    false = np.maximum(later - own, 0)
    rows = true + false
    return np.where(rows > 0, true / np.maximum(rows, 1), 1.0)


def need_of(needs: Int64s, precision: float) -> int:
    """The smallest K from which on the share of true rows is as large as asked for."""
    short = np.flatnonzero(precision_by_k(needs) < precision - 1e-12)
    at = int(short[-1]) + 1 if len(short) else 0
    return int(ENOUGH[min(at, len(ENOUGH) - 1)])


def with_precise_nulls(policy: BufferSizePolicy, settings: PolicySettings) -> BufferSizePolicy:
    """The policy, waiting long enough for precise rows without a partner where that is asked for.

    A wait that is given stays as it is.
    """
    if settings.null_precision is None or policy.name == "fixed":
        return policy
    return PreciseNulls(policy, precision=settings.null_precision, period=settings.period)


class PreciseNulls:
    """A policy that waits as long as recall and the precision of nulls need.

    Parameters
    ----------
    policy
        Chooses K by the recall.
    precision
        Share of the rows without a partner that must be true.
    period
        Over which precision is looked at, in the query's unit.
    """

    def __init__(self, policy: BufferSizePolicy, *, precision: float, period: int) -> None:
        self.policy = policy
        self.precision = precision
        self.name = policy.name
        self.uses_slack = True
        self._length = max(1, period // STRETCHES)
        self._stretches: deque[Int64s] = deque(maxlen=MEMORY)
        self._end = NEVER
        self.null_k = 0
        """K that precise nulls need, as far as it is known."""

    @property
    def k(self) -> int:
        """K in force."""
        return max(self.policy.k, self.null_k)

    @property
    def lead(self) -> int:
        """How far the base time may be ahead of the slowest source."""
        return lead_of(self.policy)

    @property
    def leap(self) -> int:
        """By how much sources must run apart within one tick to be waited for at once."""
        return leap_of(self.policy)

    @property
    def phase(self) -> str | None:
        """What the policy inside says of itself."""
        return getattr(self.policy, "phase", None)

    @property
    def estimated_recall(self) -> float | None:
        """Recall expected of ``k``."""
        forecast = self.forecast()
        if self.k == self.policy.k or forecast is None:
            return self.policy.estimated_recall
        place = int(forecast.k.searchsorted(self.k, side="right")) - 1
        return min(1.0, float(forecast.recall[place]))

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.policy.observe(profile)
        if NEVER < profile.join_time < FOREVER and profile.join_time >= self._end:
            self._end = profile.join_time + self._length
            self._stretches.append(np.zeros((3, 1), dtype=np.int64))
        if self._stretches:
            # What is found late about earlier rows counts now: it says as much about K.
            self._stretches[-1] = added(self._stretches[-1], profile.null_needs)

    def adapt(self) -> int:
        """Choose K."""
        self.policy.adapt()
        needs = []
        stretches = list(self._stretches)
        for begin in range(max(1, len(stretches) - STRETCHES + 1)):
            period = np.zeros((3, 1), dtype=np.int64)
            for stretch in stretches[begin : begin + STRETCHES]:
                period = added(period, stretch)
            if period.any():
                needs.append(need_of(period, self.precision))
        if needs:
            self.null_k = enough_for(np.array(needs, dtype=np.int64), PERIODS)
        return self.k

    def forecast(self) -> Forecast | None:
        """What other values of K would give."""
        return self.policy.forecast()

    def snapshot(self) -> State:
        """Everything that is remembered."""
        return {
            "policy": self.policy.snapshot(),
            "stretches": [stretch.tolist() for stretch in self._stretches],
            "end": self._end,
            "null_k": self.null_k,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.policy.restore(state["policy"])
        stretches = (np.array(stretch, dtype=np.int64) for stretch in state["stretches"])
        self._stretches = deque(stretches, maxlen=MEMORY)
        self._end, self.null_k = state["end"], state["null_k"]

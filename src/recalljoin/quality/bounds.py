"""The shortest and the longest wait a user allows, whatever a policy would like."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from recalljoin.quality.policy import lead_of, leap_of

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.policy import ArrivalPolicy, BufferSizePolicy, Forecast, State
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings


def bounded(policy: BufferSizePolicy, settings: PolicySettings) -> BufferSizePolicy:
    """The policy with K kept between ``min_wait`` and ``max_wait``, if either is set."""
    if settings.min_wait == 0 and settings.max_wait is None:
        return policy
    # A policy that follows single tuples has one more method.
    kind = BoundedByArrival if hasattr(policy, "arrive") else Bounded
    return kind(policy, min_wait=settings.min_wait, max_wait=settings.max_wait)


class Bounded:
    """A policy that waits no longer, and no shorter, than it is allowed to.

    The policy inside goes on choosing as it would; what it wanted is in ``wanted_k``, and the
    recall expected of the shorter wait is read from its forecast.

    Parameters
    ----------
    policy
        The policy that chooses K.
    min_wait, max_wait
        Smallest and largest K; a ``max_wait`` of None sets no limit.
    """

    def __init__(
        self, policy: BufferSizePolicy, *, min_wait: int = 0, max_wait: int | None = None
    ) -> None:
        self.policy = policy
        self.min_wait, self.max_wait = min_wait, max_wait
        self.name = policy.name
        self.uses_slack = policy.uses_slack

    @property
    def wanted_k(self) -> int:
        """K that the policy inside would use without bounds."""
        return self.policy.k

    @property
    def k(self) -> int:
        """K in force."""
        k = max(self.policy.k, self.min_wait)
        return k if self.max_wait is None else min(k, self.max_wait)

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
        if self.k == self.wanted_k:
            return self.policy.estimated_recall
        forecast = self.forecast()
        if forecast is None:
            return None
        place = int(forecast.k.searchsorted(self.k, side="right")) - 1
        return min(1.0, float(forecast.recall[place]))

    def observe(self, profile: Profile) -> None:
        """Take in an interval."""
        self.policy.observe(profile)

    def adapt(self) -> int:
        """Choose K."""
        self.policy.adapt()
        return self.k

    def forecast(self) -> Forecast | None:
        """What other values of K would give."""
        return self.policy.forecast()

    def snapshot(self) -> State:
        """Everything the policy inside remembers."""
        return self.policy.snapshot()

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self.policy.restore(state)


class BoundedByArrival(Bounded):
    """:class:`Bounded` for a policy that does not wait for the end of an interval."""

    def arrive(self, delay: Int64s) -> Int64s:
        """K in force when each tuple arrives, given the delays of the tuples."""
        k = cast("ArrivalPolicy", self.policy).arrive(delay)
        return np.clip(k, self.min_wait, self.max_wait)

"""When the policy is asked, and what it is told: one buffer-size manager for all cells.

How long tuples are remembered is decided with it, from the same reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recalljoin.engine.times import NEVER
from recalljoin.errors import InvalidSetting
from recalljoin.quality.bounds import Bounded
from recalljoin.quality.horizon import HorizonPlan, Kept
from recalljoin.quality.policy import BufferSizePolicy, make_policy
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack import RequiredSlack

if TYPE_CHECKING:
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile
    from recalljoin.spark.report import Report

PolicyChoice = str | Callable[[PolicySettings], BufferSizePolicy]
"""A policy's name, or what makes one."""

DEFAULT_POLICY = "slack"


@dataclass(frozen=True)
class PolicyPlan:
    """What makes the policy of a join, wherever one is needed."""

    settings: PolicySettings
    choice: PolicyChoice = DEFAULT_POLICY
    options: Mapping[str, Any] = field(default_factory=dict)
    learned: State | None = None
    """What the policy of an earlier run had learnt, if this one is to begin with it."""

    def make(self) -> BufferSizePolicy:
        """A policy that has seen nothing yet of this run."""
        if not isinstance(self.choice, str):
            return self.choice(self.settings)
        policy = make_policy(self.choice, self.settings, **self.options)
        if self.learned is not None:
            inner = policy.policy if isinstance(policy, Bounded) else policy
            assert isinstance(inner, RequiredSlack)
            inner.learn(self.learned)
        return policy


def plan_policy(
    settings: PolicySettings,
    *,
    recall: float | None,
    k: int | None,
    choice: PolicyChoice | None,
    options: Mapping[str, Any] | None,
) -> PolicyPlan:
    """See that slack, recall and policy fit together.

    Parameters
    ----------
    settings
        The target and how it is pursued.
    recall
        The recall asked for, if any.
    k
        The fixed slack asked for, if any, in the query's unit.
    choice, options
        The policy asked for, if any, and its options.

    Raises
    ------
    InvalidSetting
        When they contradict each other, or there is no such policy.
    """
    if (recall is None) == (k is None):
        given = "neither is" if k is None else "both are"
        message = f"a join needs either a `recall` to aim at or a fixed slack `k`; {given} given"
        raise InvalidSetting(message)
    if k is not None:
        if choice is not None or options:
            message = f"with a fixed slack `k` there is no use for a `policy`, got {choice!r}"
            raise InvalidSetting(message)
        return PolicyPlan(settings, "fixed", {"k": k})
    plan = PolicyPlan(settings, choice or DEFAULT_POLICY, dict(options or {}))
    plan.make()
    return plan


class Adaptation:
    """Feeds the policy with what batches have shown, one adaptation interval at a time.

    The same reports give the same slacks, so after a restart it is enough to feed it again.

    Parameters
    ----------
    plan
        What makes the policy.
    horizon
        What says how long tuples are remembered; None where the cell decides that.
    """

    def __init__(self, plan: PolicyPlan, horizon: HorizonPlan | None) -> None:
        self._interval = plan.settings.interval
        self._policy = plan.make()
        self._horizon = None if horizon is None else horizon.make()
        self._n_delivered = 0
        self._since: Profile | None = None
        self._next: int | None = None
        self.k = self._policy.k
        """Slack for the next batch."""

    @property
    def phase(self) -> str | None:
        """Whether K rests on little, on what is usual, or follows a change; None if not known."""
        return getattr(self._policy, "phase", None)

    def snapshot(self) -> State:
        """What the policy has learnt."""
        return self._policy.snapshot()

    @property
    def retention(self) -> int | None:
        """How long tuples are remembered from the next batch on; None where the cell decides."""
        return None if self._horizon is None else self._horizon.retention

    @property
    def is_limited(self) -> bool:
        """Whether the limit of bytes makes that shorter than delays ask for."""
        return self._horizon is not None and self._horizon.is_limited

    def observe(self, report: Report) -> None:
        """Take in a batch that has finished; at the end of an interval, let the policy choose.

        An interval ends when the fastest stream has come to its end. A batch that goes past
        several ends adapts once; the first batch with tuples adapts as well.
        """
        profile = report.profile
        self._since = profile if self._since is None else self._since + profile
        self._n_delivered += report.n_delivered
        latest = max(report.local_times)
        if latest == NEVER or (self._next is not None and latest < self._next):
            return
        if self._next is None:
            self._next = latest
        self._next += ((latest - self._next) // self._interval + 1) * self._interval
        self._policy.observe(self._since)
        self.k = self._policy.adapt()
        if self._horizon is not None:
            kept = Kept(report.n_kept, report.kept_bytes)
            self._horizon.observe(self._since, kept, n_delivered=self._n_delivered)
        self._since, self._n_delivered = None, 0

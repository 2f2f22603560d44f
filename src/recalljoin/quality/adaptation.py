"""When K is chosen anew, and what chooses it: the same for streaming queries and for recordings.

A join advances in *steps*: a step is one tuple where tuples arrive one by one, and one tick where
tuples arrive in ticks. After each step the adaptation clock tells whether an adaptation interval
has ended. If an interval has ended, the policy is shown its profile and chooses K, and the horizon
is chosen at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.errors import FunctionError, InvalidSetting, RecallJoinError
from recalljoin.quality.bounds import Bounded
from recalljoin.quality.null_needs import PreciseNulls
from recalljoin.quality.policies import make_policy
from recalljoin.quality.policy import BufferSizePolicy, lead_of, leap_of
from recalljoin.quality.profile import Profile
from recalljoin.quality.settings import PolicySettings
from recalljoin.quality.slack import RequiredSlack
from recalljoin.query.durations import MAX_TIME
from recalljoin.query.given import COUNT
from recalljoin.query.spelling import listed, shortened

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.horizon import Horizon, HorizonPlan, Kept
    from recalljoin.quality.policy import State

PolicyChoice = str | Callable[[PolicySettings], BufferSizePolicy]
"""A policy's name, or a factory that makes a policy."""

DEFAULT_POLICY = "slack"
_OF_A_POLICY: Final = ("name", "k", "observe", "adapt")
"""What no policy can do without."""


@dataclass(frozen=True)
class PolicyPlan:
    """Makes the policy of a join, wherever a new policy is needed."""

    settings: PolicySettings
    choice: PolicyChoice = DEFAULT_POLICY
    options: Mapping[str, Any] = field(default_factory=dict)
    learned: State | None = None
    """What the policy of an earlier run had learnt, if the new policy is to begin with that."""

    def make(self) -> BufferSizePolicy:
        """A new policy, which has seen nothing of this run."""
        if not isinstance(self.choice, str):
            return _made(self.choice, self.settings)
        policy = make_policy(self.choice, self.settings, **self.options)
        if self.learned is not None:
            inner = policy
            while isinstance(inner, Bounded | PreciseNulls):
                inner = inner.policy
            assert isinstance(inner, RequiredSlack)
            inner.learn(self.learned)
        return policy

    def adaptation(self, horizon: HorizonPlan | None) -> Adaptation:
        """A new adaptation of K; it chooses the horizon too, unless ``horizon`` is None."""
        return Adaptation(
            self.make(), self.settings.interval, None if horizon is None else horizon.make()
        )


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
        When these parameters contradict each other, or no policy has that name.
    """
    if (recall is None) == (k is None):
        given = "neither is" if k is None else "both are"
        message = f"a join needs either a `recall` to aim at or a fixed wait `k`; {given} given"
        raise InvalidSetting(message)
    if k is not None:
        if choice is not None or options:
            message = f"with a fixed wait `k` there is no use for a `policy`, got {choice!r}"
            raise InvalidSetting(message)
        return PolicyPlan(settings, "fixed", {"k": k})
    plan = PolicyPlan(settings, choice or DEFAULT_POLICY, dict(options or {}))
    plan.make()
    return plan


_OVERDUE = 10
"""A streaming query adapts K although its clock has not reached the end of an interval once the
base time has come this many intervals further."""


class AdaptationClock:
    """Tells after which steps K is adapted.

    The clock is the local time of the fastest stream. Intervals are counted from the timestamp of
    the first tuple; where tuples arrive in ticks, from the smallest timestamp of the first tick. A
    step in which the clock reaches the end of one or several intervals adapts K once.

    Parameters
    ----------
    interval
        Length of an adaptation interval, in the query's unit.

    Examples
    --------
    Intervals end at 10, 20, ...; the clock leaps over two of these ends.

    >>> clock = AdaptationClock(10)
    >>> clock.points(np.array([0, 9, 10, 11, 45]), earliest=0)
    array([3, 5])
    >>> clock.points(np.array([49, 50]), earliest=46)
    array([2])
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.next: int | None = None
        """Time at which the current interval ends; None before the first tuple."""

    def points(self, latest: Int64s, *, earliest: int) -> Int64s:
        """Where K is adapted among the next steps: for each adaptation, the number of steps before.

        Parameters
        ----------
        latest
            The clock after each step; :data:`~recalljoin.engine.times.NEVER` before any tuple.
        earliest
            Smallest timestamp in the first step that has tuples; FOREVER if no step has any. It is
            used only if the clock has not begun.
        """
        if self.next is None:
            # A join that goes on without its control log may know the time before its first tuple.
            if not len(latest) or latest[-1] == NEVER or earliest == FOREVER:
                return np.empty(0, dtype=np.int64)
            self.next = earliest + self.interval
        # How many ends of intervals the clock has reached after each step; the clock may be NEVER.
        n_ends = (np.maximum(latest, self.next - self.interval) - self.next) // self.interval + 1
        known = np.concatenate(([0], np.maximum.accumulate(n_ends)))
        self.next += int(known[-1]) * self.interval
        return np.flatnonzero(np.diff(known)) + 1


class Adaptation:
    """Feeds policy and horizon with what steps have shown, one adaptation interval at a time.

    The same steps give the same K, so after a restart it is enough to replay the steps.

    Parameters
    ----------
    policy
        Chooses K.
    interval
        Length of an adaptation interval, in the query's unit.
    horizon
        Chooses how long tuples are remembered; None if that is chosen elsewhere.
    """

    def __init__(self, policy: BufferSizePolicy, interval: int, horizon: Horizon | None) -> None:
        self.policy = policy
        self.clock = AdaptationClock(interval)
        self._horizon = horizon
        self._since: Profile | None = None
        self._n_delivered = 0
        # Base time when K was adapted last.
        self._adapted_at = NEVER
        self.seconds = 0.0
        """Seconds that the policy took for its last choice."""

    @property
    def k(self) -> int:
        """K of the next step."""
        k = self.policy.k
        if not COUNT.fits(k) or not 0 <= k <= MAX_TIME:
            message = (
                f"the policy `{self.policy.name}` has chosen {k!r} for K, which must be a whole "
                "number from 0 to 2**61, in the unit of the query's times"
            )
            raise FunctionError(message)
        # What numpy counts is no number to JSON.
        return int(k)

    @property
    def lead(self) -> int:
        """How far the base time may be ahead of the slowest source from the next step on."""
        return lead_of(self.policy)

    @property
    def leap(self) -> int:
        """By how much sources must run apart within one tick to be waited for at once."""
        return leap_of(self.policy)

    @property
    def phase(self) -> str | None:
        """Whether K rests on few periods, on what is usual, or follows a change; None: unknown."""
        return getattr(self.policy, "phase", None)

    @property
    def retention(self) -> int | None:
        """How long tuples are remembered from the next step on; None if chosen elsewhere."""
        return None if self._horizon is None else self._horizon.retention

    @property
    def is_limited(self) -> bool:
        """Whether the limit of bytes makes the horizon shorter than delays ask for."""
        return self._horizon is not None and self._horizon.is_limited

    def take(
        self, profile: Profile, kept: Kept, *, latest: int, earliest: int, n_delivered: int
    ) -> None:
        """Take in one step, and adapt if an interval has ended in this step, or is overdue.

        A tuple whose time is far ahead takes the clock of the fastest stream with it, which then
        stands still until all other tuples have come as far. Meanwhile the base time goes on, and
        with it K must.

        Parameters
        ----------
        profile
            What the step has shown.
        kept
            What is in windows and horizon after the step.
        latest, earliest
            The clock after the step, and the smallest timestamp in the step.
        n_delivered
            Tuples that arrived in the step, copies included.
        """
        self.observe(profile, n_delivered)
        has_ended = len(self.clock.points(np.array([latest]), earliest=earliest)) > 0
        if has_ended or self._is_overdue(profile.base_time):
            self.adapt(kept)

    def _is_overdue(self, base_time: int) -> bool:
        if self._adapted_at == NEVER:
            return False
        return base_time - self._adapted_at >= _OVERDUE * self.clock.interval

    def observe(self, profile: Profile, n_delivered: int) -> None:
        """Take in steps of one interval; the caller asks the clock when the interval ends."""
        self._since = profile if self._since is None else self._since + profile
        self._n_delivered += n_delivered

    def adapt(self, kept: Kept) -> Profile:
        """End the interval: choose K and horizon by its profile, and return the profile."""
        profile = self._since
        assert profile is not None, "an interval has at least one step"
        self._adapted_at = profile.base_time
        with _named(self.policy.name):
            self.policy.observe(profile)
            began = time.perf_counter()
            self.policy.adapt()
        self.seconds = time.perf_counter() - began
        if self._horizon is not None:
            self._horizon.observe(profile, kept, n_delivered=self._n_delivered)
        self._since, self._n_delivered = None, 0
        return profile

    def snapshot(self) -> State:
        """Everything that is remembered, including the interval that has not ended yet."""
        return {
            "policy": {"name": self.policy.name, "state": self.policy.snapshot()},
            "horizon": None if self._horizon is None else self._horizon.snapshot(),
            "ends": self.clock.next,
            "since": None if self._since is None else self._since.to_json(),
            "n_delivered": self._n_delivered,
            "adapted_at": self._adapted_at,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot; if another policy had written it, this policy begins anew."""
        if state["policy"]["name"] == self.policy.name:
            self.policy.restore(state["policy"]["state"])
        if self._horizon is not None and state["horizon"] is not None:
            self._horizon.restore(state["horizon"])
        self.clock.next = state["ends"]
        if state["since"] is not None:
            self._since = Profile.from_json(state["since"])
        self._n_delivered = state["n_delivered"]
        # Earlier releases did not note it.
        self._adapted_at = state.get("adapted_at", NEVER)


def _made(
    factory: Callable[[PolicySettings], BufferSizePolicy], settings: PolicySettings
) -> BufferSizePolicy:
    """The policy that a function of the user's makes."""
    with _named(getattr(factory, "__name__", type(factory).__name__)):
        policy = factory(settings)
    missing = [name for name in _OF_A_POLICY if not hasattr(policy, name)]
    if missing:
        message = (
            f"`policy` must make a policy, got {shortened(repr(policy))}, which has no "
            f"{listed(missing)}; recalljoin.quality.policy.BufferSizePolicy says what it must have"
        )
        raise InvalidSetting(message)
    return policy


@contextmanager
def _named(policy: str) -> Iterator[None]:
    """Errors within a policy say which one it was."""
    try:
        yield
    except RecallJoinError:
        raise
    except Exception as error:
        message = f"the policy `{policy}` failed: {type(error).__name__}: {error}"
        raise FunctionError(message) from error

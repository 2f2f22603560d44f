"""The seam between the join and the policy that chooses K.

A policy is fed one profile for each adaptation interval and says what K to use in the next
interval. Users choose a policy by its name; modules that hold policies register them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from recalljoin.engine.times import FOREVER
from recalljoin.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile

State = dict[str, Any]
"""What a policy remembers, as values that JSON can hold."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """The recall to expect of each K."""

    k: Int64s
    recall: Float64s


@runtime_checkable
class BufferSizePolicy(Protocol):
    """Chooses K, the slack of all streams.

    For every adaptation interval :meth:`observe` is called once, then :meth:`adapt`. No policy
    knows what happens in an interval before the interval has ended.
    """

    name: str
    """The name under which the policy is registered."""
    uses_slack: bool
    """Whether the engine must keep the histogram of required slack for the policy."""

    @property
    def k(self) -> int:
        """K in force: the initial K before the first adaptation, then the K chosen last."""

    @property
    def estimated_recall(self) -> float | None:
        """Recall the policy expects of ``k``; None if it expects nothing."""

    def observe(self, profile: Profile) -> None:
        """Take in the profile of the interval that has just ended."""

    def adapt(self) -> int:
        """Choose K for the next interval."""

    def forecast(self) -> Forecast | None:
        """What other values of K would give, as of the last adaptation; None if not known."""

    def snapshot(self) -> State:
        """Everything it remembers."""

    def restore(self, state: State) -> None:
        """Go on from a snapshot, as if never interrupted."""


@runtime_checkable
class ArrivalPolicy(BufferSizePolicy, Protocol):
    """A policy that does not wait for the end of an interval."""

    def arrive(self, delay: Int64s) -> Int64s:
        """K in force when each tuple arrives, given the delays up to and including its own."""


def lead_of(policy: BufferSizePolicy) -> int:
    """How far a policy lets the base time be ahead of the slowest source.

    FOREVER for a policy that does not look at sources, as the paper's and the baselines do not.
    """
    lead: int = getattr(policy, "lead", FOREVER)
    return lead


def leap_of(policy: BufferSizePolicy) -> int:
    """By how much sources must run apart within one tick for a policy to wait for them at once.

    FOREVER for a policy that does not look at sources.
    """
    leap: int = getattr(policy, "leap", FOREVER)
    return leap


Factory = Callable[..., BufferSizePolicy]
_F = TypeVar("_F", bound=Factory)

REGISTERED: dict[str, Factory] = {}


def register(name: str) -> Callable[[_F], _F]:
    """Make a policy known by name.

    The factory takes :class:`PolicySettings` first; its keyword-only arguments are the options that
    users may set.
    """

    def add(factory: _F) -> _F:
        assert name not in REGISTERED, f"two policies are called {name}"
        REGISTERED[name] = factory
        return factory

    return add


def check_options(faults: Mapping[str, bool]) -> None:
    """Raise if a rule is broken; keys are messages, values say whether the rule is broken."""
    broken = [message for message, is_broken in faults.items() if is_broken]
    if broken:
        raise InvalidSetting("; ".join(broken))

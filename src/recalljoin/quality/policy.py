"""The seam between the join and the policy that chooses K.

A policy is fed one profile for each adaptation interval and says what K to use in the next
interval. Users choose a policy by its name; modules that hold policies register them by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from recalljoin.errors import InvalidSetting
from recalljoin.quality.bounds import bounded
from recalljoin.quality.null_needs import with_precise_nulls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

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


Factory = Callable[..., BufferSizePolicy]
_F = TypeVar("_F", bound=Factory)

_REGISTERED: dict[str, Factory] = {}


def register(name: str) -> Callable[[_F], _F]:
    """Make a policy known by name.

    The factory takes :class:`PolicySettings` first; its keyword-only arguments are the options that
    users may set.
    """

    def add(factory: _F) -> _F:
        assert name not in _REGISTERED, f"two policies are called {name}"
        _REGISTERED[name] = factory
        return factory

    return add


def policy_names() -> tuple[str, ...]:
    """Names of all policies."""
    return tuple(sorted(_REGISTERED))


def make_policy(name: str, settings: PolicySettings, **options: Any) -> BufferSizePolicy:
    """Make a policy by name.

    Parameters
    ----------
    name
        One of :func:`policy_names`.
    settings
        Target, period, interval and so on. K is kept between ``min_wait`` and ``max_wait``.
    options
        Options that only this policy has, such as the ``k`` of ``fixed``.

    Raises
    ------
    InvalidSetting
        When no policy has this name, or an option is unknown or out of range.
    """
    if name not in _REGISTERED:
        message = f"`policy` must be one of {', '.join(policy_names())}, got {name!r}"
        raise InvalidSetting(message)
    factory = _REGISTERED[name]
    known = _options_of(factory)
    for option in options:
        if option not in known:
            has = "has no options" if not known else f"has {', '.join(f'`{o}`' for o in known)}"
            message = f"policy {name!r} has no option `{option}`; it {has}"
            raise InvalidSetting(message)
    for option, needed in known.items():
        if needed and option not in options:
            message = f"policy {name!r} needs its option `{option}`"
            raise InvalidSetting(message)
    if settings.initial_wait is not None and not getattr(factory, "takes_initial_wait", False):
        message = (
            f"policy {name!r} begins with the K it defines, so there is no use for `initial_wait`; "
            "leave it out, or take the policy 'slack'"
        )
        raise InvalidSetting(message)
    return bounded(with_precise_nulls(factory(settings, **options), settings), settings)


def _options_of(factory: Factory) -> dict[str, bool]:
    """Names of a factory's options, and whether each must be given."""
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in inspect.signature(factory).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def check_options(faults: Mapping[str, bool]) -> None:
    """Raise if a rule is broken; keys are messages, values say whether the rule is broken."""
    broken = [message for message, is_broken in faults.items() if is_broken]
    if broken:
        raise InvalidSetting("; ".join(broken))

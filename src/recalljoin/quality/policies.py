"""All policies, by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from recalljoin.errors import InvalidSetting
from recalljoin.quality import baselines, paper, slack  # noqa: F401 - they register their policies
from recalljoin.quality.bounds import bounded
from recalljoin.quality.null_needs import with_precise_nulls
from recalljoin.quality.policy import REGISTERED

if TYPE_CHECKING:
    from recalljoin.quality.policy import BufferSizePolicy, Factory
    from recalljoin.quality.settings import PolicySettings


def policy_names() -> tuple[str, ...]:
    """Names of all policies."""
    return tuple(sorted(REGISTERED))


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
    if name not in REGISTERED:
        message = f"`policy` must be one of {', '.join(policy_names())}, got {name!r}"
        raise InvalidSetting(message)
    factory = REGISTERED[name]
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

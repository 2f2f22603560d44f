"""Options by name: an unknown one is answered with the option that was probably meant."""

from __future__ import annotations

import functools
import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from recalljoin.errors import InvalidSetting
from recalljoin.query.spelling import way_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_T = TypeVar("_T", bound="Callable[..., Any]")


def named_options(call: _T) -> _T:
    """Let a function or class refuse options it does not have, all in one message.

    Python would raise a TypeError that names the first of them and no other option.

    Raises
    ------
    InvalidSetting
        By the function or class, when it is called with an unknown option.
    """
    known = list(inspect.signature(call).parameters)

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            refuse_unknown(call.__name__, known, [name for name in options if name not in known])
            return function(*args, **options)

        return called

    if not isinstance(call, type):
        return checked(call)  # type: ignore[return-value]
    setattr(call, "__init__", checked(getattr(call, "__init__")))  # noqa: B009, B010 - of a class
    return call


def refuse_unknown(
    call: str,
    known: Sequence[str],
    unknown: Iterable[str],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse unknown options, all in one message.

    Parameters
    ----------
    call
        What was called.
    known
        The options that it has.
    unknown
        The options that it was given and does not have.
    elsewhere
        For names that are no option here but are stated elsewhere: where.

    Raises
    ------
    InvalidSetting
        If there is an unknown option.
    """
    faults = [
        f"`{call}` has no option `{name}`; "
        + (elsewhere.get(name) or way_out(name, known, known_as="options"))
        for name in unknown
    ]
    if faults:
        raise InvalidSetting("; ".join(faults))

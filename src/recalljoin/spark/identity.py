"""Whether a checkpoint belongs to this join and this release."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from recalljoin.errors import InvalidSetting, StateVersionError
from recalljoin.query.durations import NANOSECONDS_PER, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAY_CHANGE = ("cells", "groups")
"""What releases before this one wrote beside the rest, although it may change."""
_DEFAULTS: Final = {"how": "inner", "emit": "ordered", "hot_keys": {}, "sources": {}}
"""What holds where an identity says nothing."""
_WINDOW: Final = re.compile(r"window (\d+) (s|ms|us|ns)\b")
_COLUMN: Final = re.compile(
    r"Column\(stream=(\d+), name='([^']*)', type=\w+\((?:[^()]|\([^()]*\))*\)\)"
)
_COMPUTED: Final = re.compile(r"(^|, )=([^ ]+)")


def check_layout(written: int | None, now: int) -> None:
    """Refuse to read a state that another release has written in another layout.

    Raises
    ------
    StateVersionError
        When the state has a layout this release cannot read.
    """
    if written != now:
        message = (
            f"the checkpoint's state has layout {written}, this release reads layout {now}; go on "
            "with the release that wrote it, or start with a new checkpoint"
        )
        raise StateVersionError(message)


def check_identity(written: str, now: str) -> None:
    """Refuse to go on with the state of another join.

    Raises
    ------
    InvalidSetting
        When the checkpoint was written for another join.
    """
    old, new = (
        {name: value for name, value in json.loads(text).items() if name not in _MAY_CHANGE}
        for text in (written, now)
    )
    changed = "\n  ".join(
        change
        for name in {**old, **new}
        # As texts, because the order of streams counts: state and offsets go by their numbers.
        if json.dumps(old.get(name)) != json.dumps(new.get(name))
        for change in _changes(name, old, new)
    )
    if not changed:
        return
    message = (
        f"the checkpoint belongs to another join; changed:\n  {changed}\n"
        "On an old checkpoint recall, period, interval, max_wait, policy, idle_after, flush and "
        "the numbers of cells and groups may change; streams and their order, windows, condition "
        "and columns may not. Put them back as they were, or start with a new checkpoint and a new "
        "control log"
    )
    raise InvalidSetting(message)


def _changes(name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """What has changed in one part of an identity, in words of the caller of `rj.join`."""
    was, now = (each.get(name, _DEFAULTS.get(name)) for each in (old, new))
    if name == "condition":
        was, now = (
            _condition(each.get(name), list(each.get("streams", ()))) for each in (old, new)
        )
    elif name == "hot_keys":
        was, now = (each or "none" for each in (was, now))
    elif isinstance(was, dict) and isinstance(now, dict):
        if list(was) == list(now):
            for stream in was:
                if was[stream] != now[stream]:
                    parts = (_text(was[stream]), _text(now[stream]))
                    yield f"`{name}` of `{stream}`: was {parts[0]}, is {parts[1]}"
            return
        was, now = (list(each) or "none" for each in (was, now))
    yield f"`{name}`: was {_text(was)}, is {_text(now)}"


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    text = _WINDOW.sub(lambda match: "window " + _length(*match.groups()), str(value))
    return _COMPUTED.sub(lambda match: match[1] + _dotted(match[2]), text)


def _length(number: str, unit: str) -> str:
    return describe(int(number) * NANOSECONDS_PER[unit])  # type: ignore[index]


def _condition(written: object, streams: list[str]) -> object:
    if not isinstance(written, list):
        return written

    def column(match: re.Match[str]) -> str:
        name = match[2]
        return _dotted(name[1:]) if name.startswith("=") else f"{streams[int(match[1])]}.{name}"

    return [_COLUMN.sub(column, part) for part in written] or "none"


def _dotted(name: str) -> str:
    """The expression for which a column stands; its name has a point of another kind."""
    return name.replace("\u2024", ".")

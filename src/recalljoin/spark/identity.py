"""Whether a checkpoint belongs to this join and this release."""

from __future__ import annotations

import json

from recalljoin.errors import InvalidSetting, StateVersionError

_MAY_CHANGE = ("cells", "groups")
"""What releases before this one wrote beside the rest, although it may change."""


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
    # As texts, because the order of streams counts: state and offsets go by their numbers.
    changed = "\n  ".join(
        f"`{name}`: was {old.get(name)}, is {new.get(name)}"
        for name in {**old, **new}
        if json.dumps(old.get(name)) != json.dumps(new.get(name))
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

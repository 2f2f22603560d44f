"""What a pipeline is told to do besides joining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from recalljoin.errors import InvalidSetting
from recalljoin.query.durations import MAX_TIME

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What an operator instance does besides joining.

    Parameters
    ----------
    arrival
        ``"tuple"``: tuples arrive one by one, as in the paper. ``"tick"``: all tuples of a tick
        (a micro-batch, or a slice of one) are there at once.
    rows
        Produce the results themselves. If not, only count the results, without enumerating them
        where the condition allows that.
    folded
        Let results out as :class:`~recalljoin.engine.folding.Folded`, every tuple once. The results
        of a tick then come in any order.
    lost
        Count the results lost with late tuples.
    slack
        Count the results by the slack they require.
    retention
        How long a tuple is kept after it has left its window, to count lost results with, in the
        query's unit; by default as long as the largest window. ``Pipeline.remember_for`` changes
        the retention of a running pipeline.
    """

    arrival: Literal["tuple", "tick"] = "tuple"
    rows: bool = True
    folded: bool = False
    lost: bool = True
    slack: bool = False
    retention: int | None = None

    def __post_init__(self) -> None:
        if self.arrival not in ("tuple", "tick"):
            message = f"`arrival` must be 'tuple' or 'tick', got {self.arrival!r}"
            raise InvalidSetting(message)
        if self.retention is not None:
            check_duration("retention", self.retention)


def check_duration(name: str, value: int) -> None:
    """Refuse a duration that the engine cannot count with.

    Raises
    ------
    InvalidSetting
        Naming the parameter.
    """
    if not 0 <= value <= MAX_TIME:
        message = f"`{name}` must be between 0 and 2**61, got {value!r}"
        raise InvalidSetting(message)


def slack_of(k: int | Int64s, n: int) -> Int64s:
    """The slack of each of ``n`` arrivals or ticks, from one number or ``n`` numbers.

    Raises
    ------
    InvalidSetting
        When the engine cannot count with one of them.
    """
    if isinstance(k, int):
        check_duration("k", k)
    slack = np.broadcast_to(np.asarray(k, dtype=np.int64), (n,))
    if n and not (int(slack.min()) >= 0 and int(slack.max()) <= MAX_TIME):
        message = f"`k` must be between 0 and 2**61, got {k!r}"
        raise InvalidSetting(message)
    return np.ascontiguousarray(slack)

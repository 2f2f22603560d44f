"""How long tuples are remembered behind their windows, so that losses can be counted.

What was lost with a late tuple can be counted only while its partners are remembered. Remembering
a tuple takes little memory, but not none; so the horizon follows the delays. The horizon covers
nearly all tuples that come, far more than the recall asked for needs, and is cut where the
remembered tuples would take more memory than the limit.

    tuples by how far they come behind the base time

    |##
    |####
    |########_____.___._________________________.______________|____________._____
     0                                                       horizon        beyond it
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.slack_bins import ENOUGH
from recalljoin.engine.times import NEVER
from recalljoin.query.durations import MAX_TIME
from recalljoin.query.sizes import n_bytes

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile
    from recalljoin.quality.settings import PolicySettings

MEMORY = 10
"""Periods over which delays are remembered."""
LEFT_OUT = 20
"""How many times smaller the share of tuples beyond the horizon must be than 1 - recall."""
HEADROOM = 1.25
"""The horizon is this many times as long as the delays that it covers."""
DEFAULT_LIMIT = n_bytes("256 MB", name="horizon_memory")
"""Bytes of tuples remembered behind their windows, over all cells."""
_FALL = 0.5
"""The horizon is shortened only when this part of it would be enough, so that it changes seldom."""


class Kept(NamedTuple):
    """What cells hold in windows and horizon, copies included."""

    n_tuples: int
    n_bytes: int


@dataclass(frozen=True)
class HorizonPlan:
    """Makes the horizon of a join, wherever a new horizon is needed.

    Parameters
    ----------
    settings
        Recall, period and windows.
    fixed
        How long tuples are remembered, whatever their delays; None to follow the delays.
    limit
        Most bytes of tuples remembered behind their windows; a lower limit shortens the horizon.
    """

    settings: PolicySettings
    fixed: int | None = None
    limit: int = DEFAULT_LIMIT

    def make(self) -> Horizon:
        """A horizon that has seen nothing yet."""
        return Horizon(self)


class Horizon:
    """Chooses how long tuples are remembered, from what is seen of their delays.

    Parameters
    ----------
    plan
        Recall, period, windows and limits that decide.
    """

    def __init__(self, plan: HorizonPlan) -> None:
        settings = plan.settings
        self._plan = plan
        self._shortest = max(settings.period, *settings.windows)
        self._share = (1 - settings.recall) / LEFT_OUT
        self.retention = self._shortest if plan.fixed is None else plan.fixed
        """How long tuples are remembered after they have left their windows."""
        self.is_limited = False
        """Whether the limit of bytes makes the horizon shorter than delays ask for."""
        # Stretches of about a period: when each began, its tuples by how far behind they came, and
        # the tuples delivered over all cells.
        self._blocks: deque[tuple[int, Int64s, int]] = deque()
        self._latest = NEVER

    def observe(self, profile: Profile, kept: Kept, *, n_delivered: int) -> None:
        """Take in what a stretch of time has shown, and choose the horizon.

        Parameters
        ----------
        profile
            The profile of the stretch.
        kept
            What is in memory now.
        n_delivered
            Tuples that arrived in the stretch, copies included.
        """
        if self._plan.fixed is not None:
            return
        clock = int(profile.ends.max())
        if clock == NEVER:
            return
        self._latest = max(self._latest, clock)
        self._remember(clock, profile.behind, n_delivered)
        self._choose(kept)

    def _remember(self, clock: int, behind: Int64s, n_delivered: int) -> None:
        period = self._plan.settings.period
        if not self._blocks or clock >= self._blocks[-1][0] + period:
            self._blocks.append((clock, behind, n_delivered))
        else:
            begin, known, n = self._blocks[-1]
            self._blocks[-1] = begin, _added(known, behind), n + n_delivered
        while len(self._blocks) > 1 and self._blocks[1][0] <= clock - MEMORY * period:
            self._blocks.popleft()

    def _choose(self, kept: Kept) -> None:
        wanted = max(self._shortest, rounded_up(int(HEADROOM * self._covering())))
        wanted = min(wanted, MAX_TIME)
        affordable = self._affordable(kept)
        self.is_limited = affordable < wanted
        if self.is_limited:
            self.retention = affordable
        elif wanted > self.retention or wanted <= _FALL * self.retention:
            self.retention = wanted
        self.retention = min(self.retention, affordable)

    def _covering(self) -> int:
        """The delay that no tuples exceed but the share that may be left out of each stream."""
        behind = self._blocks[0][1]
        for _, more, _ in list(self._blocks)[1:]:
            behind = _added(behind, more)
        until = np.cumsum(behind, axis=1)
        total = until[:, -1:]
        # The smallest bin up to which enough tuples came, for the stream that needs the largest.
        enough = until >= np.ceil((1 - self._share) * total)
        return int(ENOUGH[np.argmax(enough, axis=1).max()])

    def _affordable(self, kept: Kept) -> int:
        """The longest horizon whose tuples are expected to fit into the limit of bytes."""
        n_delivered = sum(n for _, _, n in self._blocks)
        span = self._latest - self._blocks[0][0]
        if not kept.n_tuples or not n_delivered or span < self._plan.settings.period // 10:
            return MAX_TIME
        each = kept.n_bytes / kept.n_tuples
        longest = self._plan.limit * span / (each * n_delivered)
        return rounded_down(int(min(longest, MAX_TIME)))

    def snapshot(self) -> State:
        """Everything it remembers."""
        blocks = []
        for begin, behind, n in self._blocks:
            rows = [[np.flatnonzero(row).tolist(), row[row != 0].tolist()] for row in behind]
            blocks.append([begin, rows, n])
        return {
            "retention": self.retention,
            "limited": self.is_limited,
            "latest": self._latest,
            "blocks": blocks,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot; a retention fixed by the plan is not overwritten."""
        if self._plan.fixed is not None:
            return
        self.retention, self.is_limited = state["retention"], state["limited"]
        self._latest = state["latest"]
        self._blocks.clear()
        for begin, rows, n in state["blocks"]:
            width = 1 + max((places[-1] for places, _ in rows if places), default=0)
            behind = np.zeros((len(rows), width), dtype=np.int64)
            for row, (places, counts) in zip(behind, rows, strict=True):
                row[places] = counts
            self._blocks.append((begin, behind, n))


def rounded_up(length: int) -> int:
    """The next larger length on a scale whose steps are an eighth to a sixteenth of the length.

    Examples
    --------
    >>> rounded_up(0), rounded_up(15), rounded_up(1000), rounded_up(1025)
    (0, 15, 1024, 1152)
    """
    return -rounded_down(-length)


def rounded_down(length: int) -> int:
    """The next smaller length on the scale of :func:`rounded_up`.

    Examples
    --------
    >>> rounded_down(15), rounded_down(1023), rounded_down(1025)
    (15, 960, 1024)
    """
    step = max(0, (abs(length)).bit_length() - 4)
    return length >> step << step


def _added(one: Int64s, other: Int64s) -> Int64s:
    longer, shorter = (one, other) if one.shape[1] >= other.shape[1] else (other, one)
    total = longer.copy()
    total[:, : shorter.shape[1]] += shorter
    return total

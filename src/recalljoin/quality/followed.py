"""The sources of a running join: their clocks, and who holds the join up now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.engine.progress import Held
from recalljoin.engine.source_clocks import MOST
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.source_lags import gaps_of
from recalljoin.quality.told_sources import (
    SourceName,
    packed,
    reached_by,
    told_by_name,
    unpacked,
)

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.quality.source_lags import SourcePlan

MOST_NAMES = 2 * MOST
"""Names that are remembered; when there are more, those of forgotten sources are dropped."""


class FollowedSources:
    """Clocks of all sources.

    Parameters
    ----------
    plan
        How sources are followed at first; each tick may say otherwise.
    """

    def __init__(self, plan: SourcePlan) -> None:
        self.clocks = plan.clocks()
        self.lead = FOREVER
        """How far the base time might be ahead of the slowest source in the last tick."""
        self._gap: int | None = None
        self.slowest = NEVER
        """Clock of the slowest source that matters; NEVER if there is none."""
        self._holder = 0
        self.names: dict[int, SourceName] = {}
        """Names of sources, where they are told."""

    @property
    def held_by(self) -> str | None:
        """Name of the slowest source that matters, if it is known."""
        who = None if self.slowest == NEVER else self.names.get(self._holder)
        return None if who is None else who.shown

    @property
    def told(self) -> dict[str, Any]:
        """What is reported of sources after a tick."""
        return {
            "lead": None if self.lead == FOREVER else self.lead,
            "held_by": self.held_by,
            "slowest": self.slowest,
            "n_sources": self.clocks.n_sources,
            **self._told_of_each(),
        }

    def _told_of_each(self) -> dict[str, Any]:
        if not self.names:
            # All cells but the first follow sources without their names, and one cell is to tell.
            return {}
        numbers, clocks = self.clocks.furthest_behind(MOST)
        return {
            "furthest": told_by_name(numbers.tolist(), clocks.tolist(), self.names),
            "source_clocks": reached_by(clocks),
        }

    def follow(
        self,
        plan: SourcePlan,
        lead: int,
        leap: int,
        tick: Int64s,
        marks: tuple[Int64s, Int64s, Int64s],
        *,
        fronts: Int64s,
    ) -> Held:
        """Let ticks pass.

        Parameters
        ----------
        plan, lead
            How sources are followed, and how far the base time may be ahead of the slowest.
        leap
            If sources run apart by more than this in a tick, the base time may not be ahead in that
            tick: so do partitions of a backlog after a stop, before anybody could see it.
        tick, marks
            The ticks of tuples, counted from 0, and their sources with time and number of tuples.
        fronts
            Clock of the slowest stream after each tick.
        """
        self.clocks.epoch, self.clocks.spare = plan.epoch, plan.spare
        before = self.slowest
        slowest, holder = self.clocks.advance(tick, *marks, fronts)
        self.slowest, self._holder = int(slowest[-1]), int(holder[-1])
        if len(self.names) > MOST_NAMES:
            known = set(self.clocks.numbers.tolist())
            self.names = {number: name for number, name in self.names.items() if number in known}
        gaps = gaps_of(fronts, slowest)
        grown = np.diff(gaps, prepend=gaps[0] if self._gap is None else self._gap)
        # Before all streams have begun, sources are not apart.
        grown[1:][fronts[:-1] == NEVER] = 0
        self._gap = None if fronts[-1] == NEVER else int(gaps[-1])
        leads = np.where(grown > leap, 0, lead)
        self.lead = int(leads[-1])
        return Held(slowest, leads, plan.max_wait, before)

    def to_text(self) -> str:
        """Everything that is remembered."""
        content = {
            "clocks": self.clocks.snapshot(),
            "slowest": self.slowest,
            "holder": self._holder,
            "gap": self._gap,
            "names": [[number, who.name] for number, who in self.names.items()],
            "streams": [who.stream for who in self.names.values()],
        }
        return packed(content)

    def restore(self, text: str) -> None:
        """Go on from :meth:`to_text`."""
        content = unpacked(text)
        self.clocks.restore(content["clocks"])
        self.slowest, self._holder = content["slowest"], content["holder"]
        self._gap = content.get("gap")
        names = content["names"]
        streams = content.get("streams", [None] * len(names))
        self.names = {
            number: SourceName(name, stream)
            for (number, name), stream in zip(names, streams, strict=True)
        }

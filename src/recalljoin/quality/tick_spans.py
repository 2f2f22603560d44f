"""Which stretches of time tell anything about delays.

Tuples that arrive in one tick (a micro-batch, or a slice of one) are joined together, so the
disorder among them cannot be seen. With small ticks disorder is seen all the same, because most
late tuples come some ticks later. After a stop, however, a query may read ten minutes of backlog as
one batch, in which nothing is late at all. A policy that learnt from this batch would forget how
long to wait.

    event time of each batch     1 s   1 s   1 s   ......... 600 s .........   1 s   1 s
    tells something about delays  yes   yes   yes             no                yes   yes
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recalljoin.quality.policy import State
    from recalljoin.quality.profile import Profile

LONG = 5
"""A tick that covers so many times the usual event time tells nothing about delays."""
REMEMBERED = 31
"""Number of ticks that decide what is usual."""
FIRST = 3
"""Fewest ticks that decide what is usual. Before that, every long tick is taken for a backlog."""
ACCEPTED = 100
"""After so many long ticks in a row, long ticks are usual. A backlog is over sooner."""


class TickSpans:
    """Tells ticks of the usual length from ticks that cover far more event time.

    Parameters
    ----------
    longest_at_first
        Until the usual length is known, a tick longer than this is taken for a backlog.
    """

    def __init__(self, longest_at_first: int) -> None:
        self.longest_at_first = longest_at_first
        self._usual: deque[int] = deque(maxlen=REMEMBERED)
        self._long: deque[int] = deque(maxlen=ACCEPTED)

    @property
    def usual(self) -> int:
        """Event time that a tick covers usually; 0 where tuples arrive one by one."""
        return int(median(self._usual)) if self._usual else 0

    def tell_delays(self, profile: Profile) -> bool:
        """Whether the delays of a stretch mean anything; to be asked once for each stretch."""
        span = profile.tick_span
        if span <= 0:
            return True
        if len(self._usual) < FIRST:
            # Whether the first ticks were usual or a backlog is not known before there are a few.
            self._usual.append(span)
            return span <= self.longest_at_first
        if span <= LONG * self.usual:
            self._usual.append(span)
            self._long.clear()
            return True
        self._long.append(span)
        if len(self._long) == ACCEPTED:
            self._usual = deque(self._long, maxlen=REMEMBERED)
            self._long.clear()
        return False

    def snapshot(self) -> State:
        """Everything it remembers."""
        return {"usual": list(self._usual), "long": list(self._long)}

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        self._usual = deque(state["usual"], maxlen=REMEMBERED)
        self._long = deque(state["long"], maxlen=ACCEPTED)

"""The K that is kept through a calm, because disorder is expected back.

Jobs that upload once an hour, collections of garbage, and phones that change cells make tuples late
in bursts, with a calm between two bursts. K must not come down in the calm if the next burst is
going to need it. When disorder has come back, the calm before it shows how long a calm can be. So
disorder is expected back until a calm has lasted twice as long as the longest calm that was
followed by disorder. What has never come back is not expected back.

    stretches that need a quarter of K or more  ###.....###....###...........
    calm before disorder came back                   5       4     longest: 5
    calm now                                                       11 > 2 * 5: given up

Calm means less than a quarter of K, since no burst is exactly as large as the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.quality.period_needs import enough_for
from recalljoin.quality.slack_by_time import SLOTS_PER_PERIOD

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s

ALIKE = 0.25
"""Disorder is back when a stretch needs this part of K. Where needs merely vary, as on the paper's
streams, stretches of less than half of K follow one another for half a period now and then."""
PATIENCE = 2
"""Disorder is expected back for so many times the longest calm before it came back. If calms are
exponential, the next one is longer than twice the longest of n with probability 2/((n + 1)(n + 2)):
one in three after one return, and one in twenty after five."""
SHORTEST = SLOTS_PER_PERIOD // 2
"""Slots in the shortest calm that counts: nothing is forgotten in a shorter one, and where needs
merely vary there is many a short one."""


def kept_for_returns(stretches: Int64s, periods: Int64s, *, share: float) -> int:
    """The smallest K that was enough for a share of the periods, if it is going to be needed again.

    Disorder that fewer periods suffer from is not waited for, however sure it is to come back. When
    the largest disorder is given up, only the time since then counts, in which smaller disorder may
    have come back.

    Parameters
    ----------
    stretches, periods
        The K that stretches and periods needed, one of each for every slot, oldest first. The
        newest of both end with the same slot.
    share
        Share of the periods for which K must be enough. A larger share waits longer.

    Returns
    -------
    int
        0 if no disorder is expected back.

    Examples
    --------
    Stretches and periods are alike here. The calm has lasted for 40 slots, and then disorder was
    back. After 80 slots of the next calm disorder is expected back, after 81 it is no longer.

    >>> burst, calm = [9] * 5, [1] * 40
    >>> needs = np.array(burst + calm + burst + [1] * 81)
    >>> kept_for_returns(needs[:-1], needs[:-1], share=0.95)
    9
    >>> kept_for_returns(needs, needs, share=0.95)
    0
    """
    while len(periods):
        k = enough_for(periods, share)
        (disturbed,) = np.nonzero(stretches >= ALIKE * k)
        if k <= 0 or not len(disturbed):
            return 0
        longest = int(np.diff(disturbed).max(initial=1)) - 1
        now = len(stretches) - 1 - int(disturbed[-1])
        if longest >= SHORTEST and now <= PATIENCE * longest:
            return k
        # Periods that began after the last disturbed stretch: one of them has ended if the calm has
        # lasted for a period.
        periods = periods[len(periods) - max(0, now - SLOTS_PER_PERIOD) :]
        stretches = stretches[len(stretches) - now :]
    return 0

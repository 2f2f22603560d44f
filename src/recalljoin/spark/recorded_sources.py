"""The sources of a recording: who sent each tuple, and who holds the join up in each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recalljoin.quality.followed import FollowedSources
from recalljoin.spark.source_parcels import names_in, numbers_of, source_table

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.arrivals import Arrivals
    from recalljoin.engine.progress import Held
    from recalljoin.quality.source_lags import SourcePlan
    from recalljoin.query.bound_query import BoundQuery


class RecordedSources:
    """Clocks of all sources, which follow the ticks of a recording.

    Parameters
    ----------
    query
        Its streams say which column has the source.
    plan
        How sources are followed.
    """

    def __init__(self, query: BoundQuery, plan: SourcePlan) -> None:
        self._query, self._plan = query, plan
        self._followed = FollowedSources(plan)

    def take(self, arrivals: Arrivals, tick: Int64s, numbers: Int64s, fronts: Int64s) -> None:
        """Get ready for ticks.

        Parameters
        ----------
        arrivals, tick
            The tuples, and for each the tick, counted from 0.
        numbers
            Numbers of the ticks in the recording. Ticks that change nothing are left out: the tick
            before stands for them.
        fronts
            Clock of the slowest stream after each tick.
        """
        self._tick, self._ts, self._fronts = tick, arrivals.ts, fronts
        self._lengths = np.diff(numbers, append=numbers[-1] + 1)
        self._source = np.empty(len(tick), dtype=np.int64)
        for s, table in enumerate(arrivals.tables):
            mine = arrivals.stream == s
            self._source[mine] = numbers_of(self._query, s, table)[arrivals.row[mine]]
            named = source_table(self._query, s, table, arrivals.ts[mine])
            self._followed.names.update(names_in(s, named))

    def held(self, begin: int, end: int, lead: int, leap: int) -> Held:
        """How sources hold the join up in the next ticks, from ``begin`` to before ``end``."""
        first, last = np.searchsorted(self._tick, [begin, end])
        tuples = slice(int(first), int(last))
        marks = (self._source[tuples], self._ts[tuples], np.ones(last - first, dtype=np.int64))
        held = self._followed.follow(
            self._plan,
            lead,
            leap,
            self._tick[tuples] - begin,
            marks,
            fronts=self._fronts[begin:end],
        )
        return held._replace(lengths=self._lengths[begin:end])

    @property
    def told(self) -> dict[str, Any]:
        """What is reported of sources after a tick."""
        return self._followed.told

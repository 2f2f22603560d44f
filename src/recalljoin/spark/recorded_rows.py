"""The rows of a recording: rows with usable times, and rows that are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from recalljoin.engine.times import FAR_AHEAD, NEVER, NULL_TIME, TIME_OUT_OF_RANGE, times_of
from recalljoin.query.durations import MAX_TIME
from recalljoin.spark.ahead import spans_of
from recalljoin.spark.packing import REASON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.spark.cell import CellPlan


@dataclass
class Rows:
    """Usable rows of each stream with times and ticks, and the rows refused."""

    tables: list[pa.Table]
    times: list[Int64s]
    ticks: list[Int64s]
    refused: list[tuple[int, str, Int64s, pa.Table]] = field(default_factory=list)
    """Stream, reason, ticks and rows."""

    def refuse(self, s: int, reason: str, rows: NDArray[np.bool_]) -> None:
        """Take out rows of a stream."""
        if not rows.any():
            return
        keep = ~rows
        taken = self.tables[s].filter(pa.array(rows))
        taken = taken.append_column(REASON, pa.array([reason] * taken.num_rows))
        self.refused.append((s, reason, self.ticks[s][rows], taken))
        self.tables[s] = self.tables[s].filter(pa.array(keep)).combine_chunks()
        self.times[s], self.ticks[s] = self.times[s][keep], self.ticks[s][keep]

    def refused_in(self, tick: int) -> tuple[tuple[dict[str, int], ...], list[list[pa.Table]]]:
        """For each stream, of the rows refused in a tick, their number by reason and the rows."""
        counts: tuple[dict[str, int], ...] = tuple({} for _ in self.tables)
        tables: list[list[pa.Table]] = [[] for _ in self.tables]
        for s, reason, ticks, rows in self.refused:
            here = ticks == tick
            if here.any():
                counts[s][reason] = int(here.sum())
                tables[s].append(rows.filter(pa.array(here)))
        return counts, tables


class Recorded:
    """What recordings in ticks and recordings of single tuples have in common.

    Parameters
    ----------
    plan
        What all cells have in common.
    start, length
        When the first tick begins, in milliseconds since 1970, and the length of a tick.
    """

    def __init__(self, plan: CellPlan, *, start: int, length: int) -> None:
        self.plan = plan
        self._start, self._length = start, length
        self._confirmed = [0] * len(plan.query.streams)
        self._n_reports = 0

    def clock(self, tick: Int64s | int) -> Int64s | int:
        """When each tick begins, in milliseconds since 1970."""
        return self._start + tick * self._length

    def usable(
        self, tables: list[pa.Table], ticks: list[Int64s], local_times: Sequence[int]
    ) -> Rows:
        """Rows with usable times, and the rows refused."""
        query = self.plan.query
        rows = Rows(list(tables), [], list(ticks))
        for s, stream in enumerate(query.streams):
            ts, known = times_of(tables[s].column(stream.time), query.unit, query.time_unit)
            rows.times.append(ts)
            rows.refuse(s, NULL_TIME, ~known)
            ts = rows.times[s]
            rows.refuse(s, TIME_OUT_OF_RANGE, (ts < -MAX_TIME) | (ts > MAX_TIME))
        self._refuse_far_ahead(rows, list(local_times))
        return rows

    def _refuse_far_ahead(self, rows: Rows, local_times: list[int]) -> None:
        rule = self.plan.ahead
        if rule is None or self._is_near(rows, local_times):
            return
        limits: dict[tuple[int, int], int] = {}
        ticks = np.unique(np.concatenate(rows.ticks))
        edges = [np.searchsorted(tick, [ticks, ticks + 1]) for tick in rows.ticks]
        for n, tick in enumerate(ticks.tolist()):
            spans = {}
            for s, ts in enumerate(rows.times):
                first, last = edges[s][:, n]
                if last > first:
                    spans[s] = spans_of(ts[first:last], rule.max_ahead)
            clock = int(self.clock(tick))
            for s, verdict in rule.judge(spans, local_times, self._confirmed, clock).items():
                self._confirmed[s] = verdict.confirmed
                local_times[s] = max(local_times[s], verdict.mark)
                if verdict.limit is not None:
                    limits[s, tick] = verdict.limit
        for s in range(len(rows.tables)):
            ahead = np.zeros(len(rows.times[s]), dtype=np.bool_)
            for (of_stream, tick), limit in limits.items():
                if of_stream == s:
                    ahead |= (rows.ticks[s] == tick) & (rows.times[s] >= limit)
            rows.refuse(s, FAR_AHEAD, ahead)

    def _is_near(self, rows: Rows, local_times: Sequence[int]) -> bool:
        """Whether no row can be too far ahead: all are within one span after their stream."""
        rule = self.plan.ahead
        assert rule is not None
        for ts, local in zip(rows.times, local_times, strict=True):
            if len(ts) and (
                local == NEVER or ts.max() // rule.max_ahead > local // rule.max_ahead + 1
            ):
                return False
        for s, ts in enumerate(rows.times):
            self._confirmed[s] = max(self._confirmed[s] - len(ts), 0)
        return True

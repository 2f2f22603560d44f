"""Recall of periods that are over, found while the log of a join is read batch by batch."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.settled_recall import SettledRecall

if TYPE_CHECKING:
    from recalljoin.quality.profile import Profile
    from recalljoin.spark.report import Report


class _Batch(NamedTuple):
    """A batch whose recall may still change, or is needed for those that may."""

    place: int
    watermark: int
    before: int
    """Watermark of the batch before it."""
    profile: Profile


class Settling:
    """Remembers the batches of the last periods, and says what their recall has settled at.

    What is found of a batch is found once: from when the horizon has passed, over the batches of
    the periods around it. The progress of a join looks at all its batches instead, and may know of
    single tuples that came even later.
    """

    def __init__(self) -> None:
        self._batches: deque[_Batch] = deque()
        self._of: tuple[int, int] | None = None
        self._last: Report | None = None
        self._settled = -1
        self._before = int(NEVER)

    def observe(self, place: int, report: Report) -> None:
        """Take in a batch, which has the given place among all batches."""
        of = (report.period, report.profile.bucket)
        if self._of != of:
            # A restart may have changed the period: then what came before is not known.
            self._batches.clear()
            self._of = of
        self._batches.append(_Batch(place, report.watermark, self._before, report.profile))
        self._before = report.watermark
        self._last = report

    def settled(self) -> dict[int, float]:
        """The recall of batches that have settled since the last call, by their places."""
        last = self._last
        if last is None:
            return {}
        ended = last.watermark == FOREVER
        newest = max((b.watermark for b in self._batches if b.watermark != FOREVER), default=NEVER)
        due = [
            batch
            for batch in self._batches
            if batch.place > self._settled
            and batch.watermark != NEVER
            and (batch.watermark == FOREVER or batch.watermark < newest - last.retention or ended)
        ]
        found: dict[int, float] = {}
        if due:
            known = SettledRecall(
                [batch.profile for batch in self._batches],
                period=last.period,
                windows=last.windows,
            )
            for batch in due:
                recall = known.lowest(batch.before, batch.watermark).recall
                if recall is not None:
                    found[batch.place] = recall
            self._settled = due[-1].place
        # The periods of a batch begin a period before it, and tuples reach a window further.
        reach = 2 * last.period + 2 * max(last.windows)
        oldest = newest - last.retention - reach if newest != NEVER else NEVER
        while len(self._batches) > 1 and self._batches[0].watermark < oldest:
            self._batches.popleft()
        return found

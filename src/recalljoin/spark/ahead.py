"""Times absurdly far ahead of their stream, in a streaming query.

Tasks do not see each other's rows, so each task only counts its own rows by *span*: a slice of
event time as long as ``max_ahead``. The counts travel in the heads of parcels. Every cell sees all
heads of a batch and knows how far the streams had come before the batch, so every cell comes to the
same verdict, in every replay of the batch. Each cell refuses its rows with unbelievable times.

A span without rows is a gap. Behind a gap, times are believed if

- they are not ahead of the driver's clock, because a source may be silent for as long as it likes;
- or the rows behind the gap outnumber the rows of the last spans before it by :data:`CONFIRMED`.
  Rows that were refused in earlier batches are counted, too, until other rows contradict them: so
  when a whole stream jumps, the jump is believed after a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.types as pt

from recalljoin.engine.times import NEVER
from recalljoin.query.durations import NANOSECONDS_PER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recalljoin.engine.arrays import Int64s
    from recalljoin.query.bound_query import BoundQuery

CONFIRMED = 5
"""How many more rows there must be behind a gap than before it."""
MOST_SPANS = 256
"""Most spans in a head. If there are more, the lowest are counted as one: only the highest decide.
"""

_DENSE = 1 << 16
"""Up to this many spans, rows are counted in an array with one element for each span."""
_THIS_CENTURY = 946_684_800 * NANOSECONDS_PER["s"]
"""Start of the year 2000: larger integers count from 1970, smaller ones from some other start."""
_FURTHEST_ZONE = 14 * 3600 * NANOSECONDS_PER["s"]
"""By how much a clock on a wall may be ahead of UTC."""


class Span(NamedTuple):
    """The rows of a stream within one slice of event time."""

    number: int
    """Number of the slice: the rows' times divided by the length of a slice."""
    n: int
    top: int
    """Largest time of the rows."""


def spans_of(ts: Int64s, length: int) -> list[Span]:
    """Times counted by span, in ascending order."""
    if not len(ts):
        return []
    first, last = int(ts.min()) // length, int(ts.max()) // length
    if first == last:
        return [Span(first, len(ts), int(ts.max()))]
    places = ts // length - first
    numbers = np.arange(first, last + 1) if last - first < _DENSE else None
    if numbers is None:
        numbers, places = np.unique(places, return_inverse=True)
        numbers += first
    counts = np.bincount(places, minlength=len(numbers))
    tops = np.full(len(numbers), NEVER, dtype=np.int64)
    np.maximum.at(tops, places, ts)
    found = np.flatnonzero(counts)
    low, high = found[: 1 - MOST_SPANS], found[1 - MOST_SPANS :]
    spans = [Span(int(numbers[e]), int(counts[e]), int(tops[e])) for e in high]
    if len(low):
        spans.insert(0, Span(int(numbers[low[0]]), int(counts[low].sum()), int(tops[low[-1]])))
    return spans


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """The spans of several tasks, added up and in ascending order."""
    found: dict[int, Span] = {}
    for span in spans:
        _, n, top = found.get(span.number, Span(span.number, 0, span.top))
        found[span.number] = Span(span.number, n + span.n, max(top, span.top))
    return [found[number] for number in sorted(found)]


class Verdict(NamedTuple):
    """Which of a stream's times in one batch are believed."""

    limit: int | None
    """Times from this one on are refused; None if all times are believed."""
    n_refused: int
    mark: int
    """Largest time believed; NEVER if no time is believed."""
    confirmed: int
    """By how many rows far ahead outnumber the other rows, for the verdict on the next batch."""


@dataclass(frozen=True)
class AheadRule:
    """Decides which times of a batch are believed.

    Parameters
    ----------
    max_ahead
        How far ahead of its stream a time is believed at once, in the query's unit.
    unit
        Nanoseconds in one unit of the query's time.
    grace
        For each stream by how much more than ``max_ahead`` its times may be ahead of the clock, in
        the query's unit. None for integers, which may count from any start: they are compared with
        the clock only once the stream has come into this century.
    """

    max_ahead: int
    unit: int
    grace: tuple[int | None, ...]

    @classmethod
    def of(cls, query: BoundQuery, max_ahead: int, *, recorded: bool) -> AheadRule:
        """The rule of a query; ``recorded`` if the clock is taken from the recorded arrivals."""
        unit = NANOSECONDS_PER[query.unit]
        grace: list[int | None] = []
        for stream in query.streams:
            kind = stream.schema.field(stream.time).type
            if recorded or (pt.is_timestamp(kind) and kind.tz is not None):
                grace.append(0)
            else:
                grace.append(_FURTHEST_ZONE // unit if pt.is_timestamp(kind) else None)
        return cls(max_ahead, unit, tuple(grace))

    def judge(
        self,
        spans: Mapping[int, Sequence[Span]],
        local_times: Sequence[int],
        confirmed: Sequence[int],
        clock: int | None,
    ) -> dict[int, Verdict]:
        """The verdicts on all streams that have rows in a batch.

        Parameters
        ----------
        spans
            For each stream with rows, the rows by span.
        local_times
            How far all streams had come before the batch.
        confirmed
            For each stream ``confirmed`` of the verdict on the batch before.
        clock
            The driver's clock, in milliseconds since 1970; None if it is not known.
        """
        now = None if clock is None else clock * NANOSECONDS_PER["ms"] // self.unit
        times = list(local_times)
        verdicts = {}
        # Until a stream has begun, the time of the other streams stands in for its own. If several
        # streams begin at once, the stream with the most rows is the least likely to be wrong.
        begins = {s: times[s] == NEVER for s in spans}
        for s in sorted(spans, key=lambda s: (begins[s], -sum(e.n for e in spans[s]), spans[s])):
            known = max(times) if begins[s] else times[s]
            verdict = self._judge(spans[s], known, confirmed[s], self._believed(s, known, now))
            times[s] = max(times[s], verdict.mark)
            verdicts[s] = verdict
        return verdicts

    def _believed(self, s: int, known: int, now: int | None) -> int | None:
        """Time up to which a stream is believed by the clock; None if the clock does not count."""
        grace = self.grace[s]
        # Arrivals of a recording may count from anywhere, and are no time of day then.
        if now is None or now < self._this_century:
            return None
        if grace is None and known != NEVER and known < self._this_century:
            return None
        return now + (grace or 0) + self.max_ahead

    @property
    def _this_century(self) -> int:
        return _THIS_CENTURY // self.unit

    def _judge(
        self, spans: Sequence[Span], known: int, confirmed: int, believed: int | None
    ) -> Verdict:
        known_span = known // self.max_ahead
        edge = None if known == NEVER else known_span
        mark = int(NEVER)
        n_above = sum(span.n for span in spans)
        # Rows that speak against a jump, by span. Late rows count at the stream's present time.
        against: dict[int, int] = {}
        for span in spans:
            is_jump = edge is None or span.number > edge + 1
            is_ahead = is_jump and (believed is None or span.top > believed)
            n_against = 0
            if edge is None:
                # Only the clock can tell whether the first times of a query are believable.
                is_ahead &= believed is not None and span.top >= self._this_century
            else:
                n_against = sum(against.get(e, 0) for e in {known_span, edge - 1, edge})
            if is_ahead and confirmed + n_above - n_against < CONFIRMED:
                left = max(confirmed - sum(against.values()), 0) + n_above
                limit = span.number * self.max_ahead
                return Verdict(limit, n_above, mark, min(left, CONFIRMED))
            if is_ahead:
                confirmed = min(confirmed + 1, CONFIRMED)
            n_above -= span.n
            mark = max(mark, span.top)
            place = max(span.top // self.max_ahead, known_span)
            edge = place if edge is None else max(edge, place)
            # The row that jumps does not speak against its own jump.
            against[place] = against.get(place, 0) + span.n - is_jump
        return Verdict(None, 0, mark, max(confirmed - sum(against.values()), 0))

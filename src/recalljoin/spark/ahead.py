"""Times absurdly far ahead of their stream, in a streaming query.

Tasks do not see each other's rows, so they only count theirs by *span*: slices of event time as
long as ``max_ahead``. The counts travel in the heads of parcels. Every cell sees all heads of a
batch and knows how far the streams had come before it, so every cell comes to the same verdict, in
every replay of the batch. Rows it does not believe are refused by the cells that hold them.

A span without rows is a gap. Behind a gap, times are believed if

- they are not ahead of the driver's clock, because a source may be silent for as long as it likes;
- or the rows behind the gap outnumber those of the last spans before it by :data:`CONFIRMED`.
  Rows that were refused in batches before are counted, too, until rows come that contradict them:
  so a whole stream that jumps is taken after a few rows.
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
    from recalljoin.query import BoundQuery

CONFIRMED = 5
"""Rows by which those behind a gap must outnumber those before it."""
MOST_SPANS = 256
"""Spans a head tells apart. The lowest of more are told as one, as only the highest decide."""

_DENSE = 1 << 16
"""Spans that are counted by their place."""
_THIS_CENTURY = 946_684_800 * NANOSECONDS_PER["s"]
"""Start of the year 2000: integers above it are times, and others count from some other start."""
_FURTHEST_ZONE = 14 * 3600 * NANOSECONDS_PER["s"]
"""By how much a clock on a wall may be ahead of UTC."""


class Span(NamedTuple):
    """The rows of a stream within one slice of event time."""

    number: int
    """Which slice: their times divided by its length."""
    n: int
    top: int
    """Largest of their times."""


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
    """The spans of several tasks together, in ascending order."""
    found: dict[int, Span] = {}
    for span in spans:
        _, n, top = found.get(span.number, Span(span.number, 0, span.top))
        found[span.number] = Span(span.number, n + span.n, max(top, span.top))
    return [found[number] for number in sorted(found)]


class Verdict(NamedTuple):
    """What is believed of a stream's times in one batch."""

    limit: int | None
    """Times from here on are refused; None if all are believed."""
    n_refused: int
    mark: int
    """Largest time believed; NEVER if there is none."""
    confirmed: int
    """By how much rows far ahead outnumber others, for the next batch."""


@dataclass(frozen=True)
class AheadRule:
    """Decides which times of a batch are believed.

    Parameters
    ----------
    max_ahead
        How far ahead of its stream a time is believed at once, in the query's unit.
    unit
        Nanoseconds in one of the query's unit.
    grace
        For each stream by how much its times may be ahead of the clock on top of that, in the
        query's unit. None if they may be no times of day but integers that count from anywhere:
        these go by the clock if the stream has come into this century.
    """

    max_ahead: int
    unit: int
    grace: tuple[int | None, ...]

    @classmethod
    def of(cls, query: BoundQuery, max_ahead: int, *, recorded: bool) -> AheadRule:
        """The rule of a query; ``recorded`` if the clock shows arrivals as the data have them."""
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
        """What is believed of the streams that have rows in a batch.

        Parameters
        ----------
        spans
            The rows of each of these streams.
        local_times
            How far all streams had come before.
        confirmed
            For each stream what the verdict on the batch before says.
        clock
            The driver's clock, in milliseconds since 1970; None if it is not known.
        """
        now = None if clock is None else clock * NANOSECONDS_PER["ms"] // self.unit
        times = list(local_times)
        verdicts = {}
        # Until a stream has begun, the others' time stands in for its own; of several that begin,
        # the one with most rows is the least likely to be wrong.
        begins = {s: times[s] == NEVER for s in spans}
        for s in sorted(spans, key=lambda s: (begins[s], -sum(e.n for e in spans[s]), spans[s])):
            known = max(times) if begins[s] else times[s]
            verdict = self._judge(spans[s], known, confirmed[s], self._believed(s, known, now))
            times[s] = max(times[s], verdict.mark)
            verdicts[s] = verdict
        return verdicts

    def _believed(self, s: int, known: int, now: int | None) -> int | None:
        """The time up to which the clock vouches for a stream's times; None if it does not."""
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
        # Rows that speak against a jump, by their span. Late rows speak for the stream's own time.
        against: dict[int, int] = {}
        for span in spans:
            is_jump = edge is None or span.number > edge + 1
            is_ahead = is_jump and (believed is None or span.top > believed)
            n_against = 0
            if edge is None:
                # Nothing but the clock can tell whether the first times of a query are sane.
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

"""Results at once: what is counted when tuples join at their arrival.

A result leaves in the tick in which its last member arrives, and is counted in the tick in which
the watermark passes it, with its trigger: so every count is the same as where results leave in
order. Until then counts are kept here and in notes on the tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.compiled import lean
from recalljoin.engine.queues import FRONT_TS, Queues, drop_front, empty_queues, with_room
from recalljoin.engine.queues import push as put
from recalljoin.engine.rings import NONE, ORDER, TS
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.times import NEVER
from recalljoin.engine.windows import CREDIT, OPEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.probe import Partials
    from recalljoin.engine.rings import Sequence
    from recalljoin.engine.windows import Windows

_PLACE_BITS = 32
"""Bits of a note that say where a trigger's entry is; the bits above say since when."""
PRODUCED, LOST, UNKNOWN = range(3)
"""What becomes of a result; the last where it was completed by a tuple beyond the horizon."""


class EagerAccounts:
    """Counts of results that have left before the watermark has passed them.

    Parameters
    ----------
    windows
        Where the tuples are.
    with_slack
        Count results by required slack.
    """

    def __init__(self, windows: Windows, *, with_slack: bool) -> None:
        self._windows = windows
        self._with_slack = with_slack
        m = windows.plan.m
        self._latest = np.full(m, NEVER, dtype=np.int64)
        # Results by time and by the base time of their last member: [time, base time, number].
        self._entries = np.empty((3, 1024), dtype=np.int64)
        self._n_entries = 0
        self._generation = 1
        # Times of the tuples that the watermark has passed and that are still in their windows.
        self._in_windows = empty_queues(m)
        self._n_in_windows = np.zeros(m, dtype=np.int64)
        self._n_passed = 0

    def seen(self, part: Sequence) -> Int64s:
        """How far each tuple's stream had come; in the rings this must never fall."""
        seen = np.empty(len(part.ts), dtype=np.int64)
        _see(part.stream, part.ts, part.now, self._latest, seen)
        return seen

    def reach(self, part: Sequence) -> Int64s:
        """The largest time that a partner of each tuple may have; call it before :meth:`seen`."""
        latest = np.maximum.accumulate(np.maximum(part.ts, self._latest.max()))
        reach: Int64s = np.minimum(latest, part.ts + self._windows.sizes[part.stream])
        return reach

    def credit(
        self,
        results: Partials,
        part: Sequence,
        beyond: NDArray[np.bool_],
        records: Int64s,
        slack: Int64s,
    ) -> NDArray[np.int8]:
        """Count results with their triggers; returns what becomes of each result.

        Parameters
        ----------
        results
            Complete results.
        part, beyond, records
            The tuples that arrive: which of them are beyond the horizon, and their records.
        slack
            ``[produced or lost, bin]``: gets the results that are lost.
        """
        n = self._n_entries
        if n + len(results.root) > self._entries.shape[1]:
            roomy = np.empty((3, 2 * (n + len(results.root))), dtype=np.int64)
            roomy[:, :n] = self._entries[:, :n]
            self._entries = roomy
        fates = np.empty(len(results.root), dtype=np.int8)
        self._n_entries = _credit(
            results, part.ts, part.now, part.base, beyond, records, self._windows.rings.records,
            self._windows.notes, self._with_slack, slack, self._entries,
            self._generation << _PLACE_BITS, n, fates,
        )  # fmt: skip
        return fates

    def counted(self, records: Int64s) -> Int64s:
        """How many results were counted with the tuples at these records."""
        counted: Int64s = self._windows.notes[CREDIT, records]
        return counted

    def release(self, watermark: int, slack: Int64s) -> None:
        """Count the results that the watermark has passed by required slack."""
        self._n_entries = _release(
            self._entries, self._n_entries, watermark, self._with_slack, slack
        )
        # Entries have moved; the next result of a trigger opens a new one.
        self._generation += 1

    def cross(
        self, stream: NDArray[np.int8], ts: Int64s, now: Int64s, late: NDArray[np.bool_]
    ) -> Float64s:
        """Sizes of the cross join for tuples in order, as the watermark passes them."""
        self._in_windows = with_room(self._in_windows, int(np.bincount(stream, minlength=1).max()))
        n_cross = np.zeros(len(ts))
        _count_cross(
            stream, ts, now, late, self._windows.sizes, self._in_windows, self._n_passed,
            self._n_in_windows, n_cross,
        )  # fmt: skip
        self._n_passed += len(ts)
        return n_cross


@lean
def _credit(
    results: Partials,
    root_ts: Int64s,
    now: Int64s,
    base: Int64s,
    beyond: NDArray[np.bool_],
    root_records: Int64s,
    records: Int64s,
    notes: Int64s,
    with_slack: bool,
    slack: Int64s,
    entries: Int64s,
    mark: int,
    n: int,
    fates: NDArray[np.int8],
) -> int:
    members, roots, newest, _ = results
    m = len(members)
    last, at = NONE, 0
    for i in range(len(roots)):
        root = roots[i]
        ts = newest[i]
        if ts <= now[root]:
            fates[i] = UNKNOWN if beyond[root] else LOST
            if not beyond[root]:
                notes[CREDIT, root_records[root]] += 1
                if with_slack:
                    slack[1, slack_bin(base[root], ts)] += 1
            continue
        fates[i] = PRODUCED
        # The trigger is the member that the watermark passes last; mostly it comes last as well.
        trigger = root_records[root]
        if root_ts[root] != ts:
            trigger = NONE
            for s in range(m):
                e = members[s, i]
                if records[e, TS] == ts and (
                    trigger == NONE or records[e, ORDER] > records[trigger, ORDER]
                ):
                    trigger = e
        notes[CREDIT, trigger] += 1
        # Results of one trigger and one tick share a base time, and so an entry.
        if trigger != last or entries[1, at] != base[root]:
            # An entry that was opened before entries moved last has another mark.
            last, at = trigger, notes[OPEN, trigger] - mark
            if at < 0 or entries[1, at] != base[root]:
                at = n
                n += 1
                notes[OPEN, trigger] = mark + at
                entries[0, at], entries[1, at], entries[2, at] = ts, base[root], 0
        entries[2, at] += 1
    return n


@lean
def _release(entries: Int64s, n: int, watermark: int, with_slack: bool, slack: Int64s) -> int:
    """Count entries up to the watermark and close the gaps; returns how many are left."""
    left = 0
    for i in range(n):
        ts = entries[0, i]
        if ts <= watermark:
            if with_slack:
                slack[0, slack_bin(entries[1, i], ts)] += entries[2, i]
        else:
            for row in range(3):
                entries[row, left] = entries[row, i]
            left += 1
    return left


@lean
def _see(stream: NDArray[np.int8], ts: Int64s, now: Int64s, latest: Int64s, seen: Int64s) -> None:
    for i in range(len(ts)):
        s = stream[i]
        latest[s] = max(latest[s], ts[i], now[i])
        seen[i] = latest[s]


@lean
def _count_cross(
    stream: NDArray[np.int8],
    ts: Int64s,
    now: Int64s,
    late: NDArray[np.bool_],
    sizes: Int64s,
    queues: Queues,
    first: int,
    n_held: Int64s,
    n_cross: Float64s,
) -> None:
    for i in range(len(ts)):
        s = int(stream[i])
        if not late[i]:
            product = 1.0
            for j in range(len(sizes)):
                if j != s:
                    while queues.state[j, FRONT_TS] < ts[i] - sizes[j]:
                        drop_front(queues, j)
                        n_held[j] -= 1
                    product *= n_held[j]
            n_cross[i] = product
        if ts[i] >= now[i] - sizes[s]:
            put(queues, s, ts[i], first + i)
            n_held[s] += 1

"""Verdicts: which tuples of a preserved stream have a partner, and which leave without one.

No result can hold a tuple once the watermark has reached the tuple's time plus its window, the time
of its *verdict*. A tuple of which no partner is known by then leaves alone. A partner may come
later still: then the tuple has left in error, a *false null*. A tuple that comes after its own
verdict cannot leave alone; without a partner, its *null is lost*.

Every judgement is made when a result is found, from the watermark before the tick of the result's
last member. So it does not matter how many ticks are taken in at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from recalljoin.engine.judging import (
    MATCHED,
    REFUTED,
    SHOWN,
    TOLD,
    TOO_LATE,
    UNMATCHED,
    await_verdicts,
    count_bins,
    count_later,
    judge_pairs,
    judge_semi,
    take_due,
)
from recalljoin.engine.queues import (
    FRONT_TS,
    Queues,
    empty_queues,
    with_room,
)
from recalljoin.engine.rings import BASE, NONE, TS, Sequence
from recalljoin.engine.slack_bins import N_BINS
from recalljoin.engine.step import Told
from recalljoin.engine.times import NEVER
from recalljoin.engine.windows import FATE, NEED
from recalljoin.query.kinds import PRESERVED, How, has_nulls, has_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.payload import Payload
    from recalljoin.engine.probe import Partials
    from recalljoin.engine.windows import Windows


class Alone(NamedTuple):
    """Tuples that leave without a partner, or once for all their partners."""

    stream: int
    record: Int64s
    ts: Int64s
    """Time of the row."""


@dataclass
class Account:
    """What verdicts have brought since the last account, by the times of the rows.

    Counts may be negative: what was counted is taken back when a partner comes later.
    """

    nulls: list[Int64s] = field(default_factory=list)
    """Tuples that left without a partner."""
    false: list[Int64s] = field(default_factory=list)
    """Tuples of these, earlier ones among them, of which a partner came."""
    lost: list[Int64s] = field(default_factory=list)
    """Tuples without a partner that came after their verdict."""
    found: list[Int64s] = field(default_factory=list)
    """Tuples of these, earlier ones among them, of which a partner came."""
    semi: list[Int64s] = field(default_factory=list)
    """Tuples that left because they have a partner."""
    lost_semi: list[Int64s] = field(default_factory=list)
    """Tuples of which all results were lost."""
    false_rows: list[tuple[int, Int64s]] = field(default_factory=list)
    """Stream and row numbers of the tuples in ``false``."""


class Verdicts:
    """The verdicts of one operator instance.

    Parameters
    ----------
    how
        Kind of join.
    windows
        The tuples that are judged.
    slack
        ``[produced or lost, bin]``: the operator's histogram of required slack.
    """

    def __init__(self, how: How, windows: Windows, slack: Int64s) -> None:
        self.how = how
        self.windows = windows
        self.streams = np.array(PRESERVED[how], dtype=np.int64)
        self.slack = slack
        self.with_slack = slack.shape[1] > 1
        self.needs = np.zeros((3, N_BINS if self.with_slack else 1), dtype=np.int64)
        self.account = Account()
        # Tuples whose verdict has not come, by time.
        self._due = empty_queues(windows.plan.m)
        self._too_late: list[tuple[int, Int64s]] = []

    @property
    def shows_nulls(self) -> bool:
        """Whether tuples without a partner are rows."""
        return has_nulls(self.how)

    def admit(
        self, part: Sequence, records: Int64s, position: Int64s, beyond: NDArray[np.bool_]
    ) -> None:
        """Begin to judge tuples that have entered the windows; NONE in ``records`` if not."""
        notes, sizes = self.windows.notes, self.windows.sizes
        kept = records != NONE
        for s in self.streams.tolist():
            mine = kept & (part.stream == s)
            too_late = mine & part.late & (part.now >= part.ts + sizes[s])
            # What was lost with a tuple beyond the horizon is not known: nothing is said of it.
            notes[FATE, records[too_late & beyond]] = MATCHED | SHOWN | TOLD
            judged = records[too_late & ~beyond]
            notes[FATE, judged] = TOO_LATE
            if len(judged):
                self._too_late.append((s, judged))
            (in_time,) = np.nonzero(mine & ~too_late)
            self._due = with_room(self._due, len(in_time))
            await_verdicts(self._due, s, part.ts, in_time, position)

    def judge(
        self, results: Partials, lost: NDArray[np.bool_], part: Sequence, records: Int64s
    ) -> Alone | None:
        """Take in results that were produced or counted as lost; returns the semi rows of them.

        Parameters
        ----------
        results
            The results.
        lost
            Which of them are lost.
        part, records
            The stretch of the join sequence that has the roots, and their records.
        """
        windows = self.windows
        if self.how == "semi":
            return self._judge_semi(results, lost, part)
        refuted = np.empty((2, 2 * len(results.root)), dtype=np.int64)
        n = judge_pairs(
            results, lost, part.now, records, windows.rings.records, windows.notes, windows.sizes,
            self.streams, refuted,
        )  # fmt: skip
        if n:
            for s in self.streams.tolist():
                self._refute(s, refuted[1, :n][refuted[0, :n] == s])
        return None

    def _refute(self, s: int, records: Int64s) -> None:
        """Take back what was said of tuples whose first partner came after their verdict."""
        v = self.windows.rings.records[records, TS] + self.windows.sizes[s]
        fate = self.windows.notes[FATE, records]
        too_late = (fate & TOO_LATE) != 0
        left, counted = ~too_late, too_late & ((fate & TOLD) != 0)
        self._count_needs(records, v)
        for chosen, at in ((left, 0), (counted, 1)):
            self._count_slack(at, records[chosen], v[chosen], -1)
        if left.any():
            self.account.false.append(v[left])
            self.account.false_rows.append((s, self.windows.rows_at(records[left])))
        if counted.any():
            self.account.found.append(v[counted])

    def _count_slack(self, at: int, records: Int64s, v: Int64s, sign: int) -> None:
        if self.with_slack and self.shows_nulls:
            base = self.windows.rings.records[records, BASE]
            count_bins(base, v, sign, self.slack[at], self.needs[UNMATCHED])

    def _count_needs(self, records: Int64s, v: Int64s) -> None:
        """Count tuples whose first partner is known by what would have made them leave alone."""
        if self.with_slack:
            base = self.windows.rings.records[records, BASE]
            count_later(base, v, self.windows.notes[NEED, records], self.needs)

    def settle_late(self) -> None:
        """Count the tuples that came after their own verdict; all their results are known."""
        for s, records in self._too_late:
            fate = self.windows.notes[FATE, records]
            if self.how == "semi":
                self._lose_semi(records[self.windows.notes[NEED, records] > 0])
                continue
            alone = records[(fate & (MATCHED | REFUTED)) == 0]
            self.windows.notes[FATE, alone] |= TOLD
            v = self.windows.rings.records[alone, TS] + self.windows.sizes[s]
            self._count_slack(1, alone, v, 1)
            if len(alone):
                self.account.lost.append(v)
        self._too_late = []

    def decide(self, limit: int) -> list[Alone]:
        """Pass the verdicts up to and including ``limit``; returns the rows that leave alone."""
        leaving: list[Alone] = []
        if limit == NEVER:
            return leaving
        for s in self.streams.tolist():
            size = int(self.windows.sizes[s])
            n = _n_due(self._due, s)
            if self._due.state[s, FRONT_TS] > limit - size:
                continue
            decided = np.empty(n, dtype=np.int64)
            n = take_due(self._due, s, limit - size, self.windows.rings, decided)
            records = decided[:n]
            fate = self.windows.notes[FATE, records]
            self.windows.notes[FATE, records] |= TOLD
            if self.how == "semi":
                self._tell_semi(records, fate)
                continue
            matched = (fate & MATCHED) != 0
            v = self.windows.rings.records[records, TS] + size
            self._count_needs(records[matched], v[matched])
            alone, v = records[~matched], v[~matched]
            self._count_slack(0, alone, v, 1)
            if len(alone):
                self.account.nulls.append(v)
                leaving.append(Alone(s, alone, v))
        return leaving

    # Semi joins: a tuple leaves once, with its first result. ----------------------------------

    def _judge_semi(
        self, results: Partials, lost: NDArray[np.bool_], part: Sequence
    ) -> Alone | None:
        windows = self.windows
        shown, late = (np.empty(len(results.root), dtype=np.int64) for _ in range(2))
        counts = np.zeros(2, dtype=np.int64)
        judge_semi(
            results, lost, part.base, windows.notes, self.with_slack, self.slack, shown, late,
            counts,
        )  # fmt: skip
        self._lose_semi(late[: counts[1]])
        records = shown[: counts[0]]
        if not len(records):
            return None
        ts = windows.rings.records[records, TS]
        self.account.semi.append(ts)
        return Alone(0, records, ts)

    def _tell_semi(self, records: Int64s, fate: Int64s) -> None:
        left = (fate & SHOWN) != 0
        if self.with_slack:
            need = self.windows.notes[NEED, records[left]]
            np.add.at(self.slack[0], need - 1, 1)
        self._lose_semi(records[~left & (self.windows.notes[NEED, records] > 0)])

    def _lose_semi(self, records: Int64s) -> None:
        if not len(records):
            return
        self.windows.notes[FATE, records] |= TOLD
        if self.with_slack:
            np.add.at(self.slack[1], self.windows.notes[NEED, records] - 1, 1)
        self.account.lost_semi.append(self.windows.rings.records[records, TS])

    def take(self) -> tuple[Account, Int64s]:
        """The account and the histogram since the last call."""
        account, self.account = self.account, Account()
        (used,) = np.nonzero(self.needs.any(axis=0))
        n = int(used[-1]) + 1 if len(used) else 1
        needs = self.needs[:, :n].copy()
        self.needs[:, :n] = 0
        return account, needs


def told_of(verdicts: Verdicts | None, payloads: list[Payload]) -> Told | None:
    """What verdicts have brought since the last call; None for an inner join."""
    if verdicts is None:
        return None
    account, needs = verdicts.take()
    false_rows = []
    for s, payload in enumerate(payloads):
        rows = [rows for stream, rows in account.false_rows if stream == s]
        numbers = np.concatenate([_NONE, *rows])
        false_rows.append(pa.Table.from_batches([payload.take(numbers)]))

    def times(parts: list[Int64s]) -> Int64s:
        return np.concatenate([_NONE, *parts])

    return Told(
        pairs=has_pairs(verdicts.how),
        nulls=times(account.nulls),
        false_nulls=times(account.false),
        lost_nulls=times(account.lost),
        found_nulls=times(account.found),
        semi=times(account.semi),
        lost_semi=times(account.lost_semi),
        needs=needs,
        false_rows=tuple(false_rows),
    )


_NONE = np.empty(0, dtype=np.int64)


def _n_due(due: Queues, s: int) -> int:
    head, tail, size = due.state[s, :FRONT_TS]
    return int(tail - head + size)

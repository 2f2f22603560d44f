"""Eager, outer, semi and anti joins through the engine and the reference, told alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from recalljoin.engine.step import Step, drain
from recalljoin.query.kinds import has_nulls, has_pairs
from tests.properties.engine_runs import ARRIVAL, EngineRun, Script, taken_as
from tests.properties.reference_runs import bin_of
from tests.reference.kinds import KindJoin
from tests.unfolding import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from recalljoin.engine.arrays import Int64s
    from tests.reference.kinds import Found
    from tests.reference.model import Instant

_T = TypeVar("_T")
Members = tuple[int | None, ...]


@dataclass
class KindAccount:
    """What is known after a push; counts are those from the beginning."""

    rows: Counter[tuple[Members, int]] = field(default_factory=Counter)
    """Rows that have left in this push, by members and time."""
    nulls: Counter[int] = field(default_factory=Counter)
    false_nulls: Counter[int] = field(default_factory=Counter)
    lost_nulls: Counter[int] = field(default_factory=Counter)
    semi: Counter[int] = field(default_factory=Counter)
    lost_semi: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)
    """All lost rows by their time."""
    slack: Counter[tuple[int, int]] = field(default_factory=Counter)
    needs: Counter[tuple[int, int]] = field(default_factory=Counter)
    false_rows: Counter[int] = field(default_factory=Counter)
    """Arrivals of the tuples that have left in error."""


class KindEngineRun(EngineRun):
    """One run through the engine; the clocks are compared elsewhere."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.so_far = KindAccount()
        self.steps: list[Step] = []
        self.last_time = -(2**63)

    def accounts(self) -> list[KindAccount]:
        """What is known after every push."""
        told = []
        with taken_as(self.script):
            for piece, (begin, end) in enumerate(self.script.pieces):
                self.remember(piece)
                told.append(self.after(*drain(self.push_ticks(begin, end))))
            self.remember(len(self.script.pieces))
            told.append(self.after(*drain(self.pipeline.flush())))
        return told

    def after(self, batches: list[pa.RecordBatch], step: Step) -> KindAccount:
        """What is known after a step."""
        self.steps.append(step)
        rows: Counter[tuple[Members, int]] = Counter()
        for batch in batches:
            whole = rows_of(batch, self.pipeline)
            whole.validate(full=True)
            assert whole.num_rows > 0
            times = whole.column("result_time").to_pylist()
            if self.script.emit == "ordered" and not self.script.settings.folded:
                if self.script.how != "semi":
                    assert [self.last_time, *times] == sorted([self.last_time, *times])
                self.last_time = times[-1]
            members = [
                [None if row is None else row[ARRIVAL] for row in column.to_pylist()]
                for column in whole.columns[:-1]
            ]
            rows.update(zip(zip(*members, strict=True), times, strict=True))
        told, so_far = step.told, self.so_far
        assert step.n_lost == int(step.lost_n.sum())
        _add(so_far.lost, zip(step.lost_ts.tolist(), step.lost_n.tolist(), strict=True))
        _add_histogram(so_far.slack, step.slack)
        if told is not None:
            _add_histogram(so_far.needs, told.needs)
            for name, plus, minus in (
                ("nulls", told.nulls, ()),
                ("false_nulls", told.false_nulls, ()),
                ("lost_nulls", told.lost_nulls, told.found_nulls.tolist()),
                ("semi", told.semi, ()),
                ("lost_semi", told.lost_semi, ()),
            ):
                counter = getattr(so_far, name)
                _add(counter, ((ts, 1) for ts in plus.tolist()))
                _add(counter, ((ts, -1) for ts in minus))
            for table in told.false_rows:
                if ARRIVAL in table.column_names:
                    so_far.false_rows.update(table.column(ARRIVAL).to_pylist())
        return _copied(so_far, rows)


def _add_histogram(counter: Counter[tuple[int, int]], histogram: Int64s) -> None:
    _add(counter, (((i, j), int(histogram[i, j])) for i, j in np.argwhere(histogram).tolist()))


def _add(counter: Counter[_T], items: Iterable[tuple[_T, int]]) -> None:
    for key, n in items:
        counter[key] += int(n)
        if not counter[key]:
            del counter[key]


def _copied(account: KindAccount, rows: Counter[tuple[Members, int]]) -> KindAccount:
    names = [name for name in vars(account) if name != "rows"]
    return KindAccount(rows, **{name: Counter(getattr(account, name)) for name in names})


def through_reference(script: Script) -> list[KindAccount]:
    """What the reference knows after every push."""
    join = KindJoin(
        script.case.query, how=script.how, emit=script.emit, horizon=script.settings.retention
    )
    told = []
    for piece, (begin, end) in enumerate([*script.pieces, (0, 0)]):
        retention = script.retention_from(piece)
        if retention is not None:
            join.remember_for(retention)
        n_rows = len(join.rows)
        if piece == len(script.pieces):
            join.flush()
        for n in range(begin, end):
            tuples = [e for e in script.case.arrivals if e.tick == n]
            join.step(tuples, k=script.k[n], idle=script.idle[n] if script.idle else ())
        told.append(_told(script, join, n_rows))
    return told


def _told(script: Script, join: KindJoin, n_rows: int) -> KindAccount:
    told = KindAccount(Counter((row.arrivals, row.ts) for row in join.rows[n_rows:]))
    how, now = script.how, join.disorder.watermark
    slack: list[tuple[int, Instant]] = []
    if has_pairs(how):
        told.lost.update(found.result.ts for found in join.found if not found.in_time)
        # A result is counted when the watermark has passed it, even if it has left before.
        slack += ((0, f.slack) for f in join.found if f.in_time and f.result.ts <= now)
        slack += ((1, f.slack) for f in join.found if not f.in_time)
    for judged in join.judged.values():
        v, ts, known, own = judged.verdict, judged.e.ts, judged.found, judged.e.arrival
        if how == "semi":
            _tell_semi(told, slack, known, ts, decided=v <= now)
            continue
        told.nulls[v] += judged.has_left
        told.false_nulls[v] += judged.is_false
        told.false_rows[judged.e.arrival] += judged.is_false
        told.lost_nulls[v] += judged.is_lost
        if has_nulls(how):
            told.lost[v] += judged.is_lost
            if judged.is_lost or (judged.has_left and not judged.is_false):
                slack.append((int(judged.is_lost), judged.slack))
                told.needs[0, bin_of(judged.slack)] += 1
        if known and v <= now:
            partners = (e for pool in join.received for e in pool if e.arrival != own)
            met = {n for found in known for n in found.result.arrivals}
            first = bin_of(min(e.base_time for e in partners if e.arrival in met) - v)
            if first > bin_of(judged.slack):
                told.needs[1, first] += 1
                told.needs[2, bin_of(judged.slack)] += 1
    told.slack.update((at, bin_of(needed)) for at, needed in slack)
    if not script.settings.slack:
        told.slack.clear()
        told.needs.clear()
    return told


def _tell_semi(
    told: KindAccount,
    slack: list[tuple[int, Instant]],
    known: list[Found],
    ts: int,
    *,
    decided: bool,
) -> None:
    # Which of its results left first, in order, says when the row has left; here it is enough that
    # one has, or can.
    if any(found.in_time for found in known):
        told.semi[ts] += 1
    elif known and decided:
        told.lost_semi[ts] += 1
        told.lost[ts] += 1
    if known and decided:
        in_time = any(found.in_time for found in known)
        slack.append((int(not in_time), min(found.slack for found in known)))

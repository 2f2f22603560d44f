"""The join operator: Algorithm 2 on a stretch of the join sequence.

Two ways lead to the same results. Where the condition is a tree of equalities and only sizes are
asked for, results are counted (:mod:`~recalljoin.engine.counting`). Elsewhere results are
enumerated in chunks (:mod:`~recalljoin.engine.probe`), and the residual is checked on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from recalljoin.engine.chains import admit
from recalljoin.engine.conditions import NO_CODE, Condition, Level, make_level
from recalljoin.engine.counting import Counts, count_sequence
from recalljoin.engine.eager import LOST, PRODUCED, UNKNOWN, EagerAccounts
from recalljoin.engine.leaving import Results, rows_of
from recalljoin.engine.merging import in_order_of_roots
from recalljoin.engine.partners import Copies, by_entry, extend_by_key, fresh_copies
from recalljoin.engine.probe import (
    Partials,
    account,
    extend_by_scan,
    extended,
    filter_by_code,
    too_old,
)
from recalljoin.engine.received import Received
from recalljoin.engine.rings import NONE, UNMATCHABLE, Sequence
from recalljoin.engine.slack_bins import N_BINS
from recalljoin.engine.times import NEVER
from recalljoin.engine.tree_visits import new_scratch
from recalljoin.engine.verdicts import Alone, Verdicts
from recalljoin.engine.windows import N_NOTES, Windows
from recalljoin.query.kinds import How, has_pairs

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.plan import Plan

STRETCH = 1 << 15
"""Number of tuples received at once, which bounds the working memory."""
CHUNK = 1 << 15
"""Number of results enumerated at once, and the most that go out in one chunk."""
SHORT = 4
"""Chains with at most so many tuples, on average, are walked before one of them is copied."""


@dataclass
class JoinOperator:
    """One instance of the m-way sliding window join operator.

    Parameters
    ----------
    plan
        Windows, classes of equal attributes and visiting orders.
    conditions
        The rest of the join condition.
    retention
        How long a tuple is kept after it has left its window, to count lost results with; holds
        until the windows' ``remembered`` is replaced.
    rows
        Produce the results themselves, not only their number.
    in_order
        Produce results in the order of their triggers. Results in the order of keys cost less.
    with_lost
        Count the results lost with late tuples.
    with_slack
        Count the results by the slack they require.
    n_values
        Value columns the conditions' programs read.
    how
        Kind of join.
    eager
        Tuples come when they arrive, and not in order; ``now`` of their sequence is the watermark
        before the tick of their arrival.
    """

    plan: Plan
    conditions: tuple[Condition, ...] = ()
    retention: int = 0
    rows: bool = False
    in_order: bool = True
    with_lost: bool = True
    with_slack: bool = False
    n_values: int = 0
    how: How = "inner"
    eager: bool = False
    exact: bool = field(default=True, init=False)
    """False once a tuple had a value that programs cannot represent exactly."""

    def __post_init__(self) -> None:
        self.windows = Windows(
            self.plan,
            retention=self.retention,
            n_values=self.n_values,
            n_notes=N_NOTES if self.eager or self.how != "inner" else 0,
        )
        self.n_received = 0
        self.slack = np.zeros((2, N_BINS if self.with_slack else 1), dtype=np.int64)
        self.verdicts: Verdicts | None = None
        if self.how != "inner":
            self.verdicts = Verdicts(self.how, self.windows, self.slack)
        self.accounts: EagerAccounts | None = None
        if self.eager:
            counts_slack = self.with_slack and has_pairs(self.how)
            self.accounts = EagerAccounts(self.windows, with_slack=counts_slack)
        self._levels: dict[tuple[int, int, bool], Level] = {}
        self._copies: dict[tuple[int, int], Copies] = {}

    @property
    def _orders(self) -> bool:
        # The number of results is the same in any order.
        return self.rows and self.in_order and not self.eager

    @property
    def _by_root(self) -> bool:
        # A verdict goes by what had come before it.
        return self._orders or self.verdicts is not None

    @property
    def counts_by_tree(self) -> bool:
        """Whether results are counted without enumerating them."""
        return self.plan.counts_by_tree

    def take_slack(self) -> Int64s:
        """The slack histogram since the last call, ``[produced or lost, bin]``.

        The histogram ends with the last bin that holds a result.
        """
        (used,) = np.nonzero(self.slack.any(axis=0))
        n = int(used[-1]) + 1 if len(used) else 1
        taken = self.slack[:, :n].copy()
        self.slack[:, :n] = 0
        return taken

    def receive(
        self, sequence: Sequence, values: Float64s, watermark: int = NEVER
    ) -> Generator[Results, None, Received]:
        """Let tuples reach the operator, in the order of the join sequence.

        Parameters
        ----------
        sequence
            The tuples.
        values
            ``[value column, tuple]``, for the conditions' programs.
        watermark
            How far the join has come afterwards, where tuples without a partner matter.
        """
        n = len(sequence.ts)
        n_join, position = np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        received = Received(n_join, np.zeros(n), np.empty(n, dtype=np.bool_), position)
        for begin in range(0, n, STRETCH):
            stretch = slice(begin, begin + STRETCH)
            part, received_part = sequence.part(stretch), received.part(stretch)
            self.windows.make_room(np.bincount(part.stream, minlength=self.plan.m))
            if self.counts_by_tree:
                self._count(part, received_part)
            else:
                yield from self._enumerate(part, values[:, stretch], received_part)
            self.n_received += len(part.ts)
            now = int(part.now[-1])
            if self.verdicts is not None:
                self.verdicts.settle_late()
                # Before they can be forgotten.
                yield from self._decide(now if now == NEVER else now - 1)
            if not self.eager:
                self.windows.forget(now)
        yield from self._decide(watermark)
        return received

    def _decide(self, limit: int) -> Iterator[Results]:
        """Pass verdicts; yields the rows of tuples that leave alone."""
        if self.verdicts is not None:
            alone = self.verdicts.decide(limit)
            if self.rows:
                yield from rows_of(None, alone, self.windows, most=CHUNK)

    def _count(self, part: Sequence, received: Received) -> None:
        windows = self.windows
        n_slots, m = windows.slots.lists.shape[:2]
        n_kept = len(windows.rings.records) + 1
        scratch = new_scratch(n_slots, m, n_kept)
        tally = Counts(
            n_join=received.n_join,
            n_cross=received.n_cross,
            slack=self.slack,
            lost_ts=np.empty(2 * n_kept, dtype=np.int64),
            lost_n=np.empty(2 * n_kept, dtype=np.int64),
            beyond=received.beyond,
        )
        at = 0
        while at < len(part.ts):
            at, n_lost = count_sequence(
                part, at, self.n_received, windows.rings, windows.slots,
                windows.key_sets, windows.late, windows.sizes, *windows.remembered, self.plan.trees,
                self.with_lost, self.with_slack, scratch, tally, 0,
            )  # fmt: skip
            if n_lost:
                received.lost.append((tally.lost_ts[:n_lost].copy(), tally.lost_n[:n_lost].copy()))

    def _enumerate(self, part: Sequence, values: Float64s, received: Received) -> Iterator[Results]:
        n = len(part.ts)
        windows = self.windows
        stretch = _Stretch(
            sequence=part,
            first_order=self.n_received,
            records=np.full(n, NONE, dtype=np.int64),
            entries=np.full((self.plan.m, n), NONE, dtype=np.int64),
            # In order, a later tuple is received after the root.
            reach=part.now if self.accounts is None else self.accounts.reach(part),
            since=NEVER if part.late.all() else int(part.ts[~part.late].min()),
        )
        old = too_old(part, windows.sizes, *windows.remembered, received.beyond)
        (chosen,) = np.nonzero(~old)
        entering, n_cross = part, received.n_cross
        if self.accounts is not None:
            entering, n_cross = part._replace(now=self.accounts.seen(part)), np.empty(0)
        admit(
            entering, chosen, self.n_received + chosen, windows.rings, windows.chains,
            windows.key_sets, windows.late, windows.sizes, windows.times, UNMATCHABLE,
            n_cross, self.plan.partner_key_sets, stretch.records, stretch.entries,
        )  # fmt: skip
        windows.values[:, stretch.records[chosen]] = values[:, chosen]
        if len(windows.notes):
            windows.notes[:, stretch.records[chosen]] = 0
            received.position[:] = windows.positions_of(part.stream, stretch.records)
        if self.verdicts is not None:
            self.verdicts.admit(part, stretch.records, received.position, received.beyond)
        roots = part.joinable & (stretch.records != NONE)
        if not self.eager:
            roots &= ~part.late | (self.with_lost & ~received.beyond)
        by_stream = [self._from_roots(s, roots, stretch) for s in range(self.plan.m)]
        lost: dict[int, int] = {}
        for results in in_order_of_roots(by_stream) if self._by_root else chain(*by_stream):
            known, late = self._accounted(results, stretch, received)
            produced = known
            if late is not None and has_pairs(self.how):
                for ts, count in zip(
                    *np.unique(known.newest[late], return_counts=True), strict=True
                ):
                    lost[int(ts)] = lost.get(int(ts), 0) + int(count)
            if late is not None:
                produced = known.select(~late)
            semi = None
            if self.verdicts is not None:
                late = np.zeros(len(known.root), dtype=np.bool_) if late is None else late
                semi = self.verdicts.judge(known, late, part, stretch.records)
            if self.rows:
                yield from self._leaving(produced, semi)
        if lost:
            ts, counts = np.array(list(lost.items()), dtype=np.int64).T
            received.lost.append((ts, counts))

    def _leaving(self, produced: Partials, semi: Alone | None) -> Iterator[Results]:
        """Rows of results; in order, tuples that leave alone take their place by time."""
        alone = [] if semi is None else [semi]
        if self._orders and self.verdicts is not None and len(produced.root):
            # All results up to the last one of these are known.
            alone += self.verdicts.decide(int(produced.newest[-1]) - 1)
        pairs = produced if has_pairs(self.how) else None
        yield from rows_of(pairs, alone, self.windows, most=CHUNK)

    def _accounted(
        self, results: Partials, stretch: _Stretch, received: Received
    ) -> tuple[Partials, NDArray[np.bool_] | None]:
        """Count complete results; returns those that are known, and which of them are lost."""
        part = stretch.sequence
        if self.accounts is not None:
            fates = self.accounts.credit(
                results, part, received.beyond, stretch.records, self.slack
            )
            if not fates.any():
                return results, None
            # Without losses nobody looks at results that a late tuple completes too late.
            known = (fates != UNKNOWN) if self.with_lost else (fates == PRODUCED)
            return results.select(known), fates[known] == LOST
        n_lost = account(
            results, part.late, part.lost_base, self.windows.rings.records,
            self.with_slack and has_pairs(self.how), received.n_join, self.slack,
        )  # fmt: skip
        return results, part.late[results.root] if n_lost else None

    def _from_roots(
        self, root_stream: int, roots: NDArray[np.bool_], stretch: _Stretch
    ) -> Iterator[Partials]:
        """Complete results whose last member is one of a stream's roots."""
        part = stretch.sequence
        (places,) = np.nonzero(roots & (part.stream == root_stream))
        first = self.plan.steps[root_stream][0]
        if not self._by_root and self.plan.key_sets[first.key_set]:
            # Roots of one key meet the same partners, which are then still in the cache.
            entries = stretch.entries[first.stream, places]
            places = places[by_entry(entries, len(self.windows.chains.entries))]
        members = np.zeros((self.plan.m, len(places)), dtype=np.int64)
        members[root_stream] = stretch.records[places]
        ts = part.ts[places]
        partials = Partials(members, places, ts, ts + self.plan.windows[root_stream])
        return self._completed(partials, root_stream, 0, stretch)

    def _completed(
        self, partials: Partials, root_stream: int, depth: int, stretch: _Stretch
    ) -> Iterator[Partials]:
        if depth == self.plan.m - 1:
            yield partials
            return
        level = self._level(root_stream, depth)
        windows = self.windows
        step = self.plan.steps[root_stream][depth]
        cursor = np.array([0, NONE, NONE], dtype=np.int64)
        places, found, found_ts = (np.empty(CHUNK, dtype=np.int64) for _ in range(3))
        while cursor[0] < len(partials.root):
            if level.scans:
                count = extend_by_scan(
                    partials, stretch.first_order, cursor, step.stream, level.scan_code is not None,
                    level.scan_code or NO_CODE, windows.rings, windows.sizes, windows.values,
                    windows.times, places, found, found_ts,
                )  # fmt: skip
            else:
                copies, oldest, are_short = self._copied(stretch, step.stream, step.key_set)
                count = extend_by_key(
                    partials, stretch.first_order, cursor, step.stream, step.parent, step.key_set,
                    level.checks, step.parent == root_stream, stretch.reach,
                    stretch.entries, windows.rings, windows.chains, copies, windows.key_sets,
                    windows.sizes, oldest, are_short, places, found, found_ts,
                )  # fmt: skip
            longer = extended(
                partials, places[:count], found[:count], found_ts[:count], step.stream,
                self.plan.windows[step.stream],
            )  # fmt: skip
            longer = self._filtered(longer, level)
            if len(longer.root):
                yield from self._completed(longer, root_stream, depth + 1, stretch)

    def _copied(self, stretch: _Stretch, s: int, key_set: int) -> tuple[Copies, int, bool]:
        """Copies of chains, how far back roots in order need them, and whether most are short."""
        at = s, key_set
        if at not in stretch.copied:
            windows, chains = self.windows, self.windows.chains
            oldest = (
                stretch.since if stretch.since == NEVER else stretch.since - self.plan.windows[s]
            )
            n_near = windows.n_since(s, oldest)
            n_far = windows.n_kept_of(s) if stretch.sequence.late.any() else 0
            copies = fresh_copies(self._copies.get(at), chains, n_near + n_far)
            self._copies[at] = copies
            # On average over the keys of all streams.
            are_short = n_near <= SHORT * int(chains.state[0])
            stretch.copied[at] = copies, oldest, are_short
        return stretch.copied[at]

    def _filtered(self, partials: Partials, level: Level) -> Partials:
        windows = self.windows
        if level.gather_code is not None and len(partials.root):
            chosen = np.empty(len(partials.root), dtype=np.bool_)
            filter_by_code(level.gather_code, partials.members, windows.values, chosen)
            partials = partials.select(chosen)
        for condition in level.checked:
            if not len(partials.root):
                break
            rows = np.zeros_like(partials.members)
            for s in condition.streams:
                rows[s] = windows.rows_at(partials.members[s])
            partials = partials.select(condition.check(rows))
        return partials

    def _level(self, root_stream: int, depth: int) -> Level:
        key = (root_stream, depth, self.exact)
        if key not in self._levels:
            steps = self.plan.steps[root_stream]
            visited = {root_stream, *(step.stream for step in steps[: depth + 1])}
            before = visited - {steps[depth].stream}
            due = [c for c in self.conditions if c.streams <= visited and not c.streams <= before]
            self._levels[key] = make_level(self.plan, root_stream, depth, due, exact=self.exact)
        return self._levels[key]


@dataclass(frozen=True)
class _Stretch:
    sequence: Sequence
    first_order: int
    records: Int64s
    entries: Int64s
    """``[stream, i]``: the entry by which a tuple finds its partners in another stream."""
    reach: Int64s
    """No partner of a tuple is later than this."""
    since: int
    """Time of the earliest tuple in order; NEVER if there is none."""
    copied: dict[tuple[int, int], tuple[Copies, int, bool]] = field(default_factory=dict)
    """By stream and key set: chains copied in this stretch."""

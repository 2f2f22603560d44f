"""From the tuples that arrive, and what an operator instance does with them, to a profile.

What the Statistics Manager reads off every arriving tuple, its delay and the implicit K_sync, comes
from the local times of the streams alone, so a whole recording is annotated at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recalljoin.engine.compiled import compiled
from recalljoin.engine.slack_bins import slack_bin
from recalljoin.engine.times import FOREVER, NEVER
from recalljoin.quality.profile import Profile, coarse
from recalljoin.quality.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s
    from recalljoin.engine.step import Step


UNKNOWN = -1
"""K_sync of a tuple that came before all streams had begun."""


class Arrived(NamedTuple):
    """Tuples in order of arrival, as columns."""

    stream: NDArray[np.int8]
    delay: Int64s
    """Local time of the tuple's stream, minus the tuple's timestamp; never negative."""
    k_sync: Int64s
    """Lead of the tuple's stream over the slowest stream after the tuple arrived, or
    :data:`UNKNOWN`."""
    local: Int64s
    """Local time of the tuple's stream after the tuple arrived."""

    def take(self, chosen: slice | NDArray[np.bool_]) -> Arrived:
        """Some of the tuples."""
        return Arrived(
            self.stream[chosen], self.delay[chosen], self.k_sync[chosen], self.local[chosen]
        )


class ClockTable(NamedTuple):
    """How far the streams have come after each arrival, or each tick."""

    local: Int64s
    """``[stream, i]``: local times."""
    base: Int64s
    """Local time of the slowest stream; NEVER until all streams have begun."""
    latest: Int64s
    """Local time of the fastest stream, the clock of adaptation."""


def no_clocks(m: int) -> Int64s:
    """Local times of streams that have not begun."""
    return np.full(m, NEVER, dtype=np.int64)


def follow_tuples(
    stream: NDArray[np.int8], ts: Int64s, *, before: Int64s
) -> tuple[Arrived, ClockTable]:
    """Annotate tuples that arrive one by one; ``before`` has the local times of their streams.

    Examples
    --------
    Two streams; the third tuple is 3 behind its own stream, which is then 2 ahead of the other.

    >>> stream, ts = np.array([0, 1, 0], np.int8), np.array([9, 7, 6])
    >>> arrived, _ = follow_tuples(stream, ts, before=no_clocks(2))
    >>> arrived.delay, arrived.k_sync
    (array([0, 0, 3]), array([-1,  0,  2]))
    """
    numbers = np.arange(len(before))[:, np.newaxis]
    clocks = _clocks(np.where(stream == numbers, ts, NEVER), before)
    local = clocks.local[stream, np.arange(len(ts))]
    return Arrived(stream, local - ts, _lead(local, clocks.base), local), clocks


def follow_ticks(
    stream: NDArray[np.int8], ts: Int64s, tick: Int64s, *, marks: Int64s, before: Int64s
) -> tuple[Arrived, ClockTable]:
    """Annotate tuples that arrive in ticks; return the clocks after each tick as well.

    A tuple's delay refers to the local time after the previous tick, its K_sync to the local times
    after its own tick: how far the streams are apart is known only between ticks.

    Parameters
    ----------
    stream, ts, tick
        The tuples, with ticks from 0 on.
    marks
        ``[tick, stream]``: largest timestamp of each tick, NEVER where no tuple came.
    before
        Local times before the first tick.
    """
    clocks = _clocks(marks.T, before)
    n_ticks = clocks.local.shape[1]
    at = stream * np.int64(n_ticks) + tick
    earlier = np.concatenate((before[:, np.newaxis], clocks.local[:, :-1]), axis=1).ravel()[at]
    local = clocks.local.ravel()[at]
    delay = np.where(earlier > ts, earlier - ts, 0)
    return Arrived(stream, delay, _lead(local, clocks.base[tick]), local), clocks


def follow_marks(marks: Int64s, *, before: Int64s) -> ClockTable:
    """Clocks after each tick; ``marks`` and ``before`` as in :func:`follow_ticks`."""
    return _clocks(marks.T, before)


def _clocks(marks: Int64s, before: Int64s) -> ClockTable:
    local = np.maximum(np.maximum.accumulate(marks, axis=1), before[:, np.newaxis])
    return ClockTable(local, local.min(axis=0), local.max(axis=0))


def _lead(local: Int64s, base: Int64s) -> Int64s:
    return np.where(base == NEVER, UNKNOWN, local - np.where(base == NEVER, local, base))


def profile_of(
    step: Step,
    arrived: Arrived,
    *,
    granularity: int,
    before: Int64s,
    windows: Sequence[int],
    bucket: int = 1,
    owned: NDArray[np.bool_] | tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
    whole: bool = True,
    tick_span: int = 0,
) -> Profile:
    """Describe what an operator instance did in one step.

    Parameters
    ----------
    step
        What became of tuples and results.
    arrived
        The tuples that arrived in the step, in order of arrival.
    granularity
        g, as in the step's slack histogram if it has one.
    before
        Local times of all streams before the step, one for each stream.
    windows
        Window sizes of the streams.
    bucket
        Width of the buckets results are counted in by time.
    owned
        Which tuples this cell counts, and no other cell: one flag for each stream, or one for each
        tuple that arrived and one for each tuple in the step. All by default.
    whole
        Whether the instance holds all tuples; then its cross-join sizes are the query's.
    tick_span
        Largest advance of the base time within one tick.
    """
    m = len(before)
    counted: NDArray[np.bool_] = _ALL
    if isinstance(owned, tuple):
        arrived, counted = _chosen(arrived, owned[0]), owned[1]
    elif owned is not None:
        arrived, counted = _chosen(arrived, owned[arrived.stream]), owned[step.stream]
    stream, delay, k_sync, local = arrived
    triggers: NDArray[np.bool_] | slice = ~step.late if step.late.any() else slice(None)
    n_join, n_cross = step.n_join[triggers], step.n_cross[triggers]
    begins, ends = _spans(stream, local, before)
    owned_here = np.ones(len(step.ts), dtype=np.bool_) if counted is _ALL else counted
    beyond = step.beyond & owned_here
    behind, beyond_slack = _count_behind(step.stream, step.ts, step.base, beyond, counted, m)
    delays, k_sync_sum, n_k_sync = _count_arrived(stream, delay, k_sync, granularity, m)
    in_order, late, joined, crossed = _count_received(
        step.stream, step.delay, step.late, step.n_join, step.n_cross, counted, granularity, m
    )
    return Profile(
        granularity=granularity,
        bucket=bucket,
        delays=delays,
        arrived=arrived,
        largest_delay=int(delay.max(initial=0)),
        k_sync_sum=k_sync_sum,
        n_k_sync=n_k_sync,
        begins=begins,
        ends=ends,
        in_order=in_order,
        late=late,
        n_join=joined,
        n_cross=crossed if whole else None,
        largest_join=int(n_join.max(initial=0)),
        largest_cross=float(n_cross.max(initial=0.0)),
        produced=Tally.of(*step.produced, bucket=bucket),
        lost=Tally.of(step.lost_ts, step.lost_n, bucket=bucket),
        received=_by_time(step, owned_here, m, bucket),
        beyond=_by_time(step, beyond, m, bucket),
        unknown=_unknown(step, beyond, np.array(windows, dtype=np.int64)),
        behind=behind,
        beyond_slack=beyond_slack,
        # A row that was counted may be taken back in a later step, of which nothing else is known.
        slack=step.slack if step.told is None else np.maximum(step.slack, 0),
        join_time=step.join_time,
        base_time=step.base_time,
        counted_since=step.counted_since,
        tick_span=tick_span,
        n_uncomputable=step.n_uncomputable,
        **_of_nulls(step, bucket),
    )


def _of_nulls(step: Step, bucket: int) -> dict[str, Any]:
    """What the profile of an outer, semi or anti join has besides."""
    if step.told is None:
        return {}
    return {
        "nulls": Tally.of(step.told.nulls, bucket=bucket),
        "false_nulls": Tally.of(step.told.false_nulls, bucket=bucket),
        "null_needs": step.told.needs,
    }


_ALL = np.empty(0, dtype=np.bool_)
"""Every tuple is counted."""


def _by_time(step: Step, chosen: NDArray[np.bool_], m: int, bucket: int) -> tuple[Tally, ...]:
    """The chosen tuples of a step, for each stream, by their time."""
    if not chosen.any():
        return (Tally.empty(),) * m
    return tuple(Tally.of(step.ts[chosen & (step.stream == s)], bucket=bucket) for s in range(m))


def _unknown(step: Step, beyond: NDArray[np.bool_], windows: Int64s) -> Float64s:
    """For each stream its tuples beyond the horizon, counted by the unknown share of their results.

    A late tuple that is still in its window is met by the tuples that come after it. So only the
    results with times before the join time are unknown. Their share of all results follows from the
    windows: a result with the tuple has the tuple's time or a time up to a window later, and is
    triggered by the tuple itself, which meets a whole window of each other stream, or by a tuple of
    another stream.
    """
    unknown = np.zeros(len(windows))
    (places,) = np.nonzero(beyond)
    if len(places):
        lengths = np.maximum(windows, 1)
        stream = step.stream[places]
        others = (1 / lengths).sum() - 1 / lengths[stream]
        still = np.maximum(windows[stream] - (step.now[places] - step.ts[places]), 0)
        np.add.at(unknown, stream, 1 - still * others / (1 + windows[stream] * others))
    return unknown


def _chosen(arrived: Arrived, owned: NDArray[np.bool_]) -> Arrived:
    return arrived if owned.all() else arrived.take(owned)


@compiled
def _count_arrived(
    stream: NDArray[np.int8], delay: Int64s, k_sync: Int64s, g: int, m: int
) -> tuple[Int64s, Float64s, Int64s]:
    """Tuples by coarse delay, the sum of the K_sync measurements, and their number."""
    largest = 0
    for i in range(len(delay)):
        largest = max(largest, delay[i])
    delays = np.zeros((m, coarse(largest, g) + 1), dtype=np.int64)
    sums, n = np.zeros(m), np.zeros(m, dtype=np.int64)
    for i in range(len(delay)):
        s = stream[i]
        delays[s, coarse(delay[i], g)] += 1
        if k_sync[i] != UNKNOWN:
            sums[s] += k_sync[i]
            n[s] += 1
    return delays, sums, n


@compiled
def _count_behind(  # noqa: PLR0917 - a kernel takes its columns one by one
    stream: NDArray[np.int8],
    ts: Int64s,
    base: Int64s,
    beyond: NDArray[np.bool_],
    counted: NDArray[np.bool_],
    m: int,
) -> tuple[Int64s, Int64s]:
    """All tuples, and tuples beyond the horizon, by how far they came behind the base time."""
    largest = np.zeros(2, dtype=np.int64)
    for i in range(len(ts)):
        if len(counted) == 0 or counted[i]:
            place = slack_bin(base[i], ts[i])
            largest[0] = max(largest[0], place)
            if beyond[i]:
                largest[1] = max(largest[1], place)
    behind = np.zeros((m, largest[0] + 1), dtype=np.int64)
    of_beyond = np.zeros((m, largest[1] + 1), dtype=np.int64)
    for i in range(len(ts)):
        if len(counted) == 0 or counted[i]:
            place = slack_bin(base[i], ts[i])
            behind[stream[i], place] += 1
            if beyond[i]:
                of_beyond[stream[i], place] += 1
    return behind, of_beyond


@compiled
def _count_received(  # noqa: PLR0917 - a kernel takes its columns one by one
    stream: NDArray[np.int8],
    delay: Int64s,
    late: NDArray[np.bool_],
    n_join: Int64s,
    n_cross: Float64s,
    counted: NDArray[np.bool_],
    g: int,
    m: int,
) -> tuple[Int64s, Int64s, Int64s, Float64s]:
    """By coarse delay: tuples in order, late tuples, and the results of tuples in order."""
    # Histograms end with the largest delay that is in them.
    largest = np.zeros(3, dtype=np.int64)
    for i in range(len(delay)):
        place = coarse(delay[i], g)
        if len(counted) == 0 or counted[i]:
            at = np.int64(late[i])
            largest[at] = max(largest[at], place)
        if not late[i]:
            largest[2] = max(largest[2], place)
    in_order = np.zeros((m, largest[0] + 1), dtype=np.int64)
    of_late = np.zeros((m, largest[1] + 1), dtype=np.int64)
    joined = np.zeros(largest[2] + 1, dtype=np.int64)
    crossed = np.zeros(largest[2] + 1)
    for i in range(len(delay)):
        place = coarse(delay[i], g)
        if not late[i]:
            joined[place] += n_join[i]
            crossed[place] += n_cross[i]
        if len(counted) == 0 or counted[i]:
            if late[i]:
                of_late[stream[i], place] += 1
            else:
                in_order[stream[i], place] += 1
    return in_order, of_late, joined, crossed


def _spans(stream: NDArray[np.int8], local: Int64s, before: Int64s) -> tuple[Int64s, Int64s]:
    begins, ends = np.where(before == NEVER, FOREVER, before), before.copy()
    for s in range(len(before)):
        mine = local[stream == s]
        if len(mine):
            begins[s], ends[s] = min(begins[s], mine[0]), mine[-1]
    return begins, ends

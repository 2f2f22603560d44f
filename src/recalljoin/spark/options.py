"""How a join is run, beside what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from recalljoin.engine.ahead import AUTO
from recalljoin.quality.horizon import DEFAULT_LIMIT

if TYPE_CHECKING:
    from recalljoin.query import DurationLike, TimeUnit
    from recalljoin.query.sizes import SizeLike
    from recalljoin.spark.adaptation import PolicyChoice
    from recalljoin.spark.learning import Known

HotKeys = Literal["auto", "off"] | Mapping[str, Sequence[Any]]
"""How hot keys are dealt with."""

Arrival = Literal["tick", "tuple"]

METRICS = "recalljoin"
"""Name of the metrics in the query's own progress."""


class RunOptions(TypedDict, total=False):
    """How a join is run, as keyword arguments; see :class:`RunSettings`."""

    k: DurationLike | None
    policy: PolicyChoice | None
    policy_options: Mapping[str, Any] | None
    learn_from: Known | None
    arrival: Arrival
    cells: int | None
    groups: int | None
    control_log: str | None
    idle_after: DurationLike | None
    flush: bool
    late_rows: bool
    hot_keys: HotKeys
    retention: DurationLike | None
    max_ahead: DurationLike | None
    horizon_memory: SizeLike
    tick: DurationLike
    name: str
    time_unit: TimeUnit


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a join is run.

    Parameters
    ----------
    k
        A fixed slack in place of a recall: text such as ``"200 ms"``, whole milliseconds, or a
        timedelta. Larger waits longer, loses fewer results.
    policy
        What chooses the slack for a recall: a policy's name, or a function that makes one.
    policy_options
        What only that policy has, such as ``share`` and ``memory`` of ``"slack"``.
    learn_from
        What the policy ``"slack"`` is to begin with instead of a careful wait: an
        :class:`~recalljoin.quality.advice.Advice`, or the control log of an earlier run, whose K
        and experience are taken over.
    arrival
        ``"tick"``: all tuples of a micro-batch are there at once, over any number of cells.
        ``"tuple"``: tuples arrive one by one, as in the paper, in the order of the streams'
        ``arrival`` columns (in step without), within one cell; K is adapted inside a batch, at
        the end of every interval.
    cells
        Operator instances the work is divided over; by default as many as there are cores.
    groups
        Tasks the cells are divided over, the cells of one task running as threads; by default one
        for each executor, which then finds its cells in memory again in every batch.
    control_log
        Folder in which cells leave what the policy and progress reports need. All workers must
        see it, and it must be the same when the query starts again from its checkpoint.
    idle_after
        Time without a tuple after which a stream no longer holds the others back; None for never.
    flush
        Release everything at the end of a bounded run (``trigger(availableNow=True)``). Tuples
        that come in a later run are late. Recorded arrivals always end so.
    late_rows
        Keep late tuples in the control log.
    hot_keys
        Keys that so many tuples have that one cell would do most of the work; each is spread over
        cells. ``"auto"``: they are found while the query runs (not in recorded arrivals).
        ``"off"``: none is looked for. Or the keys themselves, by the column they stand in:
        ``{"o.customer": ["guest"]}``; those may not change on a checkpoint, and no others are
        looked for. Results do not depend on it.
    retention
        How long tuples are remembered after they have left their window, to count the results
        lost with tuples that come even later. By default it follows the delays, and is at least as
        long as the period and the largest window.
    horizon_memory
        How much memory the tuples remembered so may take, over all cells: text such as
        ``"256 MB"``, or bytes. Where that is too little for the delays, ``horizon_limited`` in the
        progress says so, and recall is known less exactly.
    max_ahead
        A time further ahead of its stream than this is refused, until other rows confirm that the
        stream has really come there; times that are not ahead of the clock are always taken.
        ``"auto"``: one hour, or ten times the longest of windows and period. None takes every time.
    tick
        Of recorded arrivals: rows that arrive within this time of each other arrive together.
        Where tuples arrive one by one, nothing depends on it.
    name
        Of the metrics in the query's own progress; two joins in one query need two.
    time_unit
        What integer columns of time and arrival count in.
    """

    k: DurationLike | None = None
    policy: PolicyChoice | None = None
    policy_options: Mapping[str, Any] | None = None
    learn_from: Known | None = None
    arrival: Arrival = "tick"
    cells: int | None = None
    groups: int | None = None
    control_log: str | None = None
    idle_after: DurationLike | None = None
    flush: bool = False
    late_rows: bool = False
    hot_keys: HotKeys = "auto"
    retention: DurationLike | None = None
    max_ahead: DurationLike | None = AUTO
    horizon_memory: SizeLike = DEFAULT_LIMIT
    tick: DurationLike = "100 ms"
    name: str = METRICS
    time_unit: TimeUnit = "ms"

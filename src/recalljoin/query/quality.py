"""The quality target: how complete the result must be, and how K is chosen to reach it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from recalljoin.errors import InvalidQuery, InvalidTarget
from recalljoin.query.bound_query import BoundQuality
from recalljoin.query.durations import (
    MAX_TIME,
    NANOSECONDS_PER,
    DurationLike,
    TimeUnit,
    describe,
    in_unit,
    nanoseconds,
    too_long,
)
from recalljoin.query.kinds import has_nulls
from recalljoin.query.options import named_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recalljoin.query.kinds import How

_SHARES = ("recall", "null_precision")
"""What is no duration."""
_DEFAULT_BASIC_WINDOW = "10 ms"


@named_options
@dataclass(frozen=True, kw_only=True)
class Quality:
    """What share of the true results must be produced, and over which stretch of time.

    Durations are text such as ``"1 minute"``, whole milliseconds, or timedeltas.

    Parameters
    ----------
    recall
        Smallest share of the true results to produce, in (0, 1]. A larger recall waits longer.
    period
        Recall is measured over the results of the last ``period`` (the paper's P). In a longer
        period good moments can make up for bad ones.
    interval
        K is chosen anew every ``interval`` (L). A shorter interval follows changes faster.
    granularity
        K is a multiple of ``granularity`` (g), at least one unit of the query's time. None: K
        follows what the results need, to within 0.8 % or one unit of time; policies that try one K
        after another do so in steps of 10 ms.
    basic_window
        Length of the pieces that windows are modelled with (b). By default 10 ms, or the smallest
        window if that is shorter.
    min_wait
        Shortest time to wait for late tuples, whatever the recall.
    max_wait
        Longest time to wait for late tuples, whatever the recall; None for no limit.
    initial_wait
        The wait until enough is known of the streams: for example what `advise` says of a sample,
        or the K of an earlier run. By default a sixth of the period.
    null_precision
        In a join that shows tuples without a partner: smallest share of these that really have
        none, in (0, 1]. A larger share waits longer. By default the recall.

    Raises
    ------
    InvalidTarget
        With every fault found.

    Examples
    --------
    >>> Quality(recall=95)
    Traceback (most recent call last):
    recalljoin.errors.InvalidTarget: `recall` must be in (0, 1], got 95; write 0.95 for 95 %
    """

    recall: float = 0.95
    period: DurationLike = "1 minute"
    interval: DurationLike = "1 second"
    granularity: DurationLike | None = None
    basic_window: DurationLike | None = None
    min_wait: DurationLike = 0
    max_wait: DurationLike | None = None
    initial_wait: DurationLike | None = None
    null_precision: float | None = None

    def __post_init__(self) -> None:
        """Check everything that can be checked without knowing the streams."""
        faults = _share_faults("recall", self.recall)
        if self.null_precision is not None:
            faults += _share_faults("null_precision", self.null_precision)
        lengths: dict[str, int] = {}
        for name in (field.name for field in fields(self) if field.name not in _SHARES):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                lengths[name] = nanoseconds(value, name=name)
            except InvalidQuery as error:
                faults.extend(error.faults)
        for name in ("period", "interval", "granularity", "basic_window"):
            if lengths.get(name) == 0:
                faults.append(
                    f"`{name}` must be longer than 0, got {getattr(self, name)!r}; "
                    "write for example '1 second'"
                )
        period, interval = lengths.get("period"), lengths.get("interval")
        if period is not None and interval is not None and period < interval:
            faults.append(
                f"`period` must be at least as long as `interval`, got {describe(period)} and "
                f"{describe(interval)}; write a longer period or a shorter interval"
            )
        shortest, longest = lengths.get("min_wait"), lengths.get("max_wait")
        if shortest is not None and longest is not None and shortest > longest:
            faults.append(
                f"`min_wait` must not be longer than `max_wait`, got {describe(shortest)} and "
                f"{describe(longest)}; write a shorter one"
            )
        if faults:
            raise InvalidTarget(faults)


def bind_quality(
    quality: Quality,
    windows: Sequence[int],
    unit: TimeUnit,
    faults: list[str],
    how: How = "inner",
) -> BoundQuality | None:
    """The target in the unit of the query; None, with a fault recorded, if it is faulty.

    Parameters
    ----------
    quality
        As the user wrote it.
    windows
        Window sizes of the streams, in nanoseconds.
    unit
        Unit of the query.
    faults
        Where faults are recorded.
    how
        Kind of join.
    """
    known = len(faults)
    precision = quality.null_precision
    if has_nulls(how):
        precision = quality.recall if precision is None else precision
    elif precision is not None:
        faults.append(
            f"`null_precision` is about tuples that leave without a partner, of which the join "
            f"`how={how!r}` has none; leave it out"
        )
    smallest = min((window for window in windows if window > 0), default=None)
    for name in ("period", "interval"):
        length = nanoseconds(getattr(quality, name), name=name)
        if length < NANOSECONDS_PER[unit]:
            faults.append(
                f"`{name}` must be at least 1 {unit}, the unit of the time columns, got "
                f"{describe(length)}; write a longer one"
            )
    for name in (field.name for field in fields(quality) if field.name not in _SHARES):
        value = getattr(quality, name)
        if value is not None and in_unit(nanoseconds(value, name=name), unit) > MAX_TIME:
            faults.append(too_long(name, value, unit))
    basic = nanoseconds(quality.basic_window or _DEFAULT_BASIC_WINDOW, name="basic_window")
    if smallest is not None and basic > smallest:
        if quality.basic_window is not None:
            faults.append(
                f"`basic_window` must not be longer than the smallest window, got "
                f"{describe(basic)} and {describe(smallest)}; write a shorter one or leave it out"
            )
        basic = smallest
    if len(faults) > known:
        return None

    def units(value: DurationLike, *, least: int = 0) -> int:
        return max(least, in_unit(nanoseconds(value, name="duration"), unit))

    granularity = quality.granularity

    return BoundQuality(
        recall=float(quality.recall),
        period=units(quality.period),
        interval=units(quality.interval),
        granularity=None if granularity is None else units(granularity, least=1),
        basic_window=max(1, in_unit(basic, unit)),
        min_wait=units(quality.min_wait),
        max_wait=None if quality.max_wait is None else units(quality.max_wait),
        initial_wait=None if quality.initial_wait is None else units(quality.initial_wait),
        null_precision=None if precision is None else float(precision),
    )


def _share_faults(name: str, share: object) -> list[str]:
    if isinstance(share, bool) or not isinstance(share, int | float):
        return [f"`{name}` must be a number in (0, 1], got {share!r}; write for example 0.95"]
    if 0 < share <= 1:
        return []
    if 1 < share <= 100:
        hint = f"write {share / 100:g} for {share:g} %"
    else:
        hint = "write a share such as 0.95"
    return [f"`{name}` must be in (0, 1], got {share!r}; {hint}"]

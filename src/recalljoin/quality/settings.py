"""What a policy is asked for, in the query's unit of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recalljoin.errors import InvalidTarget
from recalljoin.query.durations import NANOSECONDS_PER, in_unit, nanoseconds
from recalljoin.query.quality import Quality, bind_quality

if TYPE_CHECKING:
    from recalljoin.query.bound_query import BoundQuery


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """The quality target and how it is pursued; all durations in the query's unit.

    Parameters
    ----------
    windows
        Window sizes of the streams.
    recall
        Γ, the share of true results to produce, in (0, 1]. A larger share waits longer.
    period
        P, over which recall is measured.
    interval
        L, after which K is chosen anew.
    granularity
        g, the step of K: K is a multiple of g. None for any K.
    usual_granularity
        g where none is set, for policies that must have one: the paper's, and ``percentile``. It is
        10 ms, or one unit of time if that is longer.
    basic_window
        b, length of the pieces into which the paper's model cuts windows. A larger b is more
        careful: the model then expects fewer results of late tuples.
    min_wait
        Smallest K, whatever the recall.
    max_wait
        Largest K, whatever the recall; None for no limit.
    initial_wait
        K at the beginning, until enough is known; None for a sixth of a period.
    null_precision
        Share of the rows without a partner that must be true; None where there are no such rows.
    takes_leads
        Whether sources that are silent may be waited for; False: only those that run apart, as
        partitions of a backlog do.

    Raises
    ------
    InvalidTarget
        When values are out of range; the message names every fault.
    """

    windows: tuple[int, ...]
    recall: float = 0.95
    period: int = 60_000
    interval: int = 1_000
    granularity: int | None = None
    usual_granularity: int = 10
    basic_window: int = 10
    min_wait: int = 0
    max_wait: int | None = None
    initial_wait: int | None = None
    null_precision: float | None = None
    # Not shown: what a policy has learnt holds with and without leads.
    takes_leads: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.recall <= 1:
            faults.append(f"`recall` must be in (0, 1], got {self.recall!r}; write 0.95 for 95 %")
        if len(self.windows) < 2:
            faults.append(f"`windows` must be those of 2 streams or more, got {self.windows!r}")
        if min(self.windows, default=0) < 0:
            faults.append(f"`windows` must not be negative, got {self.windows!r}")
        faults.extend(
            f"`{name}` must be longer than 0, got {getattr(self, name)!r}"
            for name in ("period", "interval", "granularity", "usual_granularity", "basic_window")
            if getattr(self, name) is not None and getattr(self, name) <= 0
        )
        if self.interval > self.period:
            faults.append(
                f"`interval` must not be longer than `period`, got {self.interval!r} and "
                f"{self.period!r}; recall over a period is steered by several intervals"
            )
        # A window of 0, for tuples of equal time, is not cut into pieces.
        smallest = min((window for window in self.windows if window > 0), default=None)
        if smallest is not None and self.basic_window > smallest:
            faults.append(
                f"`basic_window` must not be longer than the smallest window, got "
                f"{self.basic_window!r} and {smallest!r}"
            )
        faults.extend(
            f"`{name}` must not be negative, got {getattr(self, name)!r}"
            for name in ("min_wait", "max_wait", "initial_wait")
            if (getattr(self, name) or 0) < 0
        )
        if self.max_wait is not None and self.min_wait > self.max_wait:
            faults.append(
                f"`min_wait` must not be longer than `max_wait`, got {self.min_wait!r} and "
                f"{self.max_wait!r}"
            )
        if faults:
            raise InvalidTarget(faults)

    @property
    def first_wait(self) -> int:
        """K before anything is known: the first results wait this long, and late tuples join."""
        return self.period // 6 if self.initial_wait is None else self.initial_wait

    @property
    def g(self) -> int:
        """Step of K for policies that try one K after the other, and of delays in profiles."""
        return self.usual_granularity if self.granularity is None else self.granularity

    @property
    def bucket(self) -> int:
        """Width of the buckets in which results are counted by time: a thousandth of a period."""
        return max(1, self.period // 1000)

    @classmethod
    def of(cls, query: BoundQuery) -> PolicySettings:
        """The settings a query asks for; the defaults of :class:`Quality` where it asks nothing."""
        windows = tuple(stream.window for stream in query.streams)
        quality = query.quality
        if quality is None:
            lengths = [window * NANOSECONDS_PER[query.unit] for window in windows]
            quality = bind_quality(Quality(), lengths, query.unit, [], query.how)
        # The defaults are whole numbers in every unit.
        assert quality is not None
        return cls(
            windows=windows,
            recall=quality.recall,
            period=quality.period,
            interval=quality.interval,
            granularity=quality.granularity,
            usual_granularity=max(1, in_unit(nanoseconds("10 ms", name="g"), query.unit)),
            basic_window=quality.basic_window,
            min_wait=quality.min_wait,
            max_wait=quality.max_wait,
            initial_wait=quality.initial_wait,
            null_precision=quality.null_precision,
        )

"""How a join is run, beside what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from recalljoin.engine.ahead import AUTO
from recalljoin.quality.horizon import DEFAULT_LIMIT
from recalljoin.spark.waiting import BUFFER_MEMORY, MAX_BUFFERED

if TYPE_CHECKING:
    from recalljoin.quality.adaptation import PolicyChoice
    from recalljoin.query.durations import DurationLike, TimeUnit
    from recalljoin.query.sizes import SizeLike
    from recalljoin.spark.learning import Known
    from recalljoin.spark.waiting import WhenFull

HotKeys = Literal["auto", "off"] | Mapping[str, Sequence[Any]]
"""How hot keys are dealt with."""

Arrival = Literal["tick", "tuple"]

METRICS: Final = "recalljoin"
"""Name of the metrics in the query's own progress."""
TICK: Final = "100 ms"
"""Default length of a tick, for recorded arrivals."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a join is run; :func:`recalljoin.join` says what each option means."""

    k: DurationLike | None = None
    policy: PolicyChoice | None = None
    policy_options: Mapping[str, Any] | None = None
    learn_from: Known | None = None
    control_log: str | None = None
    late_rows: bool = False
    idle_after: DurationLike | None = None
    flush: bool = False
    max_ahead: DurationLike | None = AUTO
    retention: DurationLike | None = None
    horizon_memory: SizeLike = DEFAULT_LIMIT
    max_buffered: int | None = MAX_BUFFERED
    buffer_memory: SizeLike | None = BUFFER_MEMORY
    when_full: WhenFull = "release"
    cells: int | None = None
    groups: int | None = None
    hot_keys: HotKeys = "auto"
    follow_partitions: bool = True
    arrival: Arrival = "tick"
    tick: DurationLike = TICK
    time_unit: TimeUnit = "ms"
    name: str = METRICS

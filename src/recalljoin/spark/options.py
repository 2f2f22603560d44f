"""How a join is run, beside what it computes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from recalljoin.engine.ahead import AUTO
from recalljoin.errors import InvalidQuery, InvalidSetting
from recalljoin.quality.horizon import DEFAULT_LIMIT
from recalljoin.query.durations import nanoseconds
from recalljoin.query.given import COUNT, FOLDER, NAME, OPTIONS, POLICY, SWITCH
from recalljoin.query.sizes import n_bytes
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


_SWITCHES: Final = dict.fromkeys(("late_rows", "flush", "follow_partitions"), SWITCH)
_KINDS: Final = {**_SWITCHES, "name": NAME}
_MAY_BE_LEFT_OUT: Final = {
    "cells": COUNT,
    "groups": COUNT,
    "control_log": FOLDER,
    "policy": POLICY,
    "policy_options": OPTIONS,
}
_DURATIONS: Final = ("k", "idle_after", "max_ahead", "retention", "tick")


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

    def __post_init__(self) -> None:
        """See that every option can be what it is, whatever the streams are."""
        faults = [*_kind_faults(self), *_amount_faults(self)]
        if faults:
            raise InvalidSetting("; ".join(faults))
        if self.control_log is not None:
            object.__setattr__(self, "control_log", os.fspath(self.control_log))


def _kind_faults(settings: RunSettings) -> Iterator[str]:
    """Options that are of another kind than they should be."""
    for name, kind in _KINDS.items():
        yield from kind.faults(name, getattr(settings, name))
    for name, kind in _MAY_BE_LEFT_OUT.items():
        value = getattr(settings, name)
        if value is not None:
            yield from kind.faults(name, value)
    if settings.arrival not in get_args(Arrival):
        yield (
            f"`arrival` must be 'tick' or 'tuple', got {settings.arrival!r}; a column that says "
            "when tuples arrived is named in its stream: rj.Stream('o', frame, arrival='at')"
        )
    if settings.when_full not in ("release", "stop"):
        yield f"`when_full` must be 'release' or 'stop', got {settings.when_full!r}"
    if isinstance(settings.hot_keys, str):
        if settings.hot_keys not in ("auto", "off"):
            yield f"`hot_keys` must be 'auto', 'off' or keys by column, got {settings.hot_keys!r}"
    elif not isinstance(settings.hot_keys, Mapping):
        yield (
            f"`hot_keys` must be 'auto', 'off' or keys by column, got {settings.hot_keys!r}; write "
            "for example {'o.customer': ['guest']}"
        )


def _amount_faults(settings: RunSettings) -> Iterator[str]:
    """Durations, sizes and numbers that cannot be."""
    for name in _DURATIONS:
        value = getattr(settings, name)
        if value is None or value == AUTO:
            continue
        try:
            nanoseconds(value, name=name)
        except InvalidQuery as error:
            yield from error.faults
    for name in ("horizon_memory", "buffer_memory"):
        value = getattr(settings, name)
        if value is None and name == "buffer_memory":
            continue
        try:
            n_bytes(value, name=name)
        except InvalidSetting as error:
            yield str(error)
    n = settings.max_buffered
    if n is not None and not (COUNT.fits(n) and n >= 1):
        yield f"`max_buffered` must be a number of tuples, 1 or more, or None, got {n!r}"
    groups = settings.groups
    if groups is not None and COUNT.fits(groups) and groups < 1:
        yield f"`groups` must be 1 or more, got {groups!r}"

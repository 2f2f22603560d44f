"""The settings of a run over a recording: target, policy, and how tuples arrive."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from recalljoin.errors import InvalidQuery, InvalidSetting
from recalljoin.quality.policies import make_policy, policy_names
from recalljoin.quality.settings import PolicySettings
from recalljoin.query.durations import DurationLike, in_unit, nanoseconds
from recalljoin.query.quality import Quality

if TYPE_CHECKING:
    from recalljoin.quality.policy import BufferSizePolicy
    from recalljoin.query.bound_query import BoundQuery
    from recalljoin.query.model import Query

_TARGET = (
    "recall", "period", "interval", "granularity", "basic_window", "min_wait", "max_wait",
    "initial_wait", "null_precision",
)  # fmt: skip
_LENGTHS = ("k", "tick", "batch")


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings of one run over a recording: plain values, so that equal runs compare equal.

    Durations are text such as ``"300 ms"``, whole milliseconds, or timedeltas.

    Parameters
    ----------
    recall, null_precision, period, interval, granularity, basic_window
        The target and how it is pursued, as in :class:`~recalljoin.query.Quality`. A value of None
        is taken from the query, or is the default if the query says nothing.
    min_wait, max_wait, initial_wait
        Likewise.
    policy
        Name of the policy that chooses K.
    k
        K of the policy ``"fixed"``; no other policy takes it.
    options
        Further options of the policy, as pairs of name and value.
    mode
        ``"count"``: results are counted. ``"rows"``: results are produced as well.
    arrival_mode
        Tuples arrive one by one (``"tuple"``), or in ticks of arrival time (``"tick"``).
    tick
        Length of a tick.
    cells
        Operator instances that share the work; several cells need ticks.
    batch
        Length of a micro-batch on the clock of arrival: K adapts at most once per micro-batch, as
        in a streaming query. None: K adapts every interval in one cell; with several cells,
        micro-batches are ``"5 s"`` long.

    Raises
    ------
    InvalidSetting
        When settings are at fault; the message names every fault that shows without the query.
    """

    policy: str = "slack"
    k: DurationLike | None = None
    options: tuple[tuple[str, Any], ...] = ()
    recall: float | None = None
    period: DurationLike | None = None
    interval: DurationLike | None = None
    granularity: DurationLike | None = None
    basic_window: DurationLike | None = None
    min_wait: DurationLike | None = None
    max_wait: DurationLike | None = None
    initial_wait: DurationLike | None = None
    null_precision: float | None = None
    mode: Literal["count", "rows"] = "count"
    arrival_mode: Literal["tuple", "tick"] = "tuple"
    tick: DurationLike = "10 ms"
    cells: int = 1
    batch: DurationLike | None = None

    def __post_init__(self) -> None:
        faults = [
            f"`{name}` must be {_either(known)}, got {getattr(self, name)!r}"
            for name, known in (
                ("policy", policy_names()),
                ("mode", ("count", "rows")),
                ("arrival_mode", ("tuple", "tick")),
            )
            if getattr(self, name) not in known
        ]
        for name in _LENGTHS:
            faults.extend(_length_faults(name, getattr(self, name)))
        if self.policy == "fixed" and self.k is None:
            faults.append("policy 'fixed' needs the slack to use; give `k`, for example '300 ms'")
        if self.policy != "fixed" and self.k is not None:
            faults.append(f"`k` is for the policy 'fixed'; {self.policy!r} chooses its own")
        if self.cells < 1:
            faults.append(f"`cells` must be 1 or more, got {self.cells!r}")
        if self.arrival_mode == "tuple" and self.cells > 1:
            faults.append(
                f"`cells` must be 1 where tuples arrive one by one, got {self.cells!r}; several "
                "cells agree on ticks only, give `arrival_mode` 'tick'"
            )
        if faults:
            raise InvalidSetting("; ".join(faults))

    @property
    def by_batch(self) -> DurationLike | None:
        """Length of a micro-batch; None where K adapts every interval."""
        if self.arrival_mode == "tuple":
            return None
        return "5 s" if self.batch is None and self.cells > 1 else self.batch

    def target(self, query: Query) -> Quality:
        """The target, completed from the query where the setup says nothing."""
        given = {name: getattr(self, name) for name in _TARGET}
        changes = {name: value for name, value in given.items() if value is not None}
        return replace(query.quality or Quality(), **changes)

    def make_policy(self, query: BoundQuery) -> BufferSizePolicy:
        """A new policy, which has seen nothing yet."""
        options = dict(self.options)
        if self.k is not None:
            options["k"] = in_unit(nanoseconds(self.k, name="k"), query.unit)
        return make_policy(self.policy, PolicySettings.of(query), **options)

    def to_json(self) -> dict[str, Any]:
        """As text and numbers."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: str(value) if not isinstance(value, str | int | float | None) else value
            for name, value in content.items()
            if name != "options"
        } | {"options": dict(self.options)}


def _length_faults(name: str, value: DurationLike | None) -> list[str]:
    if value is None:
        return []
    try:
        length = nanoseconds(value, name=name)
    except InvalidQuery as error:
        return list(error.faults)
    if name != "k" and length < 1_000_000:
        return [f"`{name}` must be 1 ms or longer, got {value!r}"]
    return []


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(repr(name) for name in names[:-1])} or {names[-1]!r}"

"""Kinds of join, and when results leave: the two words `how` and `emit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from recalljoin.query.spelling import way_out

if TYPE_CHECKING:
    from collections.abc import Iterator

How = Literal["inner", "left", "right", "full", "semi", "anti"]
"""Which rows a join of two streams has: pairs, tuples without a partner, or both."""
Emit = Literal["ordered", "eager"]
"""When a result leaves: when the watermark passes it, or when its last member has arrived."""

HOWS: Final[tuple[How, ...]] = get_args(How)
EMITS: Final[tuple[Emit, ...]] = get_args(Emit)

_SPARK_SAYS: Final[dict[str, How]] = {
    "cross": "inner",
    "outer": "full",
    "leftouter": "left",
    "rightouter": "right",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
}
"""What Spark calls the kinds in other words, without underscores."""

PRESERVED: Final[dict[How, tuple[int, ...]]] = {
    "inner": (),
    "left": (0,),
    "right": (1,),
    "full": (0, 1),
    "semi": (0,),
    "anti": (0,),
}
"""For each kind the streams of whose tuples it matters whether they have a partner."""


def has_pairs(how: How) -> bool:
    """Whether the rows of a join are pairs, among others."""
    return how in ("inner", "left", "right", "full")


def has_nulls(how: How) -> bool:
    """Whether tuples without a partner are rows of a join."""
    return how in ("left", "right", "full", "anti")


def shown(how: How, m: int) -> tuple[int, ...]:
    """The streams whose columns a join shows."""
    return (0,) if how in ("semi", "anti") else tuple(range(m))


def kind_faults(how: object, emit: object, m: int) -> Iterator[str]:
    """What is wrong with `how` and `emit` for a join of ``m`` streams."""
    if how not in HOWS:
        word = str(how).lower().replace("_", "").replace(" ", "")
        meant = _SPARK_SAYS.get(word, str(how))
        yield f"there is no join `how={how!r}`; {way_out(meant, HOWS, known_as='kinds')}"
    elif how != "inner" and m != 2:
        yield (
            f"a {how} join has two streams, this query has {m}; join two streams, and the result "
            "with the next"
        )
    if emit not in EMITS:
        yield f"there is no way `emit={emit!r}`; {way_out(str(emit), EMITS, known_as='ways')}"


SOURCES_IN_TICKS: Final = "the sources of a stream are followed where tuples arrive in ticks"
"""Why streams cannot have sources where tuples arrive one by one."""


def tick_only_faults(how: How, emit: Emit) -> Iterator[str]:
    """Why a kind of join is refused where tuples arrive one by one."""
    reason = (
        "needs arrival in ticks: where tuples arrive one by one, a late tuple sits in its buffer "
        "until its stream grows, so that it is not known at its arrival what is lost with it"
    )
    if how != "inner":
        yield f"`how={how!r}` {reason}; leave `how` out, or let tuples arrive in ticks"
    if emit != "ordered":
        yield f"`emit={emit!r}` {reason}; leave `emit` out, or let tuples arrive in ticks"

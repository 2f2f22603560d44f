"""What a join condition has besides equalities, and when each part of it is checked.

A conjunct is checked as soon as all streams that it reads have been visited. A program checks it
where the conjunct can be translated into one; otherwise the columns of the candidates are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recalljoin.engine.arrays import Int64s
from recalljoin.engine.block_machine import BLOCK, Code
from recalljoin.engine.program import Program, both

if TYPE_CHECKING:
    from recalljoin.engine.plan import Plan

Filter = Callable[[Int64s], NDArray[np.bool_]]
"""From the rows of candidates, ``[stream, i]``, to whether each satisfies a condition."""


@dataclass(frozen=True)
class Condition:
    """One conjunct that is not an equality between two streams."""

    streams: frozenset[int]
    program: Program | None
    check: Filter
    """Called where there is no program, or where the program would not be exact."""


@dataclass(frozen=True)
class Level:
    """How partial results of one depth are extended and checked."""

    scans: bool
    checks: Int64s
    scan_code: Code | None
    gather_code: Code | None
    checked: tuple[Condition, ...]


def make_level(
    plan: Plan, root_stream: int, depth: int, due: list[Condition], *, exact: bool
) -> Level:
    """How to go on at one depth from the tuples that complete results (the roots).

    Parameters
    ----------
    plan
        Windows, classes of equal attributes and visiting orders.
    root_stream
        The stream of the roots.
    depth
        How many streams besides the root's have been visited.
    due
        Conjuncts that can be checked once the next stream has been visited.
    exact
        Whether programs may be used: no tuple has a value that they cannot represent.
    """
    step = plan.steps[root_stream][depth]
    scans = not plan.key_sets[step.key_set]
    programs = [c.program for c in due if c.program is not None] if exact else []
    program = both(programs) if programs else None
    return Level(
        scans=scans,
        checks=np.array(step.checks, dtype=np.int64).reshape(len(step.checks), 2),
        scan_code=program.scanning(step.stream) if program and scans else None,
        gather_code=program.gathering() if program and not scans else None,
        checked=tuple(c for c in due if c.program is None or not exact),
    )


NO_CODE = Code(
    vector=np.empty((0, 6), dtype=np.int64),
    scalar=np.empty((0, 4), dtype=np.int64),
    scalars=np.zeros(1),
    loads=np.empty((0, 3), dtype=np.int64),
    gathers=np.empty((0, 3), dtype=np.int64),
    result=0,
    registers=np.zeros((1, BLOCK)),
)
"""For kernels that are given no condition."""

"""The sources of some tuples, each once: all that the clocks of sources need to know of a tick.

Routing tasks make them, so this module loads no kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s


def reduced(source: Int64s, ts: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The sources of some tuples in order, with the largest time and the number of tuples of each.

    Examples
    --------
    >>> [column.tolist() for column in reduced(np.array([7, 3, 7]), np.array([10, 20, 30]))]
    [[3, 7], [20, 30], [1, 2]]
    """
    if not len(source):
        return source, ts, source
    order = np.argsort(source, kind="stable")
    numbers = source[order]
    firsts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    tops = np.maximum.reduceat(ts[order], firsts)
    return numbers[firsts], tops, np.diff(firsts, append=len(numbers))

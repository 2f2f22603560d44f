"""Rows on their way out: results, and tuples that leave alone, by the numbers of their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recalljoin.engine.rings import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.probe import Partials
    from recalljoin.engine.verdicts import Alone
    from recalljoin.engine.windows import Windows


class Results(NamedTuple):
    """A chunk of results."""

    rows: Int64s
    """``[stream, i]``: the caller's number of each member; NONE where there is no partner."""
    ts: Int64s


def rows_of(
    pairs: Partials | None, alone: list[Alone], windows: Windows, *, most: int
) -> Iterator[Results]:
    """Rows of results and of tuples that leave alone, at most ``most`` at once.

    Parameters
    ----------
    pairs
        Complete results in the order in which they leave.
    alone
        Tuples that leave alone; among results they take their place by time.
    windows
        Where the tuples are.
    """
    rows, times = [], []
    if pairs is not None:
        rows.append(windows.rows_at(pairs.members))
        times.append(pairs.newest)
    for each in alone:
        mine = np.full((windows.plan.m, len(each.ts)), NONE, dtype=np.int64)
        mine[each.stream] = windows.rows_at(each.record)
        rows.append(mine)
        times.append(each.ts)
    if not rows:
        return
    members, ts = rows[0], times[0]
    if alone:
        ts = np.concatenate(times)
        order = np.argsort(ts, kind="stable")
        members, ts = np.concatenate(rows, axis=1)[:, order], ts[order]
    # Merged chunks of several streams are cut to the size of one chunk.
    for begin in range(0, len(ts), most):
        chunk = slice(begin, begin + most)
        yield Results(members[:, chunk], ts[chunk])

"""Numbers of results that 64 bits cannot hold.

Nothing shows that a count has overflowed and is wrong, so the join stops before it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recalljoin.errors import TooManyResults

if TYPE_CHECKING:
    from recalljoin.engine.arrays import Int64s
    from recalljoin.engine.rings import Sequence
    from recalljoin.query.bound_query import BoundQuery

MOST = 9.2e18
"""Largest number of results of a tuple that is counted. 64 bits end at 9.22e18; the check uses
floating-point numbers, which are not exact."""
TOO_MANY = -1
"""Stands for the number of results of a tuple that has more than :data:`MOST`."""


def check_counts(query: BoundQuery, sequence: Sequence, n_join: Int64s) -> None:
    """Refuse numbers that 64 bits do not hold.

    Parameters
    ----------
    query
        The query, for the names of its streams.
    sequence
        The tuples that reached the join.
    n_join
        For each tuple the number of its results, or :data:`TOO_MANY`.

    Raises
    ------
    TooManyResults
        When one tuple has too many results, or all tuples together have.
    """
    advice = "more than 64 bits can count; use shorter windows or a narrower condition"
    (wrong,) = np.nonzero(n_join == TOO_MANY)
    if len(wrong):
        name = query.streams[int(sequence.stream[wrong[0]])].name
        message = (
            f"a tuple of stream `{name}` at {int(sequence.ts[wrong[0]])} has over {MOST:.2g} "
            f"join results, {advice}"
        )
        raise TooManyResults(message)
    total = float(n_join.sum(dtype=np.float64))
    if total > MOST:
        message = (
            f"{len(n_join)} tuples have {total:.2g} join results together, {advice}, or let "
            "fewer tuples arrive at once"
        )
        raise TooManyResults(message)

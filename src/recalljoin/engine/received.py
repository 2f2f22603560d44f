"""What the join operator tells of the tuples it has received."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s


@dataclass
class Received:
    """What became of a stretch of the join sequence, tuple by tuple."""

    n_join: Int64s
    """Results produced by an in-order tuple, or lost with a late one."""
    n_cross: Float64s
    """Results of the cross join, for in-order tuples."""
    beyond: NDArray[np.bool_]
    """Late tuples beyond the retention horizon: results lost with such a tuple are not known."""
    position: Int64s
    """Where the tuple is in its ring, for tuples that join at their arrival; NONE if nowhere."""
    lost: list[tuple[Int64s, Int64s]] = field(default_factory=list)
    """Timestamps of lost results, with how many of each; may repeat."""

    def part(self, stretch: slice) -> Received:
        """The outcome of some of the tuples, to be filled in."""
        return Received(
            self.n_join[stretch],
            self.n_cross[stretch],
            self.beyond[stretch],
            self.position[stretch],
            self.lost,
        )

    @property
    def lost_ts(self) -> Int64s:
        """Timestamps of lost results."""
        return np.concatenate([_NONE_LOST, *(ts for ts, _ in self.lost)])

    @property
    def lost_n(self) -> Int64s:
        """Number of lost results at each timestamp of :attr:`lost_ts`."""
        return np.concatenate([_NONE_LOST, *(n for _, n in self.lost)])


_NONE_LOST = np.empty(0, dtype=np.int64)

"""What a pipeline tells of the tuples that reached the join in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recalljoin.engine.arrays import Float64s, Int64s


@dataclass(frozen=True)
class Step:
    """What happened between two calls, tuple by tuple in the order of the join sequence."""

    stream: NDArray[np.int8]
    ts: Int64s
    row: Int64s
    """Number of the tuple in its stream, by arrival."""
    delay: Int64s
    base: Int64s
    """Base time at arrival, before the tuple was counted."""
    now: Int64s
    """How far the join had come when it received the tuple."""
    late: NDArray[np.bool_]
    n_join: Int64s
    """Results produced by an in-order tuple, or lost with a late one."""
    n_cross: Float64s
    """Results of the cross join, for in-order tuples."""
    beyond: NDArray[np.bool_]
    """Late tuples beyond the retention horizon, whose losses are not known."""
    lost_ts: Int64s
    """Timestamps of lost results, with how many of each in ``lost_n``; may repeat."""
    lost_n: Int64s
    slack: Int64s
    """``[produced or lost, bin]`` of required slack (:mod:`recalljoin.engine.slack_bins`)."""
    join_time: int
    """How far the join has come: its largest timestamp, or the watermark in tick mode."""
    base_time: int
    counted_since: int
    """Where the retention horizon is: losses with tuples from before are not counted."""

    @property
    def n_produced(self) -> int:
        """Results produced."""
        return int(self.n_join[~self.late].sum())

    @property
    def n_lost(self) -> int:
        """Results lost for good, as far as the retention horizon lets them be counted."""
        return int(self.n_join[self.late].sum())

    @property
    def n_late(self) -> int:
        """Tuples that reached the join out of order."""
        return int(self.late.sum())


def drain(steps: Generator[pa.RecordBatch, None, Step]) -> tuple[list[pa.RecordBatch], Step]:
    """All results of a step in one list, and the step: for inputs known to be small."""
    batches = []
    while True:
        try:
            batches.append(next(steps))
        except StopIteration as end:
            return batches, end.value

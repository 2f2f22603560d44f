"""Operator instances between batches: kept in the memory of the Python worker, if they are lucky.

A random *token* is written to Spark's state with every batch. It tells whether the instance in
memory is the one the state belongs to: after a failed attempt, a retry elsewhere or a restart it is
not, and the instance is rebuilt from the state.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from recalljoin.spark.packing import to_bytes

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from recalljoin.engine import Step

_T = TypeVar("_T")


class Memory(Generic[_T]):
    """Instances of this worker, by run and token.

    Parameters
    ----------
    most
        How many are kept, over all queries.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._instances: OrderedDict[tuple[str, str], _T] = OrderedDict()

    def take(self, run: str, token: str) -> _T | None:
        """Take an instance out while it changes: should it fail halfway, nobody may go on with it.

        Returns None where there is none.
        """
        return self._instances.pop((run, token), None)

    def keep(self, run: str, token: str, instance: _T) -> None:
        """Keep an instance for the batch that finds this token."""
        self._instances[run, token] = instance
        while len(self._instances) > self.most:
            self._instances.popitem(last=False)

    def forget(self, run: str) -> None:
        """Let go of all instances of a run."""
        for key in [key for key in self._instances if key[0] == run]:
            del self._instances[key]


class Watch:
    """Time by stage; stages follow one another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def stop(self, stage: str) -> None:
        """The time since the last stop went into this stage."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now


def encoded(
    steps: Generator[pa.RecordBatch, None, Step], watch: Watch
) -> Generator[bytes, None, Step]:
    """Results as blobs, on their way to Spark."""
    while True:
        try:
            results = next(steps)
        except StopIteration as end:
            step: Step = end.value
            return step
        blob = to_bytes(results)
        watch.stop("join")
        yield blob
        # Until it comes back here, Spark takes the blob and hands it on.
        watch.stop("emit")

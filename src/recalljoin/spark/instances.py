"""Operator instances between batches: kept in the memory of the Python worker, if they are lucky.

A random *token* is written to Spark's state with every batch. It tells whether the instance in
memory is the one the state belongs to: after a failed attempt, a retry elsewhere or a restart it is
not, and the instance is rebuilt from the state.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

ENOUGH_BYTES = 1 << 22
"""Results are handed to Spark when they take as much."""

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


def gathered(
    steps: Generator[pa.RecordBatch, None, _T], watch: Watch
) -> Generator[pa.RecordBatch, None, _T]:
    """Results on their way to Spark, in pieces large enough for what each costs there."""
    held: list[pa.RecordBatch] = []
    n_bytes = 0
    while True:
        try:
            results = next(steps)
        except StopIteration as end:
            if held:
                yield from _handed_on(held, watch)
            outcome: _T = end.value
            return outcome
        held.append(results)
        n_bytes += results.nbytes
        if n_bytes >= ENOUGH_BYTES:
            yield from _handed_on(held, watch)
            held, n_bytes = [], 0


def _handed_on(held: list[pa.RecordBatch], watch: Watch) -> Iterator[pa.RecordBatch]:
    piece = held[0] if len(held) == 1 else pa.concat_batches(held)
    watch.stop("join")
    yield piece
    # Until it comes back here, Spark takes the piece and hands it on.
    watch.stop("emit")

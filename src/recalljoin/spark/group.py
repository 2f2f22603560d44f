"""The cells of one group, run as threads of one Python worker.

Spark hands a group to whichever Python worker is free. With one group for each executor, and
workers that serve nothing else, it is always the same one, and cells find their pipelines in its
memory. Their kernels run outside the interpreter's lock, so they use as many cores as there are
cells.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from recalljoin.spark.cell import CellPlan, run_batch
from recalljoin.spark.report import Report

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import pyarrow as pa

Parcel = tuple[str, bytes | None]

_MOST_WAITING = 4
"""Pieces of results held for Spark to take."""


class GroupStore(Protocol):
    """A group's share of Spark's state; one thread at a time."""

    def read_meta(self, cell: int) -> str | None:
        """What :meth:`write_meta` wrote last."""

    def write_meta(self, cell: int, content: str) -> None:
        """Replace the small part of a cell's state."""

    def read_chunk(self, cell: int, number: int) -> bytes:
        """A chunk."""

    def write_chunk(self, cell: int, number: int, content: bytes) -> None:
        """Add a chunk."""

    def drop_chunk(self, cell: int, number: int) -> None:
        """Remove a chunk."""


@dataclass(frozen=True)
class _CellStore:
    """A cell's share of its group's."""

    store: GroupStore
    cell: int
    lock: threading.Lock

    def read_meta(self) -> str | None:
        with self.lock:
            return self.store.read_meta(self.cell)

    def write_meta(self, content: str) -> None:
        with self.lock:
            self.store.write_meta(self.cell, content)

    def read_chunk(self, number: int) -> bytes:
        with self.lock:
            return self.store.read_chunk(self.cell, number)

    def write_chunk(self, number: int, content: bytes) -> None:
        with self.lock:
            self.store.write_chunk(self.cell, number, content)

    def drop_chunk(self, number: int) -> None:
        with self.lock:
            self.store.drop_chunk(self.cell, number)


def run_group(
    plan: CellPlan, parcels: Mapping[int, Sequence[Parcel]], store: GroupStore, *, batch: int
) -> Generator[pa.RecordBatch, None, list[Report]]:
    """Let the cells of a group take in one batch.

    Yields their results, in the order of each cell; returns all reports.

    Parameters
    ----------
    plan
        What the cells have in common.
    parcels
        What each of them is given.
    store
        Their state.
    batch
        Number of the batch.
    """
    lock = threading.Lock()
    stopped = threading.Event()
    done: queue.Queue[pa.RecordBatch | Report | BaseException] = queue.Queue(_MOST_WAITING)

    def put(item: pa.RecordBatch | Report | BaseException) -> None:
        while not stopped.is_set():
            try:
                done.put(item, timeout=0.5)
            except queue.Full:
                continue
            return

    def work(cell: int) -> None:
        try:
            steps = run_batch(plan, cell, parcels[cell], _CellStore(store, cell, lock), batch=batch)
            while not stopped.is_set():
                try:
                    results = next(steps)
                except StopIteration as end:
                    put(end.value)
                    return
                put(results)
        except BaseException as error:
            put(error)

    threads = [threading.Thread(target=work, args=(cell,), daemon=True) for cell in sorted(parcels)]
    for thread in threads:
        thread.start()
    reports: list[Report] = []
    try:
        while len(reports) < len(threads):
            item = done.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Report):
                reports.append(item)
            else:
                yield item
    finally:
        # Should one cell fail, or Spark give up, no other may go on writing state.
        stopped.set()
        for thread in threads:
            thread.join()
    return reports

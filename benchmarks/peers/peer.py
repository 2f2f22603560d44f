"""How a peer is run in its own environment: over a small input twice, then over the whole.

The first run over the small input is the start. The second says what a run takes that has hardly
any tuples, and that is taken off the time of the whole: what is left is for the tuples alone, and
is what all batches but the first take on Spark.

This module needs numpy and Arrow only.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.inputs import Input
from benchmarks.measure import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 2
"""Threads or instances of every system; Spark's joins and ours have as many cores."""


@dataclass(frozen=True)
class Cell:
    """One run of one system over one input: a cell of the tables."""

    system: str
    n_tuples: int
    start: float
    seconds: float
    processor_seconds: float
    n_results: int
    checksum: int
    version: str
    failure: str = ""
    """Why there are no numbers: what the system said, or that its time was over."""


def small(made: Input) -> Input:
    """The first batch of an input alone."""
    return replace(made, n=0, n_batches=1)


def main(system: str, version: str, join: Callable[[Input, Path], tuple[int, int]]) -> None:
    """Run a peer over ``MADE FOLDER SMALL_FOLDER``, and print what was measured as JSON.

    Parameters
    ----------
    system, version
        What is run.
    join
        Joins the streams in a folder: the number of results and their checksum.
    """
    made = Input(**json.loads(sys.argv[1]))
    folder, small_folder = Path(sys.argv[2]), Path(sys.argv[3])
    marks = [perf_counter()]
    for _ in range(2):
        join(small(made), small_folder)
        marks.append(perf_counter())
    n_results, checksum = join(made, folder)
    marks.append(perf_counter())
    start, again, whole = (after - before for before, after in pairwise(marks))
    cell = Cell(
        system,
        made.n_streams * made.n,
        start,
        whole - again,
        processor_seconds(os.getpid()),
        n_results,
        checksum,
        version,
    )
    print(json.dumps(asdict(cell)))

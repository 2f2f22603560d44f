"""A worker does not keep the memory that rebuilding a cell took."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from recalljoin.spark.group import give_back

MEGABYTE = 1_000_000


def resident() -> int:
    """Memory of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells of a process")
def test_memory_that_is_free_goes_back_to_the_system() -> None:
    # Small enough to lie side by side; the last one keeps the others from being given back.
    blocks = [np.ones(10_000) for _ in range(2_000)]
    held = resident()
    last = blocks.pop()
    blocks.clear()
    give_back()
    assert held - resident() > 100 * MEGABYTE
    assert last.sum() == 10_000

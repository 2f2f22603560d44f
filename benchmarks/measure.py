"""Timing and printing."""

from __future__ import annotations

import os
import platform
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Report:
    """A table of measurements, printed as it grows and kept as Markdown."""

    title: str
    columns: tuple[str, ...]
    note: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """One more row."""
        row = tuple(str(cell) for cell in cells)
        if not self.rows:
            print(f"\n{self.title}\n  " + "  ".join(f"{c:>18}" for c in self.columns))
        self.rows.append(row)
        print("  " + "  ".join(f"{cell:>18}" for cell in row), flush=True)

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"## {self.title}", ""]
        if self.note:
            lines += [wrapped(self.note), ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "---|" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines)


def wrapped(text: str) -> str:
    """A paragraph in lines that fit a page."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def best_of(run: Callable[[], object], *, times: int = 3) -> float:
    """Seconds of processor time of the fastest of several runs, after one that does not count.

    Processor time, because the machines are shared: what another process takes is not ours.
    """
    run()
    seconds = []
    for _ in range(times):
        start = process_time()
        run()
        seconds.append(process_time() - start)
    return min(seconds)


def wall(run: Callable[[], object]) -> float:
    """Seconds by the clock on the wall."""
    start = perf_counter()
    run()
    return perf_counter() - start


def machine() -> str:
    """What the numbers were taken on."""
    model = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    # Others' work on a shared machine costs cache and clock even where time is counted per process.
    load = f"load average {os.getloadavg()[0]:.1f}"
    python = f"Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {load}, {python}, {platform.system()}"

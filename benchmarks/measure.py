"""Timing and printing."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import tempfile
import textwrap
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

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


def printed(command: list[str], *, timeout: float | None = None, **env: str) -> dict[str, Any]:
    """Run a command, and read the JSON that it prints last.

    If its time is over it is ended with all that it has started, and `TimeoutError` is raised.
    """
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        subprocess.Popen(command, stdout=out, stderr=err, text=True, env=os.environ | env) as run,
    ):
        try:
            run.wait(timeout)
        except subprocess.TimeoutExpired:
            for process in descendants(run.pid):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            message = f"not done after {timeout:.0f} s"
            raise TimeoutError(message) from None
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    if run.returncode != 0:
        raise RuntimeError(texts[0][-2000:] + texts[1][-4000:])
    content: dict[str, Any] = json.loads(texts[0].splitlines()[-1])
    return content


def descendants(root: int) -> dict[int, list[str]]:
    """The fields of ``stat`` of a process and of all that descend from it."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
    parents = {process: int(fields[1]) for process, fields in found.items()}

    def descends(process: int) -> bool:
        while process not in (root, 0):
            process = parents.get(process, 0)
        return process == root

    return {process: fields for process, fields in found.items() if descends(process)}


def processor_seconds(root: int) -> float:
    """Processor time of a process and all that descend from it."""
    # Its own time, and that of children it has waited for.
    ticks = sum(sum(map(int, fields[11:15])) for fields in descendants(root).values())
    return ticks / os.sysconf("SC_CLK_TCK")


def python_bytes(root: int) -> int:
    """Memory of the Python processes below a process; a page that several share counts in parts."""
    total = 0
    for process in descendants(root):
        try:
            is_python = "python" in Path(f"/proc/{process}/exe").resolve().name
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        if is_python and process != root:
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total
